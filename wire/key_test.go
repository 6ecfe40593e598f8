package wire

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// plainValidKey says the rule in the words of the specification.
func plainValidKey(key []byte) bool {
	if len(key) < 1 || len(key) > MaxKey || !utf8.Valid(key) {
		return false
	}
	for _, c := range key {
		if c <= 0x20 || c == 0x7f {
			return false
		}
	}
	return true
}

func TestValidKeyAgreesWithThePlainRule(t *testing.T) {
	for size := 0; size <= MaxKey+2; size++ {
		if key := bytes.Repeat([]byte("k"), size); ValidKey(key) != plainValidKey(key) {
			t.Errorf("%d bytes: %v", size, ValidKey(key))
		}
	}
	// Every byte at every place, alone and beside neighbours that could hide it by a borrow.
	for _, size := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 127, 128} {
		for at := range size {
			for c := range 256 {
				for _, beside := range []byte{'k', 0x21, 0x7e, 0x00, 0x20, 0x7f, 0x80} {
					key := bytes.Repeat([]byte("k"), size)
					if at > 0 {
						key[at-1] = beside
					}
					key[at] = byte(c)
					if ValidKey(key) != plainValidKey(key) {
						t.Fatalf("key %x: ValidKey = %v", key, ValidKey(key))
					}
				}
			}
		}
	}
}

func FuzzValidKey(f *testing.F) {
	for _, key := range []string{"", "k", "order-1234", "schlüssel-ß", "🔒", "a b", "\x7f", "\xff", strings.Repeat("k", 129)} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if ValidKey(key) != plainValidKey(key) {
			t.Errorf("ValidKey(%x) = %v", key, ValidKey(key))
		}
	})
}

func TestValidName(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want bool
	}{
		{"empty", "", true},
		{"program@host[pid]", "billing@host1[4211]", true},
		{"spaces", "billing on host 1", true},
		{"64 bytes", strings.Repeat("🔒", 16), true},
		{"65 bytes", strings.Repeat("n", 65), false},
		{"newline", "a\nb", false},
		{"escape", "a\x1b[2J", false},
		{"delete", "a\x7f", false},
		{"C1 control", "a\u009b", false},
		{"not UTF-8", "a\xff", false},
		{"a replacement character of its own", "a\ufffd", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ValidName([]byte(tt.in)); got != tt.want {
				t.Errorf("ValidName(%q) = %v; want %v", tt.in, got, tt.want)
			}
		})
	}
}

func BenchmarkValidKey(b *testing.B) {
	for _, key := range []string{"k", "0123456789abcdef", strings.Repeat("0123456789abcdef", 8), "schlüssel-ß-1234"} {
		b.Run(key[:min(len(key), 16)], func(b *testing.B) {
			k := []byte(key)
			for b.Loop() {
				if !ValidKey(k) {
					b.Fatal("refused")
				}
			}
		})
	}
}
