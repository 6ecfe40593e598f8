package raft

import (
	"slices"
)

// Bounds of the registry.
const (
	maxRetired  = 64 // retired members remembered
	maxConsumed = 64 // consumed credentials remembered; the ones that end first go first
)

// Registry is the replicated table of members. The state machine of the log's Control entries is its apply method; it
// is a pure function of the entries applied, so it is equal on every member at the same index.
type Registry struct {
	Domain Domain
	// Issued is the highest NodeID ever issued.
	Issued NodeID
	// Members are the voters and the learner, sorted. A predecessor is one until the final entry is applied.
	Members []MemberInfo
	// Retired are the last 64, oldest first.
	Retired     []RetiredMember
	Consumed    []Consumed
	Replacement *Replacement // the one under way, or nil
	Paces       []Pace       // by seat, of seats that were ever rejoined

	// Initial are the voters of the InitialConfig: every one of them acknowledges Bootstrap before ServiceOpen.
	Initial []Member
	// NotAfterMillis is the end of the bootstrap credential, Unix milliseconds.
	NotAfterMillis int64
	Bootstrapped   bool   // the Bootstrap entry is applied
	Open           bool   // ServiceOpen is applied
	Burned         bool   // Burn is applied: never open
	BootstrapIndex uint64 // of the Bootstrap entry; 0: not applied
	TokenBase      uint64
	AfterLoss      bool // acquires wait out the leases of the domain before
}

// RetiredMember is a member that is no longer one.
type RetiredMember struct {
	Member Member
	Seat   Seat
}

// Consumed is a credential that was used.
type Consumed struct {
	Credential    CredentialID
	ExpiresMillis int64 // Unix milliseconds; pruned by a later entry's wall time
}

// Replacement is the change under way.
type Replacement struct {
	Seat        Seat
	Predecessor Member
	// Newcomer's incarnation is zero until it is admitted.
	Newcomer      Member
	PeerAddr      string
	ExpiresMillis int64 // of the join credential, Unix milliseconds; 0 for a rejoin
	// AdmittedMillis is the wall time of the entry that admitted it.
	AdmittedMillis int64
	Joint          bool // the joint entry is applied
}

// Admitted reports whether the learner is bound to an incarnation.
func (r *Replacement) Admitted() bool { return r.Newcomer.Incarnation != Incarnation{} }

// Pace bounds how often a process that loops can have its seat replaced.
type Pace struct {
	Seat           Seat
	LastMillis     int64 // wall time of the last rejoin
	IntervalMillis int64 // what the next must wait since then
}

// Rejoins of a seat are at least these far apart.
const (
	minRejoinMillis = 10_000
	maxRejoinMillis = 300_000
)

// Member returns m's row, or nil.
func (r *Registry) Member(m Member) *MemberInfo {
	for i := range r.Members {
		if r.Members[i].Member == m {
			return &r.Members[i]
		}
	}
	return nil
}

// byNodeID returns the row with that NodeID, or nil.
func (r *Registry) byNodeID(id NodeID) *MemberInfo {
	for i := range r.Members {
		if r.Members[i].Member.NodeID == id {
			return &r.Members[i]
		}
	}
	return nil
}

// Voter returns the row of the seat's present voter, or nil: the predecessor until the final entry is applied.
func (r *Registry) Voter(s Seat) *MemberInfo {
	for i := range r.Members {
		if m := &r.Members[i]; m.Seat == s && !m.Learner {
			return m
		}
	}
	return nil
}

// IsRetired reports whether x was issued and belongs to nobody any more.
func (r *Registry) IsRetired(x NodeID) bool {
	return x != 0 && x <= r.Issued && r.byNodeID(x) == nil &&
		(r.Replacement == nil || r.Replacement.Newcomer.NodeID != x)
}

// RetiredSeat returns the seat that m had, or 0 if it is not among those remembered.
func (r *Registry) RetiredSeat(m Member) Seat {
	for i := range r.Retired {
		if r.Retired[i].Member == m {
			return r.Retired[i].Seat
		}
	}
	return 0
}

