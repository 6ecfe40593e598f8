package main

import (
	"context"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func acquireCommand() *command {
	var f lockFlags
	c := &command{
		name:    "acquire",
		args:    "[--wait 10s] [--lease 60s] KEY",
		summary: "acquire KEY and print its token and owner, with which it is released",
		details: `The lock outlives this command: it is held until it is released or the lease ends. Hand the token to the resource
that the lock protects, which refuses a smaller one than it has seen.`,
		environ: clientEnviron(),
		exits:   append([]string{"0 granted"}, clientExits()...),
		example: "eval \"$(ticketing acquire --wait 5s --lease 30s nightly-report)\"\nticketing release --owner $owner --token $token nightly-report",
		flags:   newFlags("acquire"),
	}
	f.register(c.flags)
	asJSON := c.flags.Bool("json", false, "print JSON")
	c.run = func(p *process, args arguments) error {
		key, err := oneKey(args)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		broker, ticket, err := f.acquire(ctx, p, key)
		if err != nil {
			return err
		}
		defer broker.Close()
		if *asJSON {
			err = writeJSON(p.stdout, grant{key, decimal(ticket.Token()), decimal(ticket.Owner()), ticket.Deadline().UTC()})
		} else {
			_, err = fmt.Fprintf(p.stdout, "token=%d owner=%d\n", ticket.Token(), ticket.Owner())
		}
		if err != nil {
			// Nobody has seen the token, so nobody could release the lock.
			ticket.Release(context.Background())
			return withExit(exitNegative, fmt.Errorf("printing the token, and so the lock was released: %w", err))
		}
		return nil
	}
	return c
}

// grant is what acquire prints. Numbers are strings, because many JSON readers cannot hold 64 bits exactly.
type grant struct {
	Key      string    `json:"key"`
	Token    string    `json:"token"`
	Owner    string    `json:"owner"`
	Deadline time.Time `json:"deadline"`
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// oneKey returns the only argument.
func oneKey(args arguments) (string, error) {
	list := args.all()
	if len(list) != 1 {
		return "", usageError("want one KEY, got %d arguments", len(list))
	}
	return list[0], nil
}
