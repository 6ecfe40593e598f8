package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
)

// NewDomain says how a new cluster is to begin.
type NewDomain struct {
	Secrets    [][]byte       // cluster secrets, at least 16 bytes each; the first makes the credential
	Seats      map[int]string // peer address, host:port, by seat: 1 to 3 or 1 to 5
	Valid      time.Duration  // how long the nodes have to find each other; 1 s to 24 h
	TokenFloor uint64         // every token is larger
	AfterLoss  bool           // leases of a lost domain may still run: nothing is granted for 250 s
}

// Mint makes the bootstrap credential of the domain, to be given to all of its first nodes, and says when it ends. It is a secret, and
// good for one bootstrap. An error is about the fields of d, or with the exit code 78 (see ExitCode) about the clock.
func (d *NewDomain) Mint(now time.Time) (credential string, ends time.Time, err error) {
	secrets, err := auth.NewClusterSecrets(d.Secrets...)
	if err != nil {
		return "", time.Time{}, err
	}
	if !raft.ValidSize(len(d.Seats)) {
		return "", time.Time{}, fmt.Errorf("%d seats: a cluster has 3 or 5", len(d.Seats))
	}
	if d.Valid < leastValid || d.Valid > mostValid {
		return "", time.Time{}, fmt.Errorf("valid for %v: %v to %v are allowed", d.Valid, leastValid, mostValid)
	}
	base, err := tokenBase(now.UnixMilli(), d.TokenFloor, 0)
	if err != nil {
		return "", time.Time{}, err
	}
	ends = now.Add(d.Valid)
	c := auth.BootstrapCredential{
		TokenBase: base, NotBeforeMillis: now.Add(-bootstrapClockSlack).UnixMilli(), NotAfterMillis: ends.UnixMilli(), AfterLoss: d.AfterLoss,
	}
	rand.Read(c.Domain[:])
	if c.Seats, err = d.credentialSeats(); err != nil {
		return "", time.Time{}, err
	}
	credential, err = c.Mint(secrets)
	return credential, ends, err
}

// credentialSeats checks the addresses of the seats, each alone and against the others.
func (d *NewDomain) credentialSeats() (seats []auth.CredentialSeat, err error) {
	taken := map[string]bool{}
	var near, far []string // on any machine, loopback addresses lead to that machine itself
	for seat := 1; seat <= len(d.Seats); seat++ {
		addr, ok := d.Seats[seat]
		if !ok {
			return nil, fmt.Errorf("seat %d is missing: the seats of %d nodes are 1 to %d", seat, len(d.Seats), len(d.Seats))
		}
		if err := CheckPeerAddress(addr); err != nil {
			return nil, fmt.Errorf("seat %d=%q: %w", seat, addr, err)
		}
		if taken[addr] {
			return nil, errors.New("two seats have the address " + addr)
		}
		taken[addr] = true
		host, _, _ := splitAddress(addr)
		if _, err := netip.ParseAddr(host); isLoopback(host) {
			near = append(near, addr)
		} else if err == nil { // what another name stands for is not known here
			far = append(far, addr)
		}
		seats = append(seats, auth.CredentialSeat{Seat: uint8(seat), PeerAddr: addr})
	}
	if len(near) > 0 && len(far) > 0 {
		return nil, fmt.Errorf("%s is reached from its own machine alone, but there is %s too: give addresses at which every node reaches every other",
			near[0], far[0])
	}
	return seats, nil
}

// bootstrapClockSlack is how far a node's clock may be behind that of the machine on which the credential was made.
const bootstrapClockSlack = time.Minute
