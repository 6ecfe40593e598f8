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
	if n < 8 || n > MaxKey {
		return validKeyBytewise(key)
	}
	// The last 8 bytes may overlap those before them, so that there is no shorter tail to handle.
	other := notGraphic(binary.LittleEndian.Uint64(key[n-8:]))
	for i := 0; i < n-8; i += 8 {
		other |= notGraphic(binary.LittleEndian.Uint64(key[i:]))
	}
	return other&highs == 0 || validKeyBytewise(key)
}

// notGraphic has the high bit of some byte set if and only if a byte of x is outside 0x21..0x7E, the graphic
// characters of ASCII. Other bits mean nothing. Carries and borrows cross only out of a byte that is itself outside.
func notGraphic(x uint64) uint64 {
	return x | (x - 0x21*ones) | (x + ones)
}

func validKeyBytewise(key []byte) bool {
	if uint(len(key)-1) >= MaxKey {
		return false
	}
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
