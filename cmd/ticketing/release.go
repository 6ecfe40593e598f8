package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"ticketing.internal/client"
)

// releaseTime is how long release tries to reach a server.
const releaseTime = 5 * time.Second

func releaseCommand() *command {
	var f clientFlags
	var admin adminFlags
	c := &command{
		name:    "release",
		args:    "--owner O --token T KEY | --force KEY",
		summary: "release the grant of KEY that has this owner and token, or whichever it has",
		details: `A release is exact: if the lease has ended, or KEY was granted anew, nothing changes and the exit code is 1.

With --force the admin endpoint is asked who holds KEY. That is shown, and exactly that grant is released. Its holder
is not told: what it does until its lease ends is stopped by fencing alone.`,
		environ: append(clientEnviron(), adminEnviron()...),
		exits:   append([]string{"0 released", "1 not held so"}, clientExits()...),
		example: "ticketing release --owner 7 --token 471963245060718593 nightly-report\nTICKETING_ADMIN_TOKEN_FILE=admin-token ticketing release --force nightly-report",
		flags:   newFlags("release"),
	}
	f.register(c.flags)
	c.flags.Var(&admin.urls, "admin", "`URL` of an admin endpoint, for --force; may be repeated")
	owner := c.flags.String("owner", "", "`number` that acquire printed")
	token := c.flags.String("token", "", "`number` that acquire printed; it is no secret, but a fencing token")
	force := c.flags.Bool("force", false, "ask the admin endpoint for owner and token")
	c.run = func(p *process, args arguments) error {
		key, err := oneKey(args)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		var held grantRef
		if *force {
			if *owner != "" || *token != "" {
				return usageError("--force asks for owner and token: leave --owner and --token away")
			}
			admin.tlsFlags = f.tlsFlags
			held, err = holderOf(ctx, p, &admin, key)
		} else {
			held, err = parseGrantRef(*owner, *token)
		}
		if err != nil {
			return err
		}
		broker, err := f.connect(ctx, p, releaseTime, client.Hooks{})
		if err != nil {
			return err
		}
		defer broker.Close()
		if err := broker.Release(ctx, key, held.owner, held.token); err != nil {
			if errors.Is(err, client.ErrNotHeld) {
				return withExit(exitNegative, fmt.Errorf("%q is not held with owner %d and token %d", key, held.owner, held.token))
			}
			return err
		}
		fmt.Fprintf(p.stdout, "released %q\n", key)
		return nil
	}
	return c
}

// grantRef names a grant of a key.
type grantRef struct{ owner, token uint64 }

func parseGrantRef(owner, token string) (grantRef, error) {
	var r grantRef
	if owner == "" || token == "" {
		return r, usageError("want --owner and --token as acquire printed them, or --force")
	}
	var errs [2]error
	r.owner, errs[0] = strconv.ParseUint(owner, 10, 64)
	r.token, errs[1] = strconv.ParseUint(token, 10, 64)
	if errs != [2]error{} || r.owner == 0 || r.token == 0 {
		return r, usageError("--owner %q --token %q: want numbers from 1 to 2^64-1", owner, token)
	}
	return r, nil
}

// holderOf asks who holds key, and shows it.
func holderOf(ctx context.Context, p *process, admin *adminFlags, key string) (grantRef, error) {
	if err := admin.prepare(p); err != nil {
		return grantRef{}, err
	}
	if admin.token == "" {
		return grantRef{}, withExit(exitConfig, errors.New("--force needs TICKETING_ADMIN_TOKEN or TICKETING_ADMIN_TOKEN_FILE: without it the admin endpoint does not tell tokens"))
	}
	endpoint, err := admin.leader(ctx)
	if err != nil {
		return grantRef{}, err
	}
	keys, err := endpoint.keys(ctx, keysQuery{prefix: key}, func(k *heldKey) bool { return k.Key == key }, 1)
	if err != nil {
		return grantRef{}, err
	}
	if len(keys) == 0 {
		return grantRef{}, withExit(exitNegative, fmt.Errorf("nobody holds %q", key))
	}
	if keys[0].Token == "" {
		return grantRef{}, withExit(exitAuth, fmt.Errorf("%s does not tell the token of %q: is the admin token the server's?", endpoint.url, key))
	}
	printKeys(p.stdout, keys)
	return parseGrantRef(keys[0].Owner, keys[0].Token)
}
