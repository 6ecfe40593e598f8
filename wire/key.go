package wire

import (
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// ValidKey reports whether key may be locked: 1 to MaxKey bytes of UTF-8 without a byte in 0x00..0x20 or 0x7F.
func ValidKey(key []byte) bool {
	n := len(key)
	if uint(n-1) >= MaxKey {
		return false
	}
	if n < 8 {
		return validShortKey(key)
	}
	var bad, all uint64
	for rest := key; len(rest) >= 8; rest = rest[8:] {
		x := binary.LittleEndian.Uint64(rest)
		bad |= unclean(x)
		all |= x
	}
	// The last 8 bytes overlap those before them, so that no tail is left over.
	x := binary.LittleEndian.Uint64(key[n-8:])
	bad |= unclean(x)
	all |= x
	if bad&highs != 0 {
		return false
	}
	return all&highs == 0 || utf8.Valid(key)
}

// unclean has a high bit set, in some byte, if and only if a byte of x is in 0x00..0x20 or is 0x7F.
// Other bits mean nothing. A borrow crosses into the next byte only out of a byte that is itself unclean.
func unclean(x uint64) uint64 {
	del := x ^ 0x7f*ones
	return (x-0x21*ones)&^x | (del-ones)&^del
}

func validShortKey(key []byte) bool {
	var all byte
	for _, c := range key {
		if c <= ' ' || c == 0x7f {
			return false
		}
		all |= c
	}
	return all < utf8.RuneSelf || utf8.Valid(key)
}

// ValidName reports whether name may be a client's name: at most MaxName bytes of UTF-8 without control
// characters (U+0000..U+001F, U+007F..U+009F).
func ValidName(name []byte) bool {
	if len(name) > MaxName || !utf8.Valid(name) {
		return false
	}
	for i := 0; i < len(name); {
		c, size := utf8.DecodeRune(name[i:])
		if unicode.IsControl(c) {
			return false
		}
		i += size
	}
	return true
}
