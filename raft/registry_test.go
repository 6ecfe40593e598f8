package raft

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// openRegistry is that of an open domain of three.
func openRegistry() *Registry {
	r := newRegistry(testInitial(3))
	r.Bootstrapped, r.Open, r.BootstrapIndex = true, true, 2
	return &r
}

// prepared is an open registry with NodeId 4 prepared for seat 2.
func prepared() *Registry {
	r := openRegistry()
	r.apply(9, prepareSeat2(), new(Faults))
	return r
}

func prepareSeat2() *Control {
	return &Control{Kind: ControlPrepare, WallMillis: testWall, Seat: 2, PeerAddr: "n4:5325", ExpiresMillis: testWall + 60_000}
}

func admit4() *Control {
	return &Control{
		Kind: ControlAdmit, WallMillis: testWall + 1000, Seat: 2, Newcomer: testMember(4), Credential: CredentialID{4},
		PeerAddr: "n4:5325", ClientAddr: "n4:5225",
	}
}

func admitted() *Registry {
	r := prepared()
	r.apply(10, admit4(), new(Faults))
	return r
}

func jointEntry() *Control {
	old := testInitial(3).configuration().Voters
	return &Control{Kind: ControlJoint, WallMillis: testWall, Configuration: Configuration{Voters: old, Next: replaced(old, testMember(2), testMember(4))}}
}

func finalEntry() *Control {
	return &Control{Kind: ControlFinal, WallMillis: testWall, Configuration: Configuration{Voters: jointEntry().Configuration.Next}}
}

func jointRegistry() *Registry {
	r := admitted()
	r.apply(11, jointEntry(), new(Faults))
	return r
}

func finished() *Registry {
	r := jointRegistry()
	r.apply(12, finalEntry(), new(Faults))
	return r
}

func rejoin(seat Seat, replaces, newcomer Member, addr string, wall int64) *Control {
	return &Control{
		Kind: ControlRejoin, WallMillis: wall, Seat: seat, Replaces: replaces,
		Newcomer: Member{Incarnation: newcomer.Incarnation}, PeerAddr: addr, ClientAddr: "c:1",
	}
}

