package raft

import (
	"errors"
	"fmt"
	"slices"
)

// SeatAddr is a seat of a bootstrap credential.
type SeatAddr struct {
	Seat     Seat
	PeerAddr string
}

// BootstrapConfig is what a node that takes part in a bootstrap knows by itself.
type BootstrapConfig struct {
	// From the credential.
	Domain         Domain
	Seats          []SeatAddr // in order, 3 or 5
	TokenBase      uint64
	NotAfterMillis int64 // Unix milliseconds
	Credential     CredentialID
	AfterLoss      bool

	Self        MemberInfo // NodeID = seat
	OtherDomain bool       // the process found a marker of another domain
	TokenMark   uint64     // that marker's, 0 without
	Faults      *Faults
}

// Accepted says that a node has accepted an InitialConfig. It is relayed unchanged.
type Accepted struct {
	Hash        [32]byte
	Acceptor    Member
	OtherDomain bool
	TokenMark   uint64
}

// Bootstrap decides when a new domain may begin: a pure state machine like Node, used once, before it. It holds the
// rules accept-once and unanimity; time, connections and the marker are its driver's.
//
//	b, _ := NewBootstrap(cfg)
//	a peer is connected, has shown the credential and no other life:  b.PeerShown(info)
//	its connection ends:                                              b.PeerGone(member)
//	at each change, if c := b.Propose(); c != nil:                    handle c as if received, and send it to all
//	InitialConfig received: if err := b.Check(c); err == nil:         write the marker, fsync; then b.Accept(c)
//	Accepted received:                                                b.Record(a)
//	on each new connection and each second, to those not in Raft:     send every b.Known()
//	when s, ok := b.Start(); ok:                                      New(Config{Initial: s.Initial, ...})
type Bootstrap struct {
	cfg      BootstrapConfig
	shown    []MemberInfo // connected peers, by seat
	proposed *InitialConfig
	accepted *InitialConfig
	known    []Accepted // of any hash; at most two for a seat
}

// Start is the outcome of a bootstrap.
type Start struct {
	Initial *InitialConfig
	// TokenBase is the largest of the credential's base and all acceptors' token marks.
	TokenBase uint64
	AfterLoss bool
}

// NewBootstrap checks cfg and returns the bootstrap of this process.
func NewBootstrap(cfg BootstrapConfig) (*Bootstrap, error) {
	if !ValidSize(len(cfg.Seats)) {
		return nil, fmt.Errorf("raft: bootstrap with %d seats: a cluster has 3 or 5", len(cfg.Seats))
	}
	for i, s := range cfg.Seats {
		if int(s.Seat) != i+1 {
			return nil, fmt.Errorf("raft: bootstrap: seat %d where %d belongs", s.Seat, i+1)
		}
	}
	self := cfg.Self
	if self.Seat == 0 || int(self.Seat) > len(cfg.Seats) || self.Member.NodeID != NodeID(self.Seat) {
		return nil, fmt.Errorf("raft: bootstrap: member %v cannot take seat %d of %d", self.Member, self.Seat, len(cfg.Seats))
	}
	if cfg.Seats[self.Seat-1].PeerAddr != self.PeerAddr {
		return nil, fmt.Errorf("raft: bootstrap: seat %d is at %q in the credential, not at %q",
			self.Seat, cfg.Seats[self.Seat-1].PeerAddr, self.PeerAddr)
	}
	if cfg.Faults == nil {
		cfg.Faults = new(Faults)
	}
	b := &Bootstrap{cfg: cfg}
	b.PeerShown(self)
	return b, nil
}

// PeerShown notes that a peer is connected, has shown the credential, and has had no earlier life in the domain.
func (b *Bootstrap) PeerShown(info MemberInfo) {
	if info.Seat == 0 || int(info.Seat) > len(b.cfg.Seats) || info.Member.NodeID != NodeID(info.Seat) {
		return
	}
	b.shown = slices.DeleteFunc(b.shown, func(m MemberInfo) bool { return m.Seat == info.Seat })
	b.shown = append(b.shown, info)
	slices.SortFunc(b.shown, func(x, y MemberInfo) int { return int(x.Seat) - int(y.Seat) })
}

// PeerGone notes that the peer's connection has ended.
func (b *Bootstrap) PeerGone(m Member) {
	if m == b.cfg.Self.Member {
		return
	}
	b.shown = slices.DeleteFunc(b.shown, func(i MemberInfo) bool { return i.Member == m })
}

// Propose returns, on the node of seat 1, the InitialConfig to send to all, once every peer has been shown; else nil.
// It returns the same one ever after.
func (b *Bootstrap) Propose() *InitialConfig {
	if b.cfg.Self.Seat != 1 {
		return nil
	}
	if b.proposed == nil && len(b.shown) == len(b.cfg.Seats) {
		c := &InitialConfig{
			Domain: b.cfg.Domain, TokenBase: b.cfg.TokenBase, NotAfterMillis: b.cfg.NotAfterMillis,
			Credential: b.cfg.Credential, Members: slices.Clone(b.shown),
		}
		if b.equalsCredential(c) == nil {
			b.proposed = c
		}
	}
	return b.proposed
}

// ErrAcceptedAnother says that this process has accepted another InitialConfig. It never takes a second one.
var ErrAcceptedAnother = errors.New("raft: this process has accepted another InitialConfig")

