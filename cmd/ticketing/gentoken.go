package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

func genTokenCommand() *command {
	c := &command{
		name:    "gen-token",
		summary: "print a random secret for TICKETING_TOKEN, TICKETING_ADMIN_TOKEN or TICKETING_CLUSTER_SECRET",
		details: "256 random bits in base64url, so that it needs no quoting in a shell or an environment file.",
		exits:   []string{"0 done"},
		example: "(umask 077; ticketing gen-token > token)\nTICKETING_TOKEN_FILE=token ticketing server",
		flags:   newFlags("gen-token"),
	}
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		var secret [32]byte
		rand.Read(secret[:]) // never fails: it ends the program instead
		_, err := fmt.Fprintln(p.stdout, base64.RawURLEncoding.EncodeToString(secret[:]))
		return err
	}
	return c
}