func TestRegistryApply(t *testing.T) {
	closed := func() *Registry { r := newRegistry(testInitial(3)); return &r }
	burned := func() *Registry { r := closed(); r.Burned = true; return r }
	with := func(c *Control, change func(*Control)) *Control { change(c); return c }
	bootstrap := &Control{Kind: ControlBootstrap, WallMillis: testWall, Initial: testInitial(3), TokenBase: 5}
	open := &Control{Kind: ControlServiceOpen, WallMillis: testWall}
	burn := &Control{Kind: ControlBurn, WallMillis: testWall + 900_001}
	recorded := func() *Registry { r := closed(); r.apply(2, bootstrap, new(Faults)); return r }
	for _, test := range []struct {
		name   string
		from   *Registry
		c      *Control
		result Result
		reason Reason
	}{
		{"bootstrap", closed(), bootstrap, ResultBootstrapRecorded, 0},
		{"bootstrap twice", recorded(), bootstrap, ResultControlRejected, ReasonBootstrapTwice},
		{"bootstrap of a burned domain", burned(), bootstrap, ResultControlRejected, ReasonBurned},
		{"bootstrap with other members", closed(), &Control{Kind: ControlBootstrap, Initial: testInitial(5)}, ResultControlRejected, ReasonMalformed},
		{"open", recorded(), open, ResultControlApplied, 0},
		{"open before bootstrap", closed(), open, ResultControlRejected, ReasonNotBootstrapped},
		{"open twice", openRegistry(), open, ResultControlRejected, ReasonAlreadyOpen},
		{"open after the credential's end", recorded(), &Control{Kind: ControlServiceOpen, WallMillis: testWall + 900_001}, ResultControlRejected, ReasonCredentialExpired},
		{"open a burned domain", burned(), open, ResultControlRejected, ReasonBurned},
		{"burn", recorded(), burn, ResultControlApplied, 0},
		{"burn before the end", recorded(), &Control{Kind: ControlBurn, WallMillis: testWall}, ResultControlRejected, ReasonNotLate},
		{"burn an open domain", openRegistry(), burn, ResultControlRejected, ReasonAlreadyOpen},

		{"prepare", openRegistry(), prepareSeat2(), ResultReplacementPrepared, 0},
		{"prepare before open", recorded(), prepareSeat2(), ResultControlRejected, ReasonNotOpen},
		{"prepare in a burned domain", burned(), prepareSeat2(), ResultControlRejected, ReasonBurned},
		{"prepare twice", prepared(), prepareSeat2(), ResultControlRejected, ReasonUnderWay},
		{"prepare an unknown seat", openRegistry(), with(prepareSeat2(), func(c *Control) { c.Seat = 4 }), ResultControlRejected, ReasonUnknownSeat},
		{"prepare seat 0", openRegistry(), with(prepareSeat2(), func(c *Control) { c.Seat = 0 }), ResultControlRejected, ReasonUnknownSeat},
		{"prepare with another's address", openRegistry(), with(prepareSeat2(), func(c *Control) { c.PeerAddr = "n3:5325" }), ResultControlRejected, ReasonAddressInUse},
		{"prepare with the predecessor's address", openRegistry(), with(prepareSeat2(), func(c *Control) { c.PeerAddr = "n2:5325" }), ResultReplacementPrepared, 0},
		{"prepare without an address", openRegistry(), with(prepareSeat2(), func(c *Control) { c.PeerAddr = "" }), ResultControlRejected, ReasonMalformed},
		{"prepare with a credential that has ended", openRegistry(), with(prepareSeat2(), func(c *Control) { c.ExpiresMillis = testWall }), ResultControlRejected, ReasonCredentialExpired},

		{"admit", prepared(), admit4(), ResultAdmissionAccepted, 0},
		{"admit again", admitted(), admit4(), ResultAdmissionAccepted, 0},
		{"admit again after the joint entry", jointRegistry(), admit4(), ResultAdmissionAccepted, 0},
		{"admit again after the final entry", finished(), admit4(), ResultAdmissionAccepted, 0},
		{"admit another incarnation", admitted(), with(admit4(), func(c *Control) { c.Newcomer.Incarnation = Incarnation{77} }), ResultControlRejected, ReasonCredentialConsumed},
		{"admit without prepare", openRegistry(), admit4(), ResultControlRejected, ReasonNoReplacement},
		{"admit another NodeId", prepared(), with(admit4(), func(c *Control) { c.Newcomer.NodeID = 5 }), ResultControlRejected, ReasonNoReplacement},
		{"admit to another seat", prepared(), with(admit4(), func(c *Control) { c.Seat = 3 }), ResultControlRejected, ReasonNoReplacement},
		{"admit at another address", prepared(), with(admit4(), func(c *Control) { c.PeerAddr = "x:1" }), ResultControlRejected, ReasonAddressMismatch},
		{"admit too late", prepared(), with(admit4(), func(c *Control) { c.WallMillis = testWall + 60_001 }), ResultControlRejected, ReasonCredentialExpired},
		{"admit no incarnation", prepared(), with(admit4(), func(c *Control) { c.Newcomer.Incarnation = Incarnation{} }), ResultControlRejected, ReasonMalformed},
		{"admit a voter's incarnation", prepared(), with(admit4(), func(c *Control) { c.Newcomer.Incarnation = testMember(3).Incarnation }), ResultControlRejected, ReasonIncarnationKnown},

		{"joint", admitted(), jointEntry(), ResultControlApplied, 0},
		{"joint before admission", prepared(), jointEntry(), ResultControlRejected, ReasonNotLearner},
		{"joint without a replacement", openRegistry(), jointEntry(), ResultControlRejected, ReasonNoReplacement},
		{"joint twice", jointRegistry(), jointEntry(), ResultControlRejected, ReasonConfiguration},
		{"joint without the other one", admitted(), &Control{Kind: ControlJoint, Configuration: Configuration{
			Voters: jointEntry().Configuration.Voters, Next: replaced(jointEntry().Configuration.Voters, testMember(3), testMember(4)),
		}}, ResultControlRejected, ReasonConfiguration},
		{"final", jointRegistry(), finalEntry(), ResultControlApplied, 0},
		{"final before joint", admitted(), finalEntry(), ResultControlRejected, ReasonConfiguration},
		{"final twice", finished(), finalEntry(), ResultControlRejected, ReasonNoReplacement},
		{"final of the old voters", jointRegistry(), &Control{Kind: ControlFinal, Configuration: testInitial(3).configuration()}, ResultControlRejected, ReasonConfiguration},

		{"abort", prepared(), &Control{Kind: ControlAbort}, ResultControlApplied, 0},
		{"abort a learner", admitted(), &Control{Kind: ControlAbort, Newcomer: testMember(4)}, ResultControlApplied, 0},
		{"abort after joint", jointRegistry(), &Control{Kind: ControlAbort}, ResultControlRejected, ReasonJointAppended},
		{"abort nothing", openRegistry(), &Control{Kind: ControlAbort}, ResultControlRejected, ReasonNoReplacement},
		{"abort another", admitted(), &Control{Kind: ControlAbort, Newcomer: Member{NodeID: 3}}, ResultControlRejected, ReasonNoReplacement},

		{"rejoin", openRegistry(), rejoin(2, testMember(2), testMember(7), "n2:5325", testWall), ResultAdmissionAccepted, 0},
		{"rejoin from another address", openRegistry(), rejoin(2, testMember(2), testMember(7), "x:1", testWall), ResultControlRejected, ReasonAddressMismatch},
		{"rejoin over another seat's voter", openRegistry(), rejoin(2, testMember(3), testMember(7), "n3:5325", testWall), ResultControlRejected, ReasonReplacedMeanwhile},
		{"rejoin over a retired one", finished(), rejoin(2, testMember(2), testMember(7), "n2:5325", testWall), ResultControlRejected, ReasonReplacedMeanwhile},
		{"rejoin over an incarnation that never was", openRegistry(), rejoin(2, testMember(9), testMember(7), "n2:5325", testWall), ResultControlRejected, ReasonReplacedMeanwhile},
		{"rejoin while another seat is replaced", prepared(), rejoin(3, testMember(3), testMember(7), "n3:5325", testWall), ResultControlRejected, ReasonUnderWay},
		{"rejoin while the seat is replaced by another", prepared(), rejoin(2, testMember(2), testMember(7), "n2:5325", testWall), ResultControlRejected, ReasonUnderWay},
		{"rejoin over the own learner", admitted(), rejoin(2, testMember(4), testMember(7), "n4:5325", testWall), ResultAdmissionAccepted, 0},
		{"rejoin over the own learner after joint", jointRegistry(), rejoin(2, testMember(4), testMember(7), "n4:5325", testWall), ResultControlRejected, ReasonUnderWay},
		{"rejoin as a retired incarnation", finished(), rejoin(2, testMember(4), testMember(2), "n4:5325", testWall), ResultControlRejected, ReasonIncarnationKnown},
		{"rejoin of an unknown seat", openRegistry(), rejoin(9, testMember(2), testMember(7), "n2:5325", testWall), ResultControlRejected, ReasonUnknownSeat},

		{"an unknown kind", openRegistry(), &Control{Kind: 99}, ResultControlRejected, ReasonMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.from.Clone()
			before.prune(test.c.WallMillis)
			got := test.from.apply(20, test.c, new(Faults))
			if got.Result != test.result || got.Reason != test.reason {
				t.Fatalf("result %d, reason %q", got.Result, got.Reason)
			}
			same := bytes.Equal(appendRegistry(nil, &before), appendRegistry(nil, test.from))
			if got.Result == ResultControlRejected && !same {
				t.Error("a rejected entry changed the registry")
			}
		})
	}
}

