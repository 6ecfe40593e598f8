// Package raft is consensus for a cluster whose members keep everything in memory: Raft as a pure, deterministic state
// machine. Its inputs are ticks, messages, proposals and hints; its only output is Ready. It has no goroutine, clock,
// socket, log or global, and all of its randomness comes from one injected generator, so that whole clusters run in one
// goroutine from a seed (package rafttest).
//
// # The driver in ten lines
//
//	n, err := raft.New(cfg)
//	for {
//		n.Tick(wall) / n.Step(&msg) / n.Propose(cmd) / ...    // any number of inputs
//		for n.HasReady() {
//			rd := n.Ready()             // no input but Propose from here to Advance
//			react(rd.State)             // a step-down first of all
//			encode(rd.Messages)         // they alias the core's memory
//			settle(rd.Installed)        // proposals whose fate is unknown
//			apply(rd.Committed, rd.Lost)
//			n.Advance()
//		}
//	}
//
// # Contract
//
//   - Everything in a Ready is valid until Advance. Input between Ready and Advance panics, except Propose, which waits: an
//     application may propose while it applies.
//   - Every entry in Ready.Committed is applied before Advance. StateMachine is asked for a snapshot only between inputs, when
//     its state is the one at the applied index.
//   - Each accepted proposal is settled exactly once, in the order of proposing: Own, Lost or Unknown. Own and Lost are
//     facts; Unknown says that a snapshot took the place of the entry.
//   - Messages may be lost, repeated, reordered and delayed without end. They are delivered only from and to the pair
//     that they name (CheckPeer), and Step drops what names another.
//   - Nothing a peer sends makes the core panic, and an entry that does not fit the state is rejected at apply.
//   - A Node is made once for an incarnation. A panic in it ends the process.
//
// # No durability
//
// Term, vote, log and snapshot live in memory. A process that ends takes its promises with it, so that it must never
// act under its name again: a member is the pair (NodeID, Incarnation), and a restarted process is another member, which
// is counted only when a committed configuration says so. With that, a process that ends is a crash-stop failure of plain
// Raft and needs no proof of its own. An acknowledged command survives the end of any minority of the processes at a
// time, where "at a time" lasts until the replacement is complete. The loss of a majority is the end of the domain.
//
// # Where is what
//
//	paper 5.1        terms                                     Step, adopts, answersLower
//	paper 5.2        election                                  campaign, handleRequestVote, handleVoteReply
//	paper 5.3        replication, conflict back-off            sendAppend, handleAppendEntries, handleAppendRejected
//	paper 5.4.1      up-to-date check                          log.upToDate
//	paper 5.4.2      commit of own-term entries                maybeCommit
//	paper 7          snapshots                                 snapshot_send.go, snapshot_receive.go
//	paper 8          the Noop                                  becomeLeader, serving
//	diss. 3.10       transfer                                  transfer.go
//	diss. 4.2.1      catching up                               countRound, readyForJoint
//	diss. 4.3        joint consensus                           membership.go, quorum, configurations
//	diss. 6.2        CheckQuorum                               tickLeader
//	diss. 6.4.2      stickiness                                sticky
//	diss. 9.6        PreVote                                   startPreVote, handlePreVote
//	this project     registry, Control entries                 registry_apply.go
//	this project     identity                                  CheckPeer
//	this project     bootstrap                                 Bootstrap, openDomain
//	this project     connection-loss hint                      ReportConnectionLoss
//
// # Divergences from the paper
//
//   - Nothing is written to disk before a message is sent. See above.
//   - Members are pairs, and receivers do not consult their own configuration for votes and appends (as in the
//     dissertation, 4.2.2): a check that is too strict would stop elections around a membership change.
//   - The configuration changes by replacing one voter at a time, through a learner and joint consensus; the number of
//     voters never changes. Single-server changes would pass through an even number.
//   - The final configuration waits for an entry of the leader's own term, at or after the joint entry, committed under
//     both majorities. With the paper's rule alone two leaders in one term are possible when the voter that was replaced
//     is alive and was only believed dead.
//   - A change cannot be undone once its joint entry is in a log, for the same reason.
//   - A member that is no voter in its own configuration is sent committed entries only. Otherwise one crash could leave
//     a live majority whose logs refuse each other for ever.
//   - A new configuration entry waits until every Control entry is applied, so that none is ever rejected at apply.
//   - A leader never appends a configuration without itself; it hands over first. (The paper lets it lead on.)
//   - Every rejection carries the responder's term, even one that is lower than the request's, and a pre-candidate adopts a
//     higher one. Otherwise a member with a longer log in a lower term and one with a shorter log in a higher term would
//     wait for each other.
//   - Stickiness refuses a RequestVote of a later term without adopting the term, except on behalf of the leader
//     (TransferTerm, Target).
//   - A lost connection to the leader ends stickiness and starts an election early. A hint: nothing relies on it.
//   - An append whose previous index is below the commit index is answered with success: committed entries are equal everywhere.
//   - AppendEntries with index 0 and no entries is the heartbeat to a member that waits for a snapshot.
//   - A follower learns the commit index with the next entries or heartbeat; no message is sent only for that.
//   - There are no reads: every answer of the lock table comes from a committed entry.
//   - InstallSnapshot builds a state beside the present one, and the member goes on with the latter until all is there.
//   - A leader opens a new domain by itself. It appends Bootstrap and, once every initial voter (not only a majority) has
//     that, ServiceOpen; or, after the end of the credential, Burn.
package raft
