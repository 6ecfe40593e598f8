package raft

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"testing"
)

// sampleMessages has one of each kind with every field set, and the smallest forms.
func sampleMessages() []Message {
	return []Message{
		{Kind: MsgPreVote, Term: 7, Index: 12, LogTerm: 6},
		{Kind: MsgPreVoteReply, Term: 7},
		{Kind: MsgPreVoteReply, Term: 7, Reject: true},
		{Kind: MsgRequestVote, Term: 7, Index: 12, LogTerm: 6, TransferTerm: 6, Target: testMember(2)},
		{Kind: MsgRequestVoteReply, Term: 7, Reject: true},
		{Kind: MsgAppendEntries, Term: 7, Index: 12, LogTerm: 5, Commit: 11},
		{Kind: MsgAppendEntries, Term: 7, Index: 12, LogTerm: 5, Commit: 11, Entries: []Entry{
			{Index: 13, Term: 6, Kind: EntryNoop, Data: []byte{}},
			{Index: 14, Term: 7, Kind: EntryCommand, Data: []byte("grant")},
			{Index: 15, Term: 7, Kind: EntryControl, Data: AppendControl(nil, &Control{Kind: ControlServiceOpen})},
		}},
		{Kind: MsgAppendEntriesReply, Term: 7, Index: 15},
		{Kind: MsgAppendEntriesReply, Term: 7, Index: 15, LogTerm: 4, Reject: true, NeedSnapshot: true, Hint: 9},
		{Kind: MsgInstallSnapshot, Term: 7, Index: 100, LogTerm: 6, Attempt: 3, Raft: []byte("state"), Data: []byte("data")},
		{Kind: MsgInstallSnapshot, Term: 7, Index: 100, LogTerm: 6, Attempt: 3, Offset: 4, Last: true, Raft: []byte{}, Data: []byte{}},
		{Kind: MsgInstallSnapshotReply, Term: 7, Index: 100, LogTerm: 6, Attempt: 3, Offset: 8, Last: true, Reject: true},
		{Kind: MsgTimeoutNow, Term: 7, Target: testMember(3)},
	}
}

func sampleControls() []Control {
	old := testInitial(3).configuration()
	joint := Configuration{Voters: old.Voters, Next: replaced(old.Voters, testMember(2), testMember(4))}
	return []Control{
		{Kind: ControlBootstrap, WallMillis: testWall, Initial: testInitial(5), TokenBase: 99, AfterLoss: true},
		{Kind: ControlServiceOpen, WallMillis: testWall},
		{Kind: ControlPrepare, WallMillis: testWall, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: testWall + 1},
		{Kind: ControlAdmit, WallMillis: -1, Seat: 2, Newcomer: testMember(4), Credential: CredentialID{1}, PeerAddr: "a:1", ClientAddr: "b:2"},
		{Kind: ControlRejoin, WallMillis: testWall, Seat: 2, Replaces: testMember(2), Newcomer: testMember(4), PeerAddr: "a:1", ClientAddr: "b:2"},
		{Kind: ControlJoint, WallMillis: testWall, Configuration: joint},
		{Kind: ControlFinal, WallMillis: testWall, Configuration: Configuration{Voters: joint.Next}},
		{Kind: ControlAbort, WallMillis: testWall, Newcomer: testMember(4), Cause: AbortSilent},
		{Kind: ControlBurn, WallMillis: testWall},
	}
}

func sampleState() *SnapshotState {
	old := testInitial(3).configuration()
	r := newRegistry(testInitial(3))
	r.Bootstrapped, r.Open, r.AfterLoss, r.BootstrapIndex, r.TokenBase = true, true, true, 2, 1000
	r.Issued = 5
	r.Retired = []RetiredMember{{Member: testMember(4), Seat: 2}}
	r.Consumed = []Consumed{{Credential: CredentialID{7}, ExpiresMillis: testWall}}
	r.Paces = []Pace{{Seat: 2, LastMillis: testWall, IntervalMillis: 20_000}}
	r.Replacement = &Replacement{
		Seat: 2, Predecessor: testMember(2), Newcomer: testMember(5), PeerAddr: "n5:1", ExpiresMillis: 5, AdmittedMillis: 6, Joint: true,
	}
	return &SnapshotState{
		Index: 40, Term: 6, ConfigIndex: 38, Registry: r,
		Configuration: Configuration{Voters: old.Voters, Next: replaced(old.Voters, testMember(2), testMember(5))},
	}
}

// body is one encoded thing and how to decode and encode it again.
type body struct {
	name    string
	encoded []byte
	again   func(b []byte) ([]byte, error)
}

func sampleBodies() []body {
	var bodies []body
	for _, m := range sampleMessages() {
		bodies = append(bodies, body{m.Kind.String(), AppendMessage(nil, &m), func(b []byte) ([]byte, error) {
			var d Message
			err := DecodeMessage(m.Kind, b, &d)
			return AppendMessage(nil, &d), err
		}})
	}
	for _, c := range sampleControls() {
		bodies = append(bodies, body{c.Kind.String(), AppendControl(nil, &c), againControl})
	}
	accepted := Accepted{Hash: [32]byte{1}, Acceptor: testMember(1), OtherDomain: true, TokenMark: 9}
	return append(bodies,
		body{"initial config", AppendInitialConfig(nil, testInitial(3)), againInitial},
		body{"accepted", AppendAccepted(nil, &accepted), againAccepted},
		body{"snapshot state", AppendSnapshotState(nil, sampleState()), againState},
	)
}

func againControl(b []byte) ([]byte, error) {
	c, err := DecodeControl(b)
	if err != nil {
		return nil, err
	}
	return AppendControl(nil, c), nil
}

