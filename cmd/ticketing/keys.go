package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
)

func keysCommand() *command {
	var f adminFlags
	c := &command{
		name:    "keys",
		args:    "[--prefix P] [--held-longer 10s]",
		summary: "list who holds what, since when, until when, and how many wait",
		details: "The list is read page by page while locks come and go. Tokens are shown with the admin token alone.\n" +
			"Of several admin endpoints the leader's is asked, or without a leader the first that answers.",
		environ: adminEnviron(),
		exits:   append([]string{"0 done"}, adminExits()...),
		example: "ticketing keys --prefix billing- --held-longer 1m",
		flags:   newFlags("keys"),
	}
	f.register(c.flags)
	prefix := c.flags.String("prefix", "", "only keys that begin with `text`")
	heldLonger := c.flags.Duration("held-longer", 0, "only keys held for longer than `duration`")
	limit := c.flags.Int("limit", 0, "at most `N` keys; 0: all")
	asJSON := c.flags.Bool("json", false, "print JSON")
	c.run = func(p *process, args arguments) error {
		if len(args.all()) > 0 {
			return usageError("takes no arguments; --prefix selects keys")
		}
		if *heldLonger < 0 || *limit < 0 {
			return usageError("--held-longer and --limit cannot be negative")
		}
		if err := f.prepare(p); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		endpoint, err := f.leader(ctx)
		if err != nil {
			return err
		}
		keys, err := endpoint.keys(ctx, keysQuery{*prefix, *heldLonger}, nil, *limit)
		if err != nil {
			return err
		}
		if *asJSON {
			return writeJSON(p.stdout, struct {
				Keys []heldKey `json:"keys"`
			}{keys})
		}
		return printKeys(p.stdout, keys)
	}
	return c
}

// printKeys writes a table. What clients chose is quoted, so that it cannot steer a terminal.
func printKeys(w io.Writer, keys []heldKey) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "KEY\tHOLDER\tADDRESS\tOWNER\tTOKEN\tSINCE\tUNTIL\tWAITING\n")
	for _, k := range keys {
		name, waiters := "-", "-"
		if k.Name != nil {
			name = fmt.Sprintf("%q", *k.Name)
		}
		if k.Waiters != nil {
			waiters = fmt.Sprint(*k.Waiters)
		}
		fmt.Fprintf(t, "%q\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.Key, name, orDash(k.Addr), plain(k.Owner), plain(k.Token),
			k.GrantedAt.UTC().Format(time.RFC3339), k.LeaseEnd.UTC().Format(time.RFC3339), waiters)
	}
	return t.Flush()
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return plain(*s)
}

// plain returns s as it is if it is printable ASCII without spaces, as servers send where clients have no say; otherwise quoted, and "-"
// for "".
func plain(s string) string {
	if s == "" {
		return "-"
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
