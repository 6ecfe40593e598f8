package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/server"
)

// clusterCommands are `ticketing cluster ...`, each a command of its own whose name has two words.
func clusterCommands() []*command {
	return []*command{
		clusterInitCommand(), clusterStatusCommand(), clusterReplaceCommand(), clusterAbortCommand(), clusterTransferCommand(), clusterCanStopCommand(),
	}
}

// asksCluster completes c, which has its own flags already, to a command that asks a cluster. check, which may be nil, refuses wrong
// flags before any node is asked; ask is called with a client of the cluster.
func asksCluster(c *command, check func() error, ask func(context.Context, *process, *server.ControlClient) error) *command {
	var f clusterFlags
	f.register(c.flags)
	c.environ = []string{
		"TICKETING_PEERS peer addresses of nodes, with commas between them (--peer)",
		"TICKETING_CLUSTER_SECRET the cluster secret (or TICKETING_CLUSTER_SECRET_FILE)",
		"TICKETING_PEER_TLS_CERT PEM file, where nodes use TLS; with TICKETING_PEER_TLS_KEY and TICKETING_PEER_TLS_CA",
	}
	c.args = strings.TrimSpace(c.args + " [--peer HOST[:PORT]]")
	c.exits = append(c.exits, "69 no node reachable, or none that leads",
		"77 another cluster secret, a certificate, or none where nodes use TLS", "78 configuration")
	slices.Sort(c.exits)
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		if f.timeout <= 0 {
			return usageError("--timeout %v: want a duration above 0s", f.timeout)
		}
		if check != nil {
			if err := check(); err != nil {
				return err
			}
		}
		client, err := f.client(p)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		return clusterError(ask(ctx, p, client))
	}
	return c
}

// clusterFlags say how a cluster is reached.
type clusterFlags struct {
	peers   listFlag
	timeout time.Duration
}

// clusterTimeout bounds a command. It is long enough for an election in between.
const clusterTimeout = 10 * time.Second

func (f *clusterFlags) register(fs *flag.FlagSet) {
	fs.Var(&f.peers, "peer", "`HOST[:PORT]` of a node's peer port, 5325 by default; may be repeated")
	fs.DurationVar(&f.timeout, "timeout", clusterTimeout, "how long to wait for an answer")
}

// client joins flags and environment.
func (f *clusterFlags) client(p *process) (*server.ControlClient, error) {
	secrets, err := p.clusterSecrets()
	if err != nil {
		return nil, err
	}
	peers, list := f.peers, p.variable("TICKETING_PEERS")
	if err := checkPeers(peers); err != nil {
		return nil, usageError("--peer %v", err)
	}
	if len(peers) == 0 && list != "" {
		if err := errors.Join(peers.Set(list), checkPeers(peers)); err != nil {
			return nil, withExit(exitConfig, fmt.Errorf("TICKETING_PEERS=%q: %w", list, err))
		}
	}
	client, err := server.NewControlClient(server.ControlConfig{
		Peers: peers, Secrets: secrets, TLSCert: p.variable("TICKETING_PEER_TLS_CERT"), TLSKey: p.variable("TICKETING_PEER_TLS_KEY"),
		TLSCA: p.variable("TICKETING_PEER_TLS_CA"),
	})
	if err != nil {
		return nil, withExit(exitConfig, err)
	}
	return client, nil
}

// checkPeers adds the default port to the addresses that have none, and reports all that are wrong.
func checkPeers(peers []string) error {
	const port = "5325"
	var problems []error
	for i, addr := range peers {
		host := strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
		if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(addr, ":") { // the colons of IPv6 are its own
			peers[i] = net.JoinHostPort(host, port)
		}
		if err := server.CheckPeerAddress(peers[i]); err != nil {
			problems = append(problems, fmt.Errorf("%q: %w", addr, err))
		}
	}
	return errors.Join(problems...)
}

// clusterSecrets reads the cluster secrets of the environment: with commas between them, or in a file one a line.
func (p *process) clusterSecrets() ([][]byte, error) {
	const name = "TICKETING_CLUSTER_SECRET"
	text, err := p.secret(name)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, withExit(exitConfig, errors.New(name+" is not set: it is what the nodes have (ticketing gen-token makes one)"))
	}
	separator := ","
	if p.variable(name+"_FILE") != "" {
		separator = "\n"
	}
	var secrets [][]byte
	for secret := range strings.SplitSeq(text, separator) {
		secrets = append(secrets, []byte(strings.TrimSuffix(secret, "\r")))
	}
	if _, err := auth.NewClusterSecrets(secrets...); err != nil {
		return nil, withExit(exitConfig, fmt.Errorf("%s: %w", name, err))
	}
	return secrets, nil
}

// clusterError gives an error of a ControlClient its exit code.
func clusterError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, server.ErrClusterSecret), errors.Is(err, server.ErrNodesUseTLS), errors.Is(err, server.ErrPeerCertificate):
		return withExit(exitAuth, err)
	case errors.Is(err, server.ErrOutcomeUnknown):
		return withExit(exitIndeterminate, err)
	case errors.Is(err, server.ErrUnknownSeat):
		return withExit(exitUsage, err)
	case errors.Is(err, server.ErrNoLeader), errors.Is(err, server.ErrClusterUnreachable):
		return withExit(exitUnreachable, err)
	}
	return err
}