func TestReplacementLeavesItsTraces(t *testing.T) {
	r := finished()
	if r.Issued != 4 || r.Replacement != nil || r.Voter(2).Member != testMember(4) || r.Voter(2).Learner {
		t.Errorf("after the final entry: %+v", r)
	}
	if !r.IsRetired(2) || r.RetiredSeat(testMember(2)) != 2 || r.IsRetired(4) || r.IsRetired(5) || r.IsRetired(0) {
		t.Error("retired: exactly NodeId 2")
	}
	if !r.IsConsumed(CredentialID{4}) {
		t.Error("the join credential is not consumed")
	}
	r.apply(30, &Control{Kind: ControlAbort, WallMillis: testWall + 60_001}, new(Faults))
	if r.IsConsumed(CredentialID{4}) {
		t.Error("a consumed credential outlives its end")
	}
}

func TestNodeIDsAreNeverReused(t *testing.T) {
	r := prepared()
	if r.IsRetired(4) {
		t.Error("the NodeId under way is retired")
	}
	r.apply(10, &Control{Kind: ControlAbort, WallMillis: testWall}, new(Faults))
	if !r.IsRetired(4) {
		t.Error("an aborted NodeId is not retired")
	}
	if o := r.apply(11, prepareSeat2(), new(Faults)); o.Member.NodeID != 5 {
		t.Errorf("issued %d after 4 was aborted", o.Member.NodeID)
	}
}

