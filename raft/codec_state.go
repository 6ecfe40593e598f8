package raft

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
)

// AppendInitialConfig appends the body of InitialConfig.
func AppendInitialConfig(dst []byte, c *InitialConfig) []byte {
	dst = append(dst, c.Domain[:]...)
	dst = binary.BigEndian.AppendUint64(dst, c.TokenBase)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.NotAfterMillis))
	dst = append(dst, c.Credential[:]...)
	return appendInfos(dst, c.Members)
}

// DecodeInitialConfig decodes all of b. It does not validate the content (InitialConfig.Validate).
func DecodeInitialConfig(b []byte) (*InitialConfig, error) {
	s, c := cryptobyte.String(b), new(InitialConfig)
	if !readInitialConfig(&s, c) || !s.Empty() {
		return nil, fmt.Errorf("%w of InitialConfig, %d bytes", ErrMalformed, len(b))
	}
	return c, nil
}

func readInitialConfig(s *cryptobyte.String, c *InitialConfig) bool {
	return s.CopyBytes(c.Domain[:]) && s.ReadUint64(&c.TokenBase) && readInt64(s, &c.NotAfterMillis) &&
		s.CopyBytes(c.Credential[:]) && readInfos(s, &c.Members)
}

// AppendAccepted appends the body of Accepted.
func AppendAccepted(dst []byte, a *Accepted) []byte {
	dst = append(dst, a.Hash[:]...)
	dst = appendMember(dst, a.Acceptor)
	dst = append(dst, flag(a.OtherDomain, 1))
	return binary.BigEndian.AppendUint64(dst, a.TokenMark)
}

// DecodeAccepted decodes all of b.
func DecodeAccepted(b []byte) (Accepted, error) {
	s := cryptobyte.String(b)
	var a Accepted
	var flags uint8
	if !s.CopyBytes(a.Hash[:]) || !readMember(&s, &a.Acceptor) || !readFlags(&s, &flags, 1) ||
		!s.ReadUint64(&a.TokenMark) || !s.Empty() {
		return Accepted{}, fmt.Errorf("%w of Accepted, %d bytes", ErrMalformed, len(b))
	}
	a.OtherDomain = flags != 0
	return a, nil
}

// AppendSnapshotState appends Raft's part of a snapshot.
func AppendSnapshotState(dst []byte, st *SnapshotState) []byte {
	dst = appendPosition(dst, st.Index, st.Term)
	dst = binary.BigEndian.AppendUint64(dst, st.ConfigIndex)
	dst = appendConfiguration(dst, st.Configuration)
	return appendRegistry(dst, &st.Registry)
}

// DecodeSnapshotState decodes all of b, and checks that the configuration can be in force.
func DecodeSnapshotState(b []byte) (*SnapshotState, error) {
	s, st := cryptobyte.String(b), new(SnapshotState)
	if !s.ReadUint64(&st.Index) || !s.ReadUint64(&st.Term) || !s.ReadUint64(&st.ConfigIndex) ||
		!readConfiguration(&s, &st.Configuration) || !readRegistry(&s, &st.Registry) || !s.Empty() {
		return nil, fmt.Errorf("%w of a snapshot's state, %d bytes", ErrMalformed, len(b))
	}
	if !st.Configuration.valid() || st.ConfigIndex > st.Index {
		return nil, fmt.Errorf("%w of a snapshot's state: configuration %v", ErrMalformed, st.Configuration)
	}
	return st, nil
}

func appendConfiguration(dst []byte, c Configuration) []byte {
	return appendMembers(appendMembers(dst, c.Voters), c.Next)
}

func readConfiguration(s *cryptobyte.String, c *Configuration) bool {
	return readMembers(s, &c.Voters) && readMembers(s, &c.Next)
}

func appendMembers(dst []byte, members []Member) []byte {
	dst = append(dst, byte(len(members)))
	for _, m := range members {
		dst = appendMember(dst, m)
	}
	return dst
}

func readMembers(s *cryptobyte.String, members *[]Member) bool {
	return readList(s, members, readMember)
}

// readList reads a count of one byte and that many elements.
func readList[T any](s *cryptobyte.String, list *[]T, read func(*cryptobyte.String, *T) bool) bool {
	var count uint8
	if !s.ReadUint8(&count) {
		return false
	}
	for range count {
		var element T
		if !read(s, &element) {
			return false
		}
		*list = append(*list, element)
	}
	return true
}

func appendInfos(dst []byte, infos []MemberInfo) []byte {
	dst = append(dst, byte(len(infos)))
	for i := range infos {
		dst = appendInfo(dst, &infos[i])
	}
	return dst
}

func readInfos(s *cryptobyte.String, infos *[]MemberInfo) bool {
	return readList(s, infos, readInfo)
}

