package server

import (
	"errors"
	"math"
	"slices"
	"sync"

	"ticketing.internal/raft"
)

// marker is what a node of a cluster keeps on disk for its next life. It holds no Raft state: it is there so that a restarted
// process knows that it had a life before, and never acts under an old identity.
type marker struct {
	domain raft.Domain
	seat   raft.Seat
	// incarnations are those of every process that this state directory has had in the domain, oldest first. The NodeID is 0 while
	// unknown.
	incarnations  []raft.Member
	peerAddr      string   // this node's, as the registry holds it
	peers         []string // peer addresses of members last known, at most 16: where to look for the cluster
	tokenMark     uint64   // at least 2^24 above the largest token applied here; carried over to the next domain
	credentialEnd int64    // Unix ms: end of the credential by which this node came into the domain
	opened        bool     // ServiceOpen was applied here
}

// has reports whether a process of this state directory had the incarnation.
func (m *marker) has(i raft.Incarnation) bool {
	return slices.ContainsFunc(m.incarnations, func(x raft.Member) bool { return x.Incarnation == i })
}

// hasNodeID reports whether a process of this state directory had the NodeID.
func (m *marker) hasNodeID(id raft.NodeID) bool {
	return slices.ContainsFunc(m.incarnations, func(x raft.Member) bool { return x.NodeID == id })
}

func (m *marker) clone() *marker {
	c := *m
	c.incarnations, c.peers = slices.Clone(m.incarnations), slices.Clone(m.peers)
	return &c
}

func (m *marker) equal(o *marker) bool {
	return m.domain == o.domain && m.seat == o.seat && slices.Equal(m.incarnations, o.incarnations) && m.peerAddr == o.peerAddr &&
		slices.Equal(m.peers, o.peers) && m.tokenMark == o.tokenMark && m.credentialEnd == o.credentialEnd && m.opened == o.opened
}

// put adds an incarnation, or sets the NodeID of one that is there.
func (m *marker) put(member raft.Member) {
	at := slices.IndexFunc(m.incarnations, func(x raft.Member) bool { return x.Incarnation == member.Incarnation })
	if at >= 0 {
		if member.NodeID != 0 {
			m.incarnations[at].NodeID = member.NodeID
		}
		return
	}
	if len(m.incarnations) == markerIncarnations {
		m.forget()
	}
	m.incarnations = append(m.incarnations, member)
}

// forget makes room for an incarnation. A process that never learnt its NodeID answered no append, so it never became a voter and
// cannot be who holds the seat: the oldest of those goes first.
func (m *marker) forget() {
	at := max(slices.IndexFunc(m.incarnations, func(x raft.Member) bool { return x.NodeID == 0 }), 0)
	m.incarnations = slices.Delete(m.incarnations, at, at+1)
}

// markerFile is the marker on the disk. Its methods that change it return when the change is on the disk, which takes as long as
// the disk takes: they are not for the engine's lock. After an error the disk may hold what was to be written or what was before;
// the same call may be made again. Safe for concurrent use.
type markerFile struct {
	state *stateFile

	mu     sync.Mutex
	kept   *marker // nil: the directory has none
	unsure bool    // a write did not succeed: what is equal to kept has to be written too
}

// newMarkerFile returns the marker of state, in which inspect has found the given one, or nil.
func newMarkerFile(state *stateFile, found *marker) *markerFile {
	return &markerFile{state: state, kept: found}
}

// read returns a copy of the marker; ok is false if there is none.
func (f *markerFile) read() (m *marker, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		return nil, false
	}
	return f.kept.clone(), true
}

// newLife is how a process enters a domain that its state directory was not in before.
type newLife struct {
	domain        raft.Domain
	seat          raft.Seat
	self          raft.Member // NodeID 0: unknown yet
	peerAddr      string
	peers         []string
	credentialEnd int64 // Unix ms
}

// enter writes the marker of another domain, in place of the one that is there. It is called for a bootstrap when the InitialConfig
// has passed its checks and before it is accepted; for a join before the node asks to be admitted, but with a marker of another
// domain not before the new domain's leader has answered. The token mark is carried over. In the domain of the present marker it
// adds the incarnation.
func (f *markerFile) enter(l newLife) error {
	return f.update(func(m *marker) *marker {
		if m != nil && m.domain == l.domain {
			m.put(l.self)
			m.peers = mergeAddresses(l.peers, m.peers)
			m.credentialEnd = max(m.credentialEnd, l.credentialEnd)
			return m
		}
		fresh := &marker{domain: l.domain, seat: l.seat, incarnations: []raft.Member{l.self}, peerAddr: l.peerAddr,
			peers: usableAddresses(l.peers), credentialEnd: l.credentialEnd}
		if m != nil {
			fresh.tokenMark = m.tokenMark
		}
		return fresh
	})
}

// addIncarnation notes an incarnation before it asks to be admitted.
func (f *markerFile) addIncarnation(i raft.Incarnation) error {
	return f.update(func(m *marker) *marker {
		if m != nil {
			m.put(raft.Member{Incarnation: i})
		}
		return m
	})
}

// setNodeID notes that self was admitted to a seat under an address, before it answers a vote or an append.
func (f *markerFile) setNodeID(self raft.Member, seat raft.Seat, peerAddr string) error {
	return f.update(func(m *marker) *marker {
		if m != nil {
			m.put(self)
			m.seat, m.peerAddr = seat, peerAddr
		}
		return m
	})
}

// markerChange is what a running node changes now and then: zero fields change nothing.
type markerChange struct {
	tokenMark uint64
	opened    bool
	peers     []string
}

// apply makes a change; a mark never goes back.
func (f *markerFile) apply(c markerChange) error {
	return f.update(func(m *marker) *marker {
		if m != nil {
			m.tokenMark = max(m.tokenMark, c.tokenMark)
			m.opened = m.opened || c.opened
			if c.peers != nil {
				m.peers = usableAddresses(c.peers)
			}
		}
		return m
	})
}

// errNoMarker says that a change was asked for before the node had entered a domain.
var errNoMarker = errors.New("the node has not entered a domain yet")

// update writes what change makes of a copy of the marker, nil if there is none.
func (f *markerFile) update(change func(*marker) *marker) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var next *marker
	if f.kept != nil {
		next = f.kept.clone()
	}
	next = change(next)
	if next == nil {
		return newStateError(f.state.dir, "write the marker", errNoMarker)
	}
	next.tokenMark = min(next.tokenMark, math.MaxInt64)
	if f.kept != nil && !f.unsure && next.equal(f.kept) {
		return nil
	}
	f.unsure = true
	if err := f.state.replace(appendMarker(nil, next)); err != nil {
		return err
	}
	f.kept, f.unsure = next, false
	return nil
}

// mergeAddresses returns the addresses of both lists, each once, the first list's first, as many as a marker has room for.
func mergeAddresses(first, second []string) []string {
	var merged []string
	for _, a := range slices.Concat(first, second) {
		if !slices.Contains(merged, a) {
			merged = append(merged, a)
		}
	}
	return usableAddresses(merged)
}
