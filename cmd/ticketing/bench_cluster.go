package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/server"
)

const (
	benchSeats  = 3
	clusterTime = time.Minute // how long a cluster may take until it serves, or is whole again
)

// benchCluster is three nodes of this binary on loopback.
type benchCluster struct {
	nodes   []*child // in seats 1, 2 and 3
	control *server.ControlClient
	broker  *client.Broker
	dir     string // the nodes' state directories are in it
}

// clusterTries is how often starting a cluster is tried: a port that was free a moment ago may be taken by then.
const clusterTries = 3

// startCluster bootstraps a cluster. Its nodes have the environment of this process but for addresses, state and identity.
func (b *bench) startCluster(ctx context.Context) (c *benchCluster, err error) {
	for range clusterTries {
		if c, err = b.tryCluster(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return c, err
}

func (b *bench) tryCluster(ctx context.Context) (*benchCluster, error) {
	c := &benchCluster{}
	err := c.start(b)
	if err == nil {
		_, err = c.leader(ctx)
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("starting a cluster of %d nodes: %w", benchSeats, err)
	}
	return c, nil
}

func (c *benchCluster) start(b *bench) (err error) {
	if c.dir, err = os.MkdirTemp("", "ticketing-bench"); err != nil {
		return err
	}
	secret := rand.Text()
	domain := server.NewDomain{Secrets: [][]byte{[]byte(secret)}, Seats: map[int]string{}, Valid: clusterTime}
	var peers, addrs []string
	for seat := 1; seat <= benchSeats; seat++ {
		peer, err := freeAddress()
		if err != nil {
			return err
		}
		peers = append(peers, peer)
		domain.Seats[seat] = peer
	}
	credential, _, err := domain.Mint(time.Now())
	if err != nil {
		return err
	}
	for i, peer := range peers {
		node, err := startServer(b.process, b.serverCPUs, "TICKETING_PEER_LISTEN="+peer, fmt.Sprintf("TICKETING_SEAT=%d", i+1),
			"TICKETING_BOOTSTRAP="+credential, "TICKETING_CLUSTER_SECRET="+secret,
			"TICKETING_STATE_DIR="+filepath.Join(c.dir, fmt.Sprint(i+1)), "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes")
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, node)
		addrs = append(addrs, node.addr)
	}
	if c.control, err = server.NewControlClient(server.ControlConfig{Peers: peers, Secrets: domain.Secrets}); err != nil {
		return err
	}
	c.broker, err = client.New(client.Config{Addrs: addrs, Token: string(b.token), Name: "ticketing bench"})
	return err
}

// stop ends the nodes, whatever they do.
func (c *benchCluster) stop() {
	if c.broker != nil {
		c.broker.Close()
	}
	for _, n := range c.nodes {
		n.kill()
	}
	os.RemoveAll(c.dir)
}

// leader waits until one of the nodes leads and serves, and the others are with it. It returns the leader.
func (c *benchCluster) leader(ctx context.Context) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTime)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		s, err := c.status(ctx)
		if err == nil && s.whole() {
			return c.nodes[s.Seat-1], nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			if err == nil {
				err = errors.New("a node stays behind")
			}
			return nil, withExit(exitUnreachable, err)
		}
	}
}

// status is what the leader knows.
func (c *benchCluster) status(ctx context.Context) (s nodeStatus, err error) {
	data, err := c.control.Status(ctx)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// whole reports whether the node is a leader that serves and hears from all the others, which lack no more than what is under way.
func (s *nodeStatus) whole() bool {
	const lately, underWay = 300, 1000 // ms, entries
	for _, m := range s.Members {
		if m.Role != "voter" || m.NodeID != s.NodeID && (m.LastHeardMs == nil || *m.LastHeardMs > lately || m.Lag == nil || *m.Lag > underWay) {
			return false
		}
	}
	return s.Ready && s.Role == "leader" && len(s.Members) == benchSeats
}

// target is the leader, as the target of a load.
func (c *benchCluster) target(leader *child) target {
	others := slices.DeleteFunc(slices.Clone(c.nodes), func(n *child) bool { return n == leader })
	return target{addrs: []string{leader.addr}, child: leader, peers: others}
}

// measureOn runs one plan against the cluster's leader; every request must succeed.
func (b *bench) measureOn(ctx context.Context, c *benchCluster, pl plan) (result, error) {
	leader, err := c.leader(ctx)
	if err != nil {
		return result{}, err
	}
	r, err := b.measure(ctx, "three nodes", pl, c.target(leader))
	if err != nil {
		return r, err
	}
	return r, r.check()
}
