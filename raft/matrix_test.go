package raft

import (
	"strings"
	"testing"
)

// The role x message matrix. Each row: the message, its term against the node's, and the word for each role. The node
// is of term 5 with a log of two entries (terms 1 and 5) and hears nobody; the sender's log is as long.
//
//	handle      it is answered or counted in the present role
//	reject      it is refused with the node's own term; nothing changes
//	ignore      no answer, no change
//	adopt       the node becomes a follower of the later term, and handles it
//	follow      the node becomes the follower of the sender in its own term
//	stand       the node stands for election
//	impossible  the rules exclude it: traced and ignored
const matrix = `
message              term     follower  learner   pre-candidate  candidate  leader
PreVote              lower    reject    reject    reject         reject     reject
PreVote              same     reject    reject    reject         reject     reject
PreVote              higher   handle    handle    handle         handle     reject
PreVoteReply         lower    ignore    ignore    ignore         ignore     ignore
PreVoteReply         same     ignore    ignore    ignore         ignore     ignore
PreVoteReply         higher   ignore    ignore    stand          ignore     ignore
PreVoteReply/no      lower    ignore    ignore    ignore         ignore     ignore
PreVoteReply/no      same     ignore    ignore    handle         ignore     ignore
PreVoteReply/no      higher   adopt     adopt     adopt          adopt      adopt
RequestVote          lower    reject    reject    reject         reject     reject
RequestVote          same     handle    handle    reject         reject     reject
RequestVote          higher   adopt     adopt     adopt          adopt      reject
RequestVote/transfer higher   adopt     adopt     adopt          adopt      adopt
RequestVoteReply     lower    ignore    ignore    ignore         ignore     ignore
RequestVoteReply     same     ignore    ignore    ignore         handle     ignore
RequestVoteReply     higher   adopt     adopt     adopt          adopt      adopt
AppendEntries        lower    reject    reject    reject         reject     reject
AppendEntries        same     follow    follow    follow         follow     impossible
AppendEntries        higher   adopt     adopt     adopt          adopt      adopt
AppendEntriesReply   lower    ignore    ignore    ignore         ignore     ignore
AppendEntriesReply   same     ignore    ignore    ignore         ignore     handle
AppendEntriesReply   higher   adopt     adopt     adopt          adopt      adopt
InstallSnapshot      lower    reject    reject    reject         reject     reject
InstallSnapshot      same     follow    follow    follow         follow     impossible
InstallSnapshot      higher   adopt     adopt     adopt          adopt      adopt
InstallSnapshotReply lower    ignore    ignore    ignore         ignore     ignore
InstallSnapshotReply same     ignore    ignore    ignore         ignore     handle
InstallSnapshotReply higher   adopt     adopt     adopt          adopt      adopt
TimeoutNow           lower    ignore    ignore    ignore         ignore     ignore
TimeoutNow           same     stand     ignore    stand          ignore     ignore
TimeoutNow           higher   stand     adopt     stand          stand      stand
`

func TestRoleMessageMatrix(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(matrix), "\n")
	columns := strings.Fields(lines[0])[2:]
	for _, line := range lines[1:] {
		row := strings.Fields(line)
		for i, role := range columns {
			t.Run(row[0]+" "+row[1]+" to "+role, func(t *testing.T) {
				if got := observe(t, row[0], row[1], role); got != row[2+i] {
					t.Errorf("%s, expected %s", got, row[2+i])
				}
			})
		}
	}
}

// nodeInRole returns member 1 of term 5 in that role.
func nodeInRole(t *testing.T, role string) *process {
	c := newTestCluster(t, 3)
	p := c.procs[0]
	if role == "learner" {
		p.confs.stack[0].conf = Configuration{Voters: []Member{testMember(2), testMember(3), testMember(4)}}
	}
	p.appendEntry(1, EntryNoop, nil)
	p.appendEntry(5, EntryNoop, nil)
	p.term = 5
	switch role {
	case "pre-candidate":
		p.startPreVote()
	case "candidate":
		p.term = 4
		p.campaign(0)
	case "leader":
		p.term = 4
		p.campaign(0)
		p.Step(&Message{Kind: MsgRequestVoteReply, From: testMember(2), To: p.self, Term: 5})
		if p.role != RoleLeader {
			t.Fatal("not the leader")
		}
	}
	c.drain(p)
	p.events = nil
	return p
}

// observe steps the message and finds the word for what the node did.
func observe(t *testing.T, kind, relation, role string) string {
	p := nodeInRole(t, role)
	m := Message{From: testMember(2), To: p.self, Term: 5, Index: 2, LogTerm: 5}
	name, variant, _ := strings.Cut(kind, "/")
	for k := MsgPreVote; k <= MsgTimeoutNow; k++ {
		if k.String() == name {
			m.Kind = k
		}
	}
	switch relation {
	case "lower":
		m.Term = 4
	case "higher":
		m.Term = 6
	}
	switch m.Kind {
	case MsgTimeoutNow:
		m.Target = p.self
	case MsgAppendEntriesReply, MsgInstallSnapshotReply:
		m.Index, m.LogTerm = 1, 0
	case MsgInstallSnapshot:
		m.Index, m.LogTerm, m.Offset = 9, 5, 3 // the middle of an attempt that is not known
	}
	m.Reject = variant == "no"
	if variant == "transfer" {
		m.TransferTerm, m.Target = 5, m.From
	}
	before := p.state()
	votes, heard := len(p.votes), p.peer(m.From) != nil && p.peer(m.From).heard
	p.Step(&m)
	after := p.state()
	for _, e := range p.events {
		if e.Kind == EventImpossible && m.Kind != MsgInstallSnapshot || e.Kind == EventImpossible && before == after {
			return "impossible"
		}
	}
	switch {
	case after.Role == RoleCandidate && after.Term > before.Term:
		return "stand"
	case after.Role == RoleFollower && after.Term > before.Term:
		return "adopt"
	case after.Role == RoleFollower && after.Leader == m.From:
		return "follow"
	case after.Role != before.Role || len(p.votes) != votes || p.peer(m.From) != nil && p.peer(m.From).heard != heard:
		return "handle"
	case len(p.msgs) == 1 && p.msgs[0].Reject && p.msgs[0].Term == before.Term && before == after:
		return "reject"
	case len(p.msgs) == 1:
		return "handle"
	case len(p.msgs) == 0 && before == after:
		return "ignore"
	}
	return "something else"
}
