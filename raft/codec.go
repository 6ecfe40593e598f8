package raft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
)

// ErrMalformed says that a body does not decode. The connection that carried it cannot be trusted any more.
var ErrMalformed = errors.New("raft: malformed body")

// Flags of replies and of InstallSnapshot. A bit without a name must be 0.
const (
	flagReject       = 1 << 0
	flagNeedSnapshot = 1 << 1
	flagLast         = 1 << 2
)

// entryHeaderBytes is what an entry takes in AppendEntries beside its data: term 8, kind 1, length 2.
const entryHeaderBytes = 11

// AppendMessage appends the body of m; docs/protocol-peer.md has the layouts. From and To are not in it.
func AppendMessage(dst []byte, m *Message) []byte {
	dst = binary.BigEndian.AppendUint64(dst, m.Term)
	switch m.Kind {
	case MsgPreVote, MsgRequestVote:
		dst = appendPosition(dst, m.Index, m.LogTerm)
		if m.Kind == MsgRequestVote {
			dst = binary.BigEndian.AppendUint64(dst, m.TransferTerm)
			dst = appendMember(dst, m.Target)
		}
	case MsgPreVoteReply, MsgRequestVoteReply:
		dst = append(dst, flag(m.Reject, flagReject))
	case MsgAppendEntries:
		dst = appendPosition(dst, m.Index, m.LogTerm)
		dst = binary.BigEndian.AppendUint64(dst, m.Commit)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.Entries)))
		for i := range m.Entries {
			dst = appendEntry(dst, &m.Entries[i])
		}
	case MsgAppendEntriesReply:
		dst = appendPosition(dst, m.Index, m.LogTerm)
		dst = append(dst, flag(m.Reject, flagReject)|flag(m.NeedSnapshot, flagNeedSnapshot))
		dst = binary.BigEndian.AppendUint64(dst, m.Hint)
	case MsgInstallSnapshot:
		dst = appendPosition(dst, m.Index, m.LogTerm)
		dst = binary.BigEndian.AppendUint32(dst, m.Attempt)
		dst = binary.BigEndian.AppendUint64(dst, m.Offset)
		dst = append(dst, flag(m.Last, flagLast))
		dst = append24(dst, m.Raft)
		dst = append24(dst, m.Data)
	case MsgInstallSnapshotReply:
		dst = appendPosition(dst, m.Index, m.LogTerm)
		dst = binary.BigEndian.AppendUint32(dst, m.Attempt)
		dst = binary.BigEndian.AppendUint64(dst, m.Offset)
		dst = append(dst, flag(m.Reject, flagReject)|flag(m.Last, flagLast))
	case MsgTimeoutNow:
		dst = appendMember(dst, m.Target)
	}
	return dst
}

// DecodeMessage decodes the body of a message of that kind into m, using all of b. From and To are left as they are,
// everything else is set. Entries reuses its capacity; data aliases b. The error is ErrMalformed.
func DecodeMessage(kind MessageKind, b []byte, m *Message) error {
	*m = Message{Kind: kind, From: m.From, To: m.To, Entries: m.Entries[:0]}
	s := cryptobyte.String(b)
	if !s.ReadUint64(&m.Term) || !readBody(&s, m) || !s.Empty() {
		return fmt.Errorf("%w of %v, %d bytes", ErrMalformed, kind, len(b))
	}
	return nil
}

func readBody(s *cryptobyte.String, m *Message) bool {
	var flags uint8
	if m.Kind < MsgPreVote || m.Kind > MsgTimeoutNow {
		return false
	}
	switch m.Kind {
	case MsgPreVoteReply, MsgRequestVoteReply:
		return readFlags(s, &flags, flagReject) && setFlags(m, flags)
	case MsgTimeoutNow:
		return readMember(s, &m.Target)
	}
	if !s.ReadUint64(&m.Index) || !s.ReadUint64(&m.LogTerm) {
		return false
	}
	switch m.Kind {
	case MsgPreVote:
		return true
	case MsgRequestVote:
		return s.ReadUint64(&m.TransferTerm) && readMember(s, &m.Target)
	case MsgAppendEntries:
		return s.ReadUint64(&m.Commit) && readEntries(s, m)
	case MsgAppendEntriesReply:
		return readFlags(s, &flags, flagReject|flagNeedSnapshot) && setFlags(m, flags) && s.ReadUint64(&m.Hint)
	case MsgInstallSnapshot:
		return s.ReadUint32(&m.Attempt) && s.ReadUint64(&m.Offset) && readFlags(s, &flags, flagLast) &&
			setFlags(m, flags) && read24(s, &m.Raft) && read24(s, &m.Data)
	case MsgInstallSnapshotReply:
		return s.ReadUint32(&m.Attempt) && s.ReadUint64(&m.Offset) &&
			readFlags(s, &flags, flagReject|flagLast) && setFlags(m, flags)
	}
	return false
}

func setFlags(m *Message, flags uint8) bool {
	m.Reject = flags&flagReject != 0
	m.NeedSnapshot = flags&flagNeedSnapshot != 0
	m.Last = flags&flagLast != 0
	return true
}

func appendEntry(dst []byte, e *Entry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, e.Term)
	dst = append(dst, byte(e.Kind))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.Data)))
	return append(dst, e.Data...)
}

// readEntries takes the indexes from the entry's place, and excludes terms that a log cannot hold: they never fall,
// and none is above the sender's.
func readEntries(s *cryptobyte.String, m *Message) bool {
	var count uint32
	if !s.ReadUint32(&count) || uint64(count) > uint64(len(*s)/entryHeaderBytes) || m.Index > m.Index+uint64(count) {
		return false
	}
	last := m.LogTerm
	for i := range uint64(count) {
		e := Entry{Index: m.Index + 1 + i}
		var kind uint8
		if !s.ReadUint64(&e.Term) || !s.ReadUint8(&kind) || !s.ReadUint16LengthPrefixed((*cryptobyte.String)(&e.Data)) {
			return false
		}
		if len(e.Data) > MaxEntryBytes || e.Term < last || e.Term > m.Term || kind > uint8(EntryControl) {
			return false
		}
		e.Kind, last = EntryKind(kind), e.Term
		m.Entries = append(m.Entries, e)
	}
	return true
}

func appendPosition(dst []byte, index, term uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, index), term)
}

func appendMember(dst []byte, m Member) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.NodeID))
	return append(dst, m.Incarnation[:]...)
}

func readMember(s *cryptobyte.String, m *Member) bool {
	return s.ReadUint32((*uint32)(&m.NodeID)) && s.CopyBytes(m.Incarnation[:])
}

func append24(dst, b []byte) []byte {
	n := len(b)
	return append(append(dst, byte(n>>16), byte(n>>8), byte(n)), b...)
}

func read24(s *cryptobyte.String, b *[]byte) bool {
	return s.ReadUint24LengthPrefixed((*cryptobyte.String)(b))
}

func append8(dst []byte, text string) []byte {
	return append(append(dst, byte(len(text))), text...)
}

func read8(s *cryptobyte.String, text *string) bool {
	var b cryptobyte.String
	if !s.ReadUint8LengthPrefixed(&b) {
		return false
	}
	*text = string(b)
	return true
}

func readInt64(s *cryptobyte.String, v *int64) bool {
	var u uint64
	ok := s.ReadUint64(&u)
	*v = int64(u)
	return ok
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// readFlags reads a byte that may have the allowed bits alone.
func readFlags(s *cryptobyte.String, flags *uint8, allowed uint8) bool {
	return s.ReadUint8(flags) && *flags&^allowed == 0
}
