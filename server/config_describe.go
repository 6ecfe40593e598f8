package server

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Describe writes the effective configuration, secrets masked, then the warnings that a start would log, and the memory that the
// limits allow at worst. It is what server --check prints.
func (c *Config) Describe(w io.Writer) {
	effective, defaults := *c, DefaultConfig()
	if effective.Advertise = c.AdvertisedAddr(); c.Advertise == "" {
		defaults.Advertise = effective.Advertise
	}
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	usual, node := defaults.variables(), len(c.nodeVariables()) > 0
	for i, v := range effective.variables() {
		if v.cluster && !node {
			continue
		}
		text, note := v.value.String(), ""
		if text == usual[i].value.String() {
			note = "(default)"
		}
		if text == "" {
			text = "-"
		}
		fmt.Fprintf(tabs, "%s\t%s\t%s\n", v.name, text, note)
	}
	tabs.Flush()
	for _, line := range c.Warnings() {
		fmt.Fprintf(w, "warning: %s\n", line)
	}
	c.describeMemory(w)
}

// What one of each costs at worst, in bytes of the process; buffers in the kernel are not counted. TestMemoryConstants measures
// keys and waiters. An idle connection was measured at 740 B in plaintext and 36 KiB with TLS.
const (
	processBytes       = 12 << 20
	keyBytes           = 240 // with the longest key
	waiterBytes        = 88
	connectionBytes    = 1 << 10
	tlsConnectionBytes = 64 << 10
	retainedLogBytes   = 64 << 20 // while a snapshot is on its way (cluster.md, Raft)
	snapshotLockBytes  = 208      // 161 with the longest key, and the room that a growing buffer leaves
)

// describeMemory writes what each limit can cost when it is reached, and the sum.
func (c *Config) describeMemory(w io.Writer) {
	perConnection, kind := int64(connectionBytes), "plaintext connections"
	if c.TLSCert != "" {
		perConnection, kind = tlsConnectionBytes, "TLS connections"
	}
	type item struct {
		what  string
		count int64
		each  int64
	}
	items := []item{
		{"the process itself", 1, processBytes},
		{"held keys", int64(c.MaxKeys), keyBytes},
		{"waiters", int64(c.MaxWaiters), waiterBytes},
		{kind, int64(c.MaxConnections), perConnection},
		{"bytes of unsent replies", c.MaxBuffered, 1},
	}
	if len(c.nodeVariables()) > 0 {
		items = append(items,
			item{"bytes of the Raft log", max(c.Cluster.LogMemory, retainedLogBytes), 1},
			item{"locks in a snapshot", int64(c.MaxKeys), snapshotLockBytes})
	}
	fmt.Fprintln(w, "memory at worst, with every limit reached:")
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var sum int64
	for _, item := range items {
		sum += item.count * item.each
		fmt.Fprintf(tabs, "%s\t%d x %d B =\t%s\t\n", item.what, item.count, item.each, formatMebibytes(item.count*item.each))
	}
	fmt.Fprintf(tabs, "in all\t\t%s\t\n", formatMebibytes(sum))
	tabs.Flush()
}

func formatMebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/mebibyte) }
