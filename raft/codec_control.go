package raft

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
)

// AppendControl appends the data of a Control entry: kind, wall time, then the fields of that kind.
func AppendControl(dst []byte, c *Control) []byte {
	dst = append(dst, byte(c.Kind))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.WallMillis))
	switch c.Kind {
	case ControlBootstrap:
		dst = AppendInitialConfig(dst, c.Initial)
		dst = binary.BigEndian.AppendUint64(dst, c.TokenBase)
		dst = append(dst, flag(c.AfterLoss, 1))
	case ControlPrepare:
		dst = append(dst, byte(c.Seat))
		dst = append8(dst, c.PeerAddr)
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.ExpiresMillis))
	case ControlAdmit:
		dst = append(dst, byte(c.Seat))
		dst = appendMember(dst, c.Newcomer)
		dst = append(dst, c.Credential[:]...)
		dst = append8(append8(dst, c.PeerAddr), c.ClientAddr)
	case ControlRejoin:
		dst = append(dst, byte(c.Seat))
		dst = appendMember(appendMember(dst, c.Replaces), c.Newcomer)
		dst = append8(append8(dst, c.PeerAddr), c.ClientAddr)
	case ControlJoint, ControlFinal:
		dst = appendConfiguration(dst, c.Configuration)
	case ControlAbort:
		dst = appendMember(dst, c.Newcomer)
		dst = append(dst, byte(c.Cause))
	}
	return dst
}

// DecodeControl decodes all of b, the data of a Control entry.
func DecodeControl(b []byte) (*Control, error) {
	s, c := cryptobyte.String(b), new(Control)
	if !s.ReadUint8((*uint8)(&c.Kind)) || !readInt64(&s, &c.WallMillis) || !readControl(&s, c) || !s.Empty() {
		return nil, fmt.Errorf("%w of a Control entry, %d bytes", ErrMalformed, len(b))
	}
	return c, nil
}

func readControl(s *cryptobyte.String, c *Control) bool {
	switch c.Kind {
	case ControlServiceOpen, ControlBurn:
		return true
	case ControlBootstrap:
		var flags uint8
		c.Initial = new(InitialConfig)
		ok := readInitialConfig(s, c.Initial) && s.ReadUint64(&c.TokenBase) && readFlags(s, &flags, 1)
		c.AfterLoss = flags != 0
		return ok
	case ControlPrepare:
		return s.ReadUint8((*uint8)(&c.Seat)) && read8(s, &c.PeerAddr) && readInt64(s, &c.ExpiresMillis)
	case ControlAdmit:
		return s.ReadUint8((*uint8)(&c.Seat)) && readMember(s, &c.Newcomer) && s.CopyBytes(c.Credential[:]) &&
			read8(s, &c.PeerAddr) && read8(s, &c.ClientAddr)
	case ControlRejoin:
		return s.ReadUint8((*uint8)(&c.Seat)) && readMember(s, &c.Replaces) && readMember(s, &c.Newcomer) &&
			read8(s, &c.PeerAddr) && read8(s, &c.ClientAddr)
	case ControlJoint, ControlFinal:
		return readConfiguration(s, &c.Configuration) && c.Configuration.valid() &&
			c.Configuration.Joint() == (c.Kind == ControlJoint)
	case ControlAbort:
		return readMember(s, &c.Newcomer) && s.ReadUint8((*uint8)(&c.Cause))
	}
	return false
}

// configurationOf returns the configuration that an entry puts in force as it is appended.
func configurationOf(kind EntryKind, data []byte) (Configuration, bool) {
	if kind != EntryControl || len(data) == 0 ||
		ControlKind(data[0]) != ControlJoint && ControlKind(data[0]) != ControlFinal {
		return Configuration{}, false
	}
	c, err := DecodeControl(data)
	if err != nil {
		return Configuration{}, false
	}
	return c.Configuration, true
}