func TestRejoinPace(t *testing.T) {
	r := openRegistry()
	wall, current, id := testWall, testMember(2), 10
	try := func() Reason {
		id++
		o := r.apply(1, rejoin(2, current, testMember(id), "n2:5325", wall), new(Faults))
		if o.Reason == 0 {
			current = o.Member
		}
		return o.Reason
	}
	for _, interval := range []int64{10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000} {
		if reason := try(); reason != 0 {
			t.Fatalf("a rejoin that is due: %v", reason)
		}
		wall += interval - 1
		if reason := try(); reason != ReasonTooSoon {
			t.Fatalf("%d ms after the last rejoin: %v", interval-1, reason)
		}
		wall++
	}
	wall += 700_000
	try()
	wall += minRejoinMillis
	if reason := try(); reason != 0 {
		t.Errorf("a process that had settled waits: %v", reason)
	}
}

func TestRetiredAreBounded(t *testing.T) {
	r := openRegistry()
	for i := range 100 {
		r.retire(testMember(10+i), 1)
	}
	if len(r.Retired) != maxRetired || r.Retired[maxRetired-1].Member != testMember(109) {
		t.Errorf("%d retired remembered, the last is %v", len(r.Retired), r.Retired[len(r.Retired)-1])
	}
	for i := range 100 {
		r.consume(CredentialID{byte(i)}, int64(1000-i))
	}
	if len(r.Consumed) != maxConsumed || r.IsConsumed(CredentialID{63}) || !r.IsConsumed(CredentialID{0}) {
		t.Errorf("%d credentials remembered", len(r.Consumed))
	}
}

// TestApplyIsTotalAndDeterministic applies random entries to two registries.
func TestApplyIsTotalAndDeterministic(t *testing.T) {
	kinds := []func() *Registry{openRegistry, prepared, admitted, jointRegistry, finished}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := kinds[rng.IntN(len(kinds))]()
		twin := r.Clone()
		for range 30 {
			c := randomControl(rng)
			data := AppendControl(nil, c)
			decoded, err := DecodeControl(data)
			if err != nil {
				continue
			}
			a, b := r.apply(5, decoded, new(Faults)), twin.apply(5, decoded, new(Faults))
			if a != b || !bytes.Equal(appendRegistry(nil, r), appendRegistry(nil, &twin)) {
				t.Fatalf("seed %d: %v gave %+v and %+v", seed, c.Kind, a, b)
			}
			checkRegistry(t, r)
		}
	}
}

func randomControl(rng *rand.Rand) *Control {
	member := func() Member { return testMember(rng.IntN(9)) }
	conf := jointEntry().Configuration
	if rng.IntN(2) == 0 {
		conf = Configuration{Voters: []Member{testMember(1), testMember(2), testMember(3 + rng.IntN(4))}}
	}
	kind := ControlKind(1 + rng.IntN(9))
	if kind == ControlFinal {
		conf.Next = nil
	}
	return &Control{
		Kind: kind, WallMillis: testWall + rng.Int64N(100_000), Seat: Seat(rng.IntN(5)),
		Replaces: member(), Newcomer: member(), Credential: CredentialID{byte(rng.IntN(4))},
		PeerAddr:      []string{"n4:5325", "n2:5325", "n3:5325", ""}[rng.IntN(4)],
		ExpiresMillis: testWall + rng.Int64N(200_000), Configuration: conf, Initial: testInitial(3),
	}
}

