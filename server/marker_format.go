package server

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"golang.org/x/crypto/cryptobyte"

	"ticketing.internal/raft"
)

// The marker is the state file in mode 2 (statefile_format.go has the frame). Its body:
//
//	offset size field
//	0      16   domain
//	16     1    seat: 1 to 5
//	17     1    1 once ServiceOpen was applied here, else 0
//	18     8    token mark: at least 2^24 above the largest token applied; below 2^63
//	26     8    end of the credential, Unix ms; below 2^63
//	34     1+n  peer address of this node: its length (1 to 255), then its bytes
//	       1    number of peer addresses of members last known, at most 16; each 1+n bytes as above
//	       2    number of incarnations, 1 to 1024, oldest first; each:
//	0      16   incarnation
//	16     4    its NodeID; 0 while unknown
//
// Example: domain 00010203-...-0e0f, seat 2, open, mark 2^25, credential until 2026-01-01T00:15:00Z, address n2:5325, other
// members at n1:5325 and n3:5325, one incarnation a0a1...af with NodeID 2:
//
//	544b53544154450a 0001 02 00 00000051
//	000102030405060708090a0b0c0d0e0f 02 01 0000000002000000 0000019b76e863a0
//	07 6e323a35333235 02 07 6e313a35333235 07 6e333a35333235
//	0001 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf 00000002 8d6e4d69
const (
	markerPeers        = 16
	markerIncarnations = 1024
	maxSeat            = 5
)

// appendMarker appends the file's content to dst.
func appendMarker(dst []byte, m *marker) []byte {
	start := len(dst)
	dst = appendStateHeader(dst, stateModeCluster)
	dst = append(dst, m.domain[:]...)
	opened := byte(0)
	if m.opened {
		opened = 1
	}
	dst = append(dst, byte(m.seat), opened)
	dst = binary.BigEndian.AppendUint64(dst, m.tokenMark)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.credentialEnd))
	dst = appendMarkerAddress(dst, m.peerAddr)
	dst = append(dst, byte(len(m.peers)))
	for _, address := range m.peers {
		dst = appendMarkerAddress(dst, address)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.incarnations)))
	for _, i := range m.incarnations {
		dst = append(dst, i.Incarnation[:]...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(i.NodeID))
	}
	return sealState(dst, start)
}

func appendMarkerAddress(dst []byte, address string) []byte {
	dst = append(dst, byte(len(address)))
	return append(dst, address...)
}

// decodeMarker reads a whole file of a node of a cluster.
func decodeMarker(b []byte) (*marker, error) {
	mode, body, err := openState(b)
	if err != nil {
		return nil, err
	}
	if mode != stateModeCluster {
		return nil, errStateAlone
	}
	m := &marker{}
	if !m.decode(cryptobyte.String(body)) {
		return nil, fmt.Errorf("%w: a field is out of range", errStateDamaged)
	}
	return m, nil
}

// decode reads the body, and reports whether all of it is in order.
func (m *marker) decode(s cryptobyte.String) bool {
	var seat, opened, peers uint8
	var end uint64
	if !s.CopyBytes(m.domain[:]) || !s.ReadUint8(&seat) || !s.ReadUint8(&opened) || !s.ReadUint64(&m.tokenMark) || !s.ReadUint64(&end) ||
		!readMarkerAddress(&s, &m.peerAddr) || !s.ReadUint8(&peers) {
		return false
	}
	m.seat, m.opened, m.credentialEnd = raft.Seat(seat), opened == 1, int64(end)
	if seat < 1 || seat > maxSeat || opened > 1 || m.tokenMark > math.MaxInt64 || end > math.MaxInt64 || peers > markerPeers {
		return false
	}
	for range peers {
		var address string
		if !readMarkerAddress(&s, &address) {
			return false
		}
		m.peers = append(m.peers, address)
	}
	return m.decodeIncarnations(&s) && s.Empty()
}

func (m *marker) decodeIncarnations(s *cryptobyte.String) bool {
	var n uint16
	if !s.ReadUint16(&n) || n < 1 || n > markerIncarnations {
		return false
	}
	for range n {
		var i raft.Member
		var id uint32
		if !s.CopyBytes(i.Incarnation[:]) || !s.ReadUint32(&id) || m.has(i.Incarnation) {
			return false
		}
		i.NodeID = raft.NodeID(id)
		m.incarnations = append(m.incarnations, i)
	}
	return true
}

func readMarkerAddress(s *cryptobyte.String, address *string) bool {
	var text cryptobyte.String
	if !s.ReadUint8LengthPrefixed(&text) || len(text) == 0 {
		return false
	}
	*address = string(text)
	return true
}

// usableAddresses are those that a marker can hold, as many as it has room for.
func usableAddresses(addresses []string) []string {
	usable := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == "" || len(a) > raft.MaxAddr })
	return usable[:min(len(usable), markerPeers)]
}