func appendInfo(dst []byte, m *MemberInfo) []byte {
	dst = appendMember(dst, m.Member)
	dst = append(dst, byte(m.Seat), flag(m.Learner, 1))
	return append8(append8(dst, m.PeerAddr), m.ClientAddr)
}

func readInfo(s *cryptobyte.String, m *MemberInfo) bool {
	var flags uint8
	if !readMember(s, &m.Member) || !s.ReadUint8((*uint8)(&m.Seat)) || !readFlags(s, &flags, 1) {
		return false
	}
	m.Learner = flags != 0
	return read8(s, &m.PeerAddr) && read8(s, &m.ClientAddr)
}

// Flags of a registry.
const (
	flagBootstrapped = 1 << 0
	flagOpen         = 1 << 1
	flagBurned       = 1 << 2
	flagAfterLoss    = 1 << 3
	flagReplacement  = 1 << 4
)

func appendRegistry(dst []byte, r *Registry) []byte {
	dst = append(dst, r.Domain[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Issued))
	dst = append(dst, flag(r.Bootstrapped, flagBootstrapped)|flag(r.Open, flagOpen)|flag(r.Burned, flagBurned)|
		flag(r.AfterLoss, flagAfterLoss)|flag(r.Replacement != nil, flagReplacement))
	dst = binary.BigEndian.AppendUint64(dst, r.TokenBase)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.NotAfterMillis))
	dst = binary.BigEndian.AppendUint64(dst, r.BootstrapIndex)
	dst = appendMembers(dst, r.Initial)
	dst = appendInfos(dst, r.Members)
	dst = append(dst, byte(len(r.Retired)))
	for _, m := range r.Retired {
		dst = append(appendMember(dst, m.Member), byte(m.Seat))
	}
	dst = append(dst, byte(len(r.Consumed)))
	for _, c := range r.Consumed {
		dst = binary.BigEndian.AppendUint64(append(dst, c.Credential[:]...), uint64(c.ExpiresMillis))
	}
	dst = append(dst, byte(len(r.Paces)))
	for _, p := range r.Paces {
		dst = binary.BigEndian.AppendUint64(append(dst, byte(p.Seat)), uint64(p.LastMillis))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.IntervalMillis))
	}
	if r.Replacement != nil {
		dst = appendReplacement(dst, r.Replacement)
	}
	return dst
}

func readRegistry(s *cryptobyte.String, r *Registry) bool {
	var flags uint8
	if !s.CopyBytes(r.Domain[:]) || !s.ReadUint32((*uint32)(&r.Issued)) || !readFlags(s, &flags, 0x1f) ||
		!s.ReadUint64(&r.TokenBase) || !readInt64(s, &r.NotAfterMillis) || !s.ReadUint64(&r.BootstrapIndex) {
		return false
	}
	r.Bootstrapped, r.Open = flags&flagBootstrapped != 0, flags&flagOpen != 0
	r.Burned, r.AfterLoss = flags&flagBurned != 0, flags&flagAfterLoss != 0
	ok := readMembers(s, &r.Initial) && readInfos(s, &r.Members) &&
		readList(s, &r.Retired, func(s *cryptobyte.String, m *RetiredMember) bool {
			return readMember(s, &m.Member) && s.ReadUint8((*uint8)(&m.Seat))
		}) &&
		readList(s, &r.Consumed, func(s *cryptobyte.String, c *Consumed) bool {
			return s.CopyBytes(c.Credential[:]) && readInt64(s, &c.ExpiresMillis)
		}) &&
		readList(s, &r.Paces, func(s *cryptobyte.String, p *Pace) bool {
			return s.ReadUint8((*uint8)(&p.Seat)) && readInt64(s, &p.LastMillis) && readInt64(s, &p.IntervalMillis)
		})
	if !ok || len(r.Retired) > maxRetired || len(r.Consumed) > maxConsumed {
		return false
	}
	if flags&flagReplacement != 0 {
		r.Replacement = new(Replacement)
		return readReplacement(s, r.Replacement)
	}
	return true
}

func appendReplacement(dst []byte, r *Replacement) []byte {
	dst = append(dst, byte(r.Seat), flag(r.Joint, 1))
	dst = appendMember(appendMember(dst, r.Predecessor), r.Newcomer)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ExpiresMillis))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.AdmittedMillis))
	return append8(dst, r.PeerAddr)
}

func readReplacement(s *cryptobyte.String, r *Replacement) bool {
	var flags uint8
	if !s.ReadUint8((*uint8)(&r.Seat)) || !readFlags(s, &flags, 1) || !readMember(s, &r.Predecessor) ||
		!readMember(s, &r.Newcomer) || !readInt64(s, &r.ExpiresMillis) || !readInt64(s, &r.AdmittedMillis) {
		return false
	}
	r.Joint = flags != 0
	return read8(s, &r.PeerAddr)
}
