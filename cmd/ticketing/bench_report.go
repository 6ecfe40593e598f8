package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// reportCycles prints measurements of one plan side by side, the first of which is this server's.
func (b *bench) reportCycles(results []result) error {
	if b.options.asJSON {
		if err := writeJSON(b.stdout, results); err != nil {
			return err
		}
	} else {
		r := results[0]
		fmt.Fprintf(b.stdout, "%s\n%d connections x %d in flight, %d keys, %.1f s%s\n\n", machineName(), r.Connections, r.InFlight, r.Keys,
			r.Seconds, b.binding())
		for _, r := range results {
			r.print(b.stdout)
			if r.Name != results[0].Name && r.Rate > 0 && r.Latency.P50 > 0 {
				fmt.Fprintf(b.stdout, "  %s is %.2f times this in requests/s, and its p50 is %.2f times this one's\n",
					results[0].Name, results[0].Rate/r.Rate, results[0].Latency.P50/r.Latency.P50)
			}
		}
	}
	return results[0].check()
}

// binding says which processors were used, for a person.
func (b *bench) binding() string {
	if len(b.cpus)+len(b.serverCPUs) == 0 {
		return ", not bound to processors"
	}
	return fmt.Sprintf(", load on %s, server on %s", cpuNames(b.cpus), cpuNames(b.serverCPUs))
}

func cpuNames(cpus []int) string {
	if len(cpus) == 0 {
		return "any processor"
	}
	return "processor " + strings.Trim(fmt.Sprint(cpus), "[]")
}

func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", r.Name)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  requests/s\t%s\t(%s acquire + release pairs/s)\n", thousands(r.Rate), thousands(r.Rate/2))
	fmt.Fprintf(t, "  latency\tp50 %s\tp99 %s\tp99.9 %s\tmax %s\n", micros(r.Latency.P50), micros(r.Latency.P99), micros(r.Latency.P999), micros(r.Latency.Max))
	if r.Slowest > 0 {
		fmt.Fprintf(t, "  hand-offs/s\t%s\tslowest client %.2f of the mean\n", thousands(float64(r.Granted)/r.Seconds), r.Slowest)
	}
	if s := r.Server; s != nil {
		fmt.Fprintf(t, "  server\t%.2f cores\t%.3f us/request\tRSS %s\tpeak %s\n", s.Cores, s.MicrosEach, megabytes(s.RSS), megabytes(s.PeakRSS))
	}
	fmt.Fprintf(t, "  processors\tload %.2f cores\tother processes %.2f cores\n", r.OwnCores, r.OtherCores)
	if refused := r.refusals(); refused != "" {
		fmt.Fprintf(t, "  not done\t%s\n", refused)
	}
	t.Flush()
}

// refusals lists what was not granted or not released; "" for nothing.
func (r *result) refusals() string {
	var list []string
	if r.TimedOut > 0 {
		list = append(list, fmt.Sprintf("timed out %d", r.TimedOut))
	}
	for name, n := range r.Refused {
		list = append(list, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// check makes what was not done an error, so that no script takes a failure for speed.
func (r *result) check() error {
	if refused := r.refusals(); refused != "" {
		return withExit(exitNegative, errors.New("not every request did what it was to do: "+refused))
	}
	if r.Granted == 0 {
		return withExit(exitNegative, errors.New("nothing was granted"))
	}
	return nil
}

func (b *bench) reportHold(r holdResult, err error) error {
	if err != nil {
		return err
	}
	if b.options.asJSON {
		return writeJSON(b.stdout, r)
	}
	t := tabwriter.NewWriter(b.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d keys of %d bytes\tacquired in %.2f s\t%s/s\n", r.Keys, r.KeySize, r.FillSeconds, thousands(r.FillRate))
	if r.RSSHeld > 0 {
		fmt.Fprintf(t, "RSS\t%s before\t%s with all held\t%s peak\t%s after expiry\n",
			megabytes(r.RSSBefore), megabytes(r.RSSHeld), megabytes(r.RSSPeak), megabytes(r.RSSAfter))
		fmt.Fprintf(t, "bytes a key\t%d\n", (r.RSSHeld-r.RSSBefore)/int64(r.Keys))
	}
	fmt.Fprintf(t, "longest request of a probe\t%.2f ms before\t%.2f ms while acquiring\t%.2f ms while all expired\n", r.Quiet.Longest, r.Filling.Longest, r.Expiring.Longest)
	fmt.Fprintf(t, "afterwards\t%d keys were free\n", r.Regranted)
	return t.Flush()
}

func (b *bench) reportIdle(r idleResult, err error) error {
	if err != nil {
		return err
	}
	if b.options.asJSON {
		return writeJSON(b.stdout, r)
	}
	t := tabwriter.NewWriter(b.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d connections\tin %.2f s\t%d pings, all answered\n", r.Connections, r.Connecting, r.Pings)
	if r.RSSOpen > 0 {
		fmt.Fprintf(t, "RSS\t%s before\t%s connected\t%s after pings\t%s peak\n",
			megabytes(r.RSSBefore), megabytes(r.RSSOpen), megabytes(r.RSSAfter), megabytes(r.RSSPeak))
		fmt.Fprintf(t, "bytes a connection\t%d\n", (r.RSSAfter-r.RSSBefore)/int64(r.Connections))
	}
	return t.Flush()
}

// thousands writes a number with commas.
func thousands(x float64) string {
	s := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func micros(us float64) string {
	if us >= 10_000 {
		return fmt.Sprintf("%.1f ms", us/1000)
	}
	return fmt.Sprintf("%.1f us", us)
}

// megabytes are of 10^6 bytes, as the budgets are.
func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// isTerminal takes every character device for one: the worst is a progress line that nobody sees.
func isTerminal(info os.FileInfo) bool { return info.Mode()&os.ModeCharDevice != 0 }