// Check reports whether c can be accepted: it equals the credential, names this incarnation, and no other was accepted
// before. The driver writes the marker between Check and Accept.
func (b *Bootstrap) Check(c *InitialConfig) error {
	if err := b.equalsCredential(c); err != nil {
		return err
	}
	if own := c.find(b.cfg.Self.Member); own == nil || *own != b.cfg.Self {
		return fmt.Errorf("raft: InitialConfig does not name this process (%v at seat %d)", b.cfg.Self.Member, b.cfg.Self.Seat)
	}
	if b.accepted != nil && b.accepted.Hash() != c.Hash() && !b.cfg.Faults.AcceptTwice {
		return ErrAcceptedAnother
	}
	return nil
}

// Accept records this node's own acceptance of c, which passed Check.
func (b *Bootstrap) Accept(c *InitialConfig) {
	if b.Check(c) != nil {
		return
	}
	copied := *c
	copied.Members = slices.Clone(c.Members)
	b.accepted = &copied
	b.Record(Accepted{
		Hash: copied.Hash(), Acceptor: b.cfg.Self.Member,
		OtherDomain: b.cfg.OtherDomain, TokenMark: b.cfg.TokenMark,
	})
}

// AcceptedConfig returns the InitialConfig that this node has accepted, or nil.
func (b *Bootstrap) AcceptedConfig() *InitialConfig { return b.accepted }

// Excludes reports whether the InitialConfig that this node has accepted gives m's NodeID to another process.
func (b *Bootstrap) Excludes(m Member) bool {
	return b.accepted != nil && slices.ContainsFunc(b.accepted.Members, func(i MemberInfo) bool { return i.Member.NodeID == m.NodeID && i.Member != m })
}

// maxKnown bounds the acceptances kept: those of this node's InitialConfig and a few of others'.
const maxKnown = 32

// Record notes an acceptance, this node's own or a relayed one, and reports whether it was new. One that contradicts an earlier
// acceptance of the same pair is ignored: a process accepts once.
func (b *Bootstrap) Record(a Accepted) (news bool) {
	for i := range b.known {
		if b.known[i].Acceptor == a.Acceptor {
			if b.cfg.Faults.AcceptTwice {
				b.known[i] = a
			}
			return false
		}
	}
	if len(b.known) == maxKnown {
		b.known = slices.DeleteFunc(b.known, func(k Accepted) bool { return k.Acceptor != b.cfg.Self.Member && !b.counts(k) })
	}
	if len(b.known) == maxKnown {
		return false
	}
	b.known = append(b.known, a)
	return true
}

// Known returns the acceptances to send, in the order in which they were learnt.
func (b *Bootstrap) Known() []Accepted { return slices.Clone(b.known) }

// Missing returns the seats that the bootstrap waits for: while this node has accepted nothing and somebody is not connected, those
// that are not connected; otherwise those whose acceptance of this node's InitialConfig is not known.
func (b *Bootstrap) Missing() []Seat {
	var missing []Seat
	connecting := b.accepted == nil && len(b.shown) < len(b.cfg.Seats)
	for _, s := range b.cfg.Seats {
		if connecting {
			if !slices.ContainsFunc(b.shown, func(info MemberInfo) bool { return info.Seat == s.Seat }) {
				missing = append(missing, s.Seat)
			}
			continue
		}
		if b.accepted == nil || !slices.ContainsFunc(b.known, func(a Accepted) bool {
			return b.counts(a) && a.Acceptor == b.accepted.Members[s.Seat-1].Member
		}) {
			missing = append(missing, s.Seat)
		}
	}
	return missing
}

// Start reports whether Raft may start: all have accepted the same InitialConfig.
func (b *Bootstrap) Start() (Start, bool) {
	missing := len(b.Missing())
	if missing > 0 && !(b.cfg.Faults.StartBeforeUnanimity && b.accepted != nil && missing <= len(b.cfg.Seats)/2) {
		return Start{}, false
	}
	s := Start{Initial: b.accepted, TokenBase: b.accepted.TokenBase, AfterLoss: b.cfg.AfterLoss}
	for _, a := range b.known {
		if b.counts(a) {
			s.AfterLoss = s.AfterLoss || a.OtherDomain
			if !b.cfg.Faults.TokenMarksIgnored {
				s.TokenBase = max(s.TokenBase, a.TokenMark)
			}
		}
	}
	return s, true
}

// counts reports whether a is an acceptance of this node's InitialConfig by one of its members.
func (b *Bootstrap) counts(a Accepted) bool {
	return b.accepted != nil && a.Hash == b.accepted.Hash() && b.accepted.find(a.Acceptor) != nil
}

// equalsCredential reports where c differs from the credential.
func (b *Bootstrap) equalsCredential(c *InitialConfig) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Domain != b.cfg.Domain || c.TokenBase != b.cfg.TokenBase || c.NotAfterMillis != b.cfg.NotAfterMillis ||
		c.Credential != b.cfg.Credential || len(c.Members) != len(b.cfg.Seats) {
		return errors.New("raft: InitialConfig differs from the credential in domain, base, end or seats")
	}
	for i, s := range b.cfg.Seats {
		if c.Members[i].PeerAddr != s.PeerAddr {
			return fmt.Errorf("raft: InitialConfig has seat %d at %q, the credential at %q", s.Seat, c.Members[i].PeerAddr, s.PeerAddr)
		}
	}
	return nil
}