func againInitial(b []byte) ([]byte, error) {
	c, err := DecodeInitialConfig(b)
	if err != nil {
		return nil, err
	}
	return AppendInitialConfig(nil, c), nil
}

func againAccepted(b []byte) ([]byte, error) {
	a, err := DecodeAccepted(b)
	return AppendAccepted(nil, &a), err
}

func againState(b []byte) ([]byte, error) {
	s, err := DecodeSnapshotState(b)
	if err != nil {
		return nil, err
	}
	return AppendSnapshotState(nil, s), nil
}

func TestBodiesRoundTrip(t *testing.T) {
	for _, b := range sampleBodies() {
		t.Run(b.name, func(t *testing.T) {
			again, err := b.again(b.encoded)
			if err != nil || !bytes.Equal(again, b.encoded) {
				t.Fatalf("decoding and encoding again: %v\n%x\n%x", err, b.encoded, again)
			}
			for k := range b.encoded {
				if _, err := b.again(b.encoded[:k:k]); err == nil {
					t.Fatalf("the first %d of %d bytes decode", k, len(b.encoded))
				}
			}
			if _, err := b.again(append(bytes.Clone(b.encoded), 0)); err == nil {
				t.Fatal("a trailing byte is accepted")
			}
		})
	}
}

func TestMessagesKeepEveryField(t *testing.T) {
	for _, m := range sampleMessages() {
		d := Message{From: testMember(1), To: testMember(2)}
		if err := DecodeMessage(m.Kind, AppendMessage(nil, &m), &d); err != nil {
			t.Fatal(err)
		}
		m.From, m.To = testMember(1), testMember(2)
		if len(m.Entries) == 0 {
			m.Entries, d.Entries = nil, nil
		}
		if !reflect.DeepEqual(m, d) {
			t.Errorf("%v: sent %+v, received %+v", m.Kind, m, d)
		}
	}
}

func TestMessageExcludes(t *testing.T) {
	entries := func(terms ...uint64) Message {
		m := Message{Kind: MsgAppendEntries, Term: 5, Index: 3, LogTerm: 2}
		for i, term := range terms {
			m.Entries = append(m.Entries, Entry{Index: 4 + uint64(i), Term: term})
		}
		return m
	}
	for name, m := range map[string]Message{
		"a term that falls":           entries(4, 3),
		"a term below the one before": entries(1),
		"a term above the sender's":   entries(6),
		"an unknown kind of entry":    {Kind: MsgAppendEntries, Term: 5, Entries: []Entry{{Term: 5, Kind: 3}}},
		"an entry that is too long":   {Kind: MsgAppendEntries, Term: 5, Entries: []Entry{{Term: 5, Data: make([]byte, MaxEntryBytes+1)}}},
		"an index that wraps":         {Kind: MsgAppendEntries, Term: 5, Index: ^uint64(0), Entries: []Entry{{Term: 5}}},
		"a kind that is no message":   {Kind: 19, Term: 5},
	} {
		var d Message
		if DecodeMessage(m.Kind, AppendMessage(nil, &m), &d) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	reply := AppendMessage(nil, &Message{Kind: MsgRequestVoteReply, Term: 5})
	reply[8] |= flagLast
	if DecodeMessage(MsgRequestVoteReply, reply, new(Message)) == nil {
		t.Error("a flag without a name is accepted")
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(byte(m.Kind), AppendMessage(nil, &m))
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		var m Message
		if DecodeMessage(MessageKind(kind), b, &m) != nil {
			return
		}
		if again := AppendMessage(nil, &m); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to what encodes as %x", b, again)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	decoders := []func([]byte) ([]byte, error){againControl, againInitial, againAccepted, againState}
	for _, b := range sampleBodies() {
		for which := range decoders {
			f.Add(byte(which), b.encoded)
		}
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		again, err := decoders[int(which)%len(decoders)](b)
		if err == nil && !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to what encodes as %x", b, again)
		}
	})
}

// FuzzStep feeds a member whatever a proven peer could send: no panic, and no entry below the commit index changes.
func FuzzStep(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(uint64(1), byte(m.Kind), AppendMessage(nil, &m))
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind byte, b []byte) {
		c := newTestCluster(t, 3)
		c.until(300, "a leader", func() bool { return c.leader() != nil && c.leader().serving() })
		rng := rand.New(rand.NewPCG(seed, 0))
		p := c.procs[rng.IntN(3)]
		m := Message{From: testMember(1 + rng.IntN(4)), To: p.self}
		if DecodeMessage(MessageKind(kind), b, &m) != nil {
			return
		}
		commit := p.commit
		p.Step(&m)
		for p.HasReady() {
			p.Ready()
			p.Advance()
			p.Tick(testWall)
			if p.now > 1000 {
				break
			}
		}
		if p.commit < commit {
			t.Fatalf("the commit index fell from %d to %d", commit, p.commit)
		}
	})
}

// TestPageExample is the example of docs/protocol-peer.md.
func TestPageExample(t *testing.T) {
	got := AppendMessage(nil, &Message{
		Kind: MsgAppendEntries, Term: 7, Index: 12, LogTerm: 5, Commit: 11,
		Entries: []Entry{{Index: 13, Term: 7, Kind: EntryCommand, Data: []byte("grant")}},
	})
	const want = "0000000000000007" + "000000000000000c0000000000000005" + "000000000000000b" + "00000001" +
		"00000000000000070100056772616e74"
	if hex.EncodeToString(got) != want {
		t.Errorf("the example is\n%s\nand the body\n%x", want, got)
	}
}