// checkRegistry holds what every registry must hold.
func checkRegistry(t *testing.T, r *Registry) {
	t.Helper()
	seats := make(map[Seat]int)
	for i := range r.Members {
		m := &r.Members[i]
		if !m.Learner {
			seats[m.Seat]++
		}
		if m.Member.NodeID > r.Issued {
			t.Fatalf("member %v, issued are %d", m.Member, r.Issued)
		}
		if r.refuses(m.Member) != RefuseNone {
			t.Fatalf("member %v is refused", m.Member)
		}
		if i > 0 && r.Members[i-1].Member.Compare(m.Member) >= 0 {
			t.Fatal("members are not sorted")
		}
	}
	if len(seats) != 3 || seats[1] != 1 || seats[2] != 1 || seats[3] != 1 {
		t.Fatalf("voters by seat: %v", seats)
	}
}

func TestCheckPeer(t *testing.T) {
	self, other := testMember(1), Domain{'x'}
	for _, test := range []struct {
		name string
		r    *Registry
		in   Introduction
		want Refusal
	}{
		{"a member", openRegistry(), Introduction{Domain: testDomain, Sender: testMember(2), Receiver: self}, RefuseNone},
		{"a member that does not know the receiver yet", openRegistry(), Introduction{Domain: testDomain, Sender: testMember(2)}, RefuseNone},
		{"another domain", openRegistry(), Introduction{Domain: other, Sender: testMember(2), Receiver: self}, RefuseDomain},
		{"meant for an earlier process", openRegistry(), Introduction{Domain: testDomain, Sender: testMember(2), Receiver: Member{NodeID: 1, Incarnation: Incarnation{9}}}, RefuseReceiver},
		{"oneself", openRegistry(), Introduction{Domain: testDomain, Sender: self, Receiver: self}, RefuseSelf},
		{"retired", finished(), Introduction{Domain: testDomain, Sender: testMember(2), Receiver: self}, RefuseRetired},
		{"the NodeId of a member, another incarnation", openRegistry(), Introduction{Domain: testDomain, Sender: Member{NodeID: 2, Incarnation: Incarnation{9}}, Receiver: self}, RefuseOtherIncarnation},
		{"unknown is not retired", openRegistry(), Introduction{Domain: testDomain, Sender: testMember(4), Receiver: self}, RefuseNone},
		{"prepared, not admitted here yet", prepared(), Introduction{Domain: testDomain, Sender: testMember(4), Receiver: self}, RefuseNone},
		{"without a registry", nil, Introduction{Domain: testDomain, Sender: testMember(4), Receiver: self}, RefuseNone},
		{"an unknown pair", openRegistry(), Introduction{Domain: testDomain, Sender: Member{Incarnation: Incarnation{5}}, Receiver: self}, RefuseNone},
		{"a term that went back", openRegistry(), Introduction{Domain: testDomain, Sender: testMember(2), Receiver: self, Term: 4, ShownTerm: 5}, RefuseRegressed},
		{"a term that stayed", openRegistry(), Introduction{Domain: testDomain, Sender: testMember(2), Receiver: self, Term: 5, ShownTerm: 5}, RefuseNone},
	} {
		if got := CheckPeer(test.r, testDomain, self, test.in, nil); got != test.want {
			t.Errorf("%s: %v, expected %v", test.name, got, test.want)
		}
	}
}

// FuzzApply applies whatever a log could hold: no panic, and the registry keeps its invariants.
func FuzzApply(f *testing.F) {
	for _, c := range sampleControls() {
		f.Add(AppendControl(nil, &c))
	}
	from := []func() *Registry{openRegistry, prepared, admitted, jointRegistry, finished}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeControl(data)
		if err != nil {
			return
		}
		for _, make := range from {
			r := make()
			r.apply(20, c, new(Faults))
			checkRegistry(t, r)
		}
	})
}