// IsConsumed reports whether the credential was used.
func (r *Registry) IsConsumed(id CredentialID) bool {
	return slices.ContainsFunc(r.Consumed, func(c Consumed) bool { return c.Credential == id })
}

// Clone returns a deep copy.
func (r *Registry) Clone() Registry {
	c := *r
	c.Members = slices.Clone(r.Members)
	c.Retired = slices.Clone(r.Retired)
	c.Consumed = slices.Clone(r.Consumed)
	c.Paces = slices.Clone(r.Paces)
	c.Initial = slices.Clone(r.Initial)
	if r.Replacement != nil {
		under := *r.Replacement
		c.Replacement = &under
	}
	return c
}

// newRegistry is the registry of a domain whose log is empty.
func newRegistry(initial *InitialConfig) Registry {
	r := Registry{
		Domain:         initial.Domain,
		Issued:         NodeID(len(initial.Members)),
		Members:        slices.Clone(initial.Members),
		NotAfterMillis: initial.NotAfterMillis,
	}
	for i := range r.Members {
		r.Initial = append(r.Initial, r.Members[i].Member)
	}
	return r
}

func (r *Registry) insert(info MemberInfo) {
	at, _ := slices.BinarySearchFunc(r.Members, info.Member, func(m MemberInfo, t Member) int { return m.Member.Compare(t) })
	r.Members = slices.Insert(r.Members, at, info)
}

// retire removes m from the members and remembers it.
func (r *Registry) retire(m Member, s Seat) {
	r.Members = slices.DeleteFunc(r.Members, func(i MemberInfo) bool { return i.Member == m })
	if m.Incarnation == (Incarnation{}) {
		return // an unused NodeID: IsRetired knows it
	}
	if len(r.Retired) == maxRetired {
		r.Retired = slices.Delete(r.Retired, 0, 1)
	}
	r.Retired = append(r.Retired, RetiredMember{Member: m, Seat: s})
}

// consume remembers a used credential until it expires.
func (r *Registry) consume(id CredentialID, expires int64) {
	if len(r.Consumed) == maxConsumed {
		first := 0
		for i := range r.Consumed {
			if r.Consumed[i].ExpiresMillis < r.Consumed[first].ExpiresMillis {
				first = i
			}
		}
		r.Consumed = slices.Delete(r.Consumed, first, first+1)
	}
	r.Consumed = append(r.Consumed, Consumed{Credential: id, ExpiresMillis: expires})
}

// prune drops the credentials that have ended by the entry's wall time.
func (r *Registry) prune(wallMillis int64) {
	r.Consumed = slices.DeleteFunc(r.Consumed, func(c Consumed) bool { return c.ExpiresMillis < wallMillis })
}

func (r *Registry) pace(s Seat) *Pace {
	for i := range r.Paces {
		if r.Paces[i].Seat == s {
			return &r.Paces[i]
		}
	}
	return nil
}

// tooSoon reports whether a rejoin of seat s at that wall time has to wait.
func (r *Registry) tooSoon(s Seat, wallMillis int64) bool {
	p := r.pace(s)
	return p != nil && wallMillis < p.LastMillis+p.IntervalMillis && wallMillis >= p.LastMillis-maxRejoinMillis
}

// recordRejoin notes a rejoin: a process that comes back within twice its interval waits twice as long next time.
func (r *Registry) recordRejoin(s Seat, wallMillis int64) {
	p := r.pace(s)
	if p == nil {
		r.Paces = append(r.Paces, Pace{Seat: s, LastMillis: wallMillis, IntervalMillis: minRejoinMillis})
		slices.SortFunc(r.Paces, func(a, b Pace) int { return int(a.Seat) - int(b.Seat) })
		return
	}
	if wallMillis < p.LastMillis+2*p.IntervalMillis {
		p.IntervalMillis = min(2*p.IntervalMillis, maxRejoinMillis)
	} else {
		p.IntervalMillis = minRejoinMillis
	}
	p.LastMillis = wallMillis
}
