package server

import (
	"strings"
	"testing"
	"time"

	"ticketing.internal/raft"
)

// holdsNothing is the peerSender of a follower that never says that it holds the Bootstrap entry, which is the second of a log.
type holdsNothing struct{ peerSender }

func (h holdsNothing) send(m *raft.Message) {
	switch {
	case m.Kind == raft.MsgPreVote, m.Kind == raft.MsgRequestVote, m.Kind == raft.MsgAppendEntriesReply && m.Index > 1:
		return
	}
	h.peerSender.send(m)
}

// A domain that did not open is burned by its leader, and every node ends, not only the first to know: the last could not know alone.
func TestBurnedDomainEndsEveryNode(t *testing.T) {
	c := newCluster(t, 3)
	c.startAllBehind(func(i int, own peerSender) peerSender {
		if i == 2 {
			return holdsNothing{own}
		}
		return own
	})
	for _, ts := range c.nodes {
		await(t, "the Bootstrap entry", func() bool {
			ts.engine.mu.Lock()
			defer ts.engine.mu.Unlock()
			node := replicaOf(ts).node
			return node != nil && node.Status().BootstrapHeld
		})
	}
	end := c.nodes[0].engine.authority.(*member).plan.credentialEnd
	for i, ts := range c.nodes {
		var err error
		await(t, "the end of a node", func() bool {
			for _, late := range c.nodes {
				late.clock.wallOffset.Store(end + 10_000 - late.clock.mono()/int64(time.Millisecond))
			}
			select {
			case err = <-ts.done:
				return true
			default:
				return false
			}
		})
		ts.once.Do(func() {})
		if ExitCode(err) != exitConfig || !strings.Contains(err.Error(), "did not open before its credential ended") {
			t.Errorf("seat %d: exit code %d, %v", i+1, ExitCode(err), err)
		}
	}
}
