package server

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"

	"ticketing.internal/wire"
)

// The state file, byte by byte. Integers are big-endian.
//
//	offset size field
//	0      8    "TKSTATE\n"
//	8      2    format version: 1
//	10     1    mode: 1 standalone, 2 cluster
//	11     1    0
//	12     4    length of the body: 40 in mode 1
//	16          body
//	16+len 4    CRC-32C of everything before it
//
// The body in mode 2, a node's marker, is described in marker_format.go. The body in mode 1:
//
//	offset size field
//	0      16   boot id; zero: unknown, equal to no other
//	16     8    horizon: ns on that boot's CLOCK_BOOTTIME that no lease granted so far outlives; below 2^63
//	24     8    reserved: no token granted so far is above it; below 2^63
//	32     4    longest lease granted, ms, rounded up to 10 s; at most 250000
//	36     1    1 after a clean stop, else 0
//	37     3    0
//
// Example: boot id 00010203-0405-0607-0809-0a0b0c0d0e0f, horizon 5 s, reserved 2^24, longest 30 s, running:
//
//	544b53544154450a 0001 01 00 00000028
//	000102030405060708090a0b0c0d0e0f 000000012a05f200 0000000001000000 00007530 00 000000 5f3e8d84
const (
	stateMagic       = "TKSTATE\n"
	stateVersion     = 1
	stateModeAlone   = 1
	stateModeCluster = 2
	stateHeaderSize  = 16
	stateBodySize    = 40
	stateFileSize    = stateHeaderSize + stateBodySize + crc32.Size
)

// bootID names one boot of a machine. The zero value is an unknown one.
type bootID [16]byte

// parseBootID reads the text form, a UUID.
func parseBootID(text string) (bootID, error) {
	var id bootID
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(text), "-", ""))
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("boot id %q is not a UUID", text)
	}
	copy(id[:], raw)
	return id, nil
}

// stateRecord is what a standalone server keeps on disk for its next life.
type stateRecord struct {
	boot          bootID
	horizon       int64  // ns on CLOCK_BOOTTIME of boot: no lease granted so far ends later
	reserved      uint64 // no token granted so far is above it
	longestMillis uint32 // no lease granted so far is longer
	clean         bool   // the server stopped cleanly
}

// Why a state file cannot be used.
var (
	errStateDamaged = errors.New("the file is torn or damaged")
	errStateForeign = errors.New("the file is not one of this program")
	errStateVersion = errors.New("the file is from another version of this program")
	errStateMode    = errors.New("the file belongs to a node of a cluster")
	errStateAlone   = errors.New("the file belongs to a standalone server")
)

// appendState appends the file's content to dst.
func appendState(dst []byte, r stateRecord) []byte {
	start := len(dst)
	dst = appendStateHeader(dst, stateModeAlone)
	dst = append(dst, r.boot[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.horizon))
	dst = binary.BigEndian.AppendUint64(dst, r.reserved)
	dst = binary.BigEndian.AppendUint32(dst, r.longestMillis)
	clean := byte(0)
	if r.clean {
		clean = 1
	}
	dst = append(dst, clean, 0, 0, 0)
	return sealState(dst, start)
}

// appendStateHeader appends the header of a file whose body comes next.
func appendStateHeader(dst []byte, mode byte) []byte {
	dst = append(dst, stateMagic...)
	dst = binary.BigEndian.AppendUint16(dst, stateVersion)
	return append(dst, mode, 0, 0, 0, 0, 0)
}

// sealState completes the file that begins at start: the length of its body, and the checksum.
func sealState(dst []byte, start int) []byte {
	file := dst[start:]
	binary.BigEndian.PutUint32(file[12:], uint32(len(file)-stateHeaderSize))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(file, castagnoli()))
}

// openState checks what the files of both modes have in common.
func openState(b []byte) (mode byte, body []byte, err error) {
	if len(b) < stateHeaderSize {
		return 0, nil, fmt.Errorf("%w: %d bytes", errStateDamaged, len(b))
	}
	if string(b[:8]) != stateMagic {
		return 0, nil, errStateForeign
	}
	if v := binary.BigEndian.Uint16(b[8:]); v != stateVersion {
		return 0, nil, fmt.Errorf("%w: format %d, known here is %d", errStateVersion, v, stateVersion)
	}
	end := len(b) - crc32.Size
	if end < stateHeaderSize || uint64(end) != stateHeaderSize+uint64(binary.BigEndian.Uint32(b[12:])) {
		return 0, nil, fmt.Errorf("%w: %d bytes", errStateDamaged, len(b))
	}
	if crc32.Checksum(b[:end], castagnoli()) != binary.BigEndian.Uint32(b[end:]) {
		return 0, nil, fmt.Errorf("%w: wrong checksum", errStateDamaged)
	}
	mode = b[10]
	if mode != stateModeAlone && mode != stateModeCluster || b[11] != 0 {
		return 0, nil, fmt.Errorf("%w: mode %d", errStateDamaged, mode)
	}
	return mode, b[stateHeaderSize:end], nil
}

// decodeState reads a whole file of a standalone server.
func decodeState(b []byte) (r stateRecord, err error) {
	mode, body, err := openState(b)
	switch {
	case err != nil:
		return r, err
	case mode != stateModeAlone:
		return r, errStateMode
	case len(body) != stateBodySize:
		return r, fmt.Errorf("%w: a body of %d bytes", errStateDamaged, len(body))
	}
	return decodeStateBody(body)
}

func decodeStateBody(b []byte) (r stateRecord, err error) {
	copy(r.boot[:], b)
	horizon := binary.BigEndian.Uint64(b[16:])
	r.horizon = int64(horizon)
	r.reserved = binary.BigEndian.Uint64(b[24:])
	r.longestMillis = binary.BigEndian.Uint32(b[32:])
	r.clean = b[36] == 1
	if horizon > math.MaxInt64 || r.reserved > math.MaxInt64 || r.longestMillis > wire.MaxLeaseMillis ||
		b[36] > 1 || b[37]|b[38]|b[39] != 0 {
		return stateRecord{}, fmt.Errorf("%w: a field is out of range", errStateDamaged)
	}
	return r, nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
