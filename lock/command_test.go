package lock

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestCommandEncoding(t *testing.T) {
	tests := []struct {
		name string
		c    Command
		want string
	}{
		{"grant", Command{Kind: KindGrant, Owner: 7, GrantedAt: 1_800_000_000_000, LeaseMillis: 30_000, Key: []byte("order-1234")},
			"010a" + "0000000000000007" + "000001a3185c5000" + "00007530" + "6f726465722d31323334"},
		{"release", Command{Kind: KindRelease, Owner: 7, Token: 0x0001_0000_0000_002a, Key: []byte("k")},
			"0201" + "000100000000002a" + "0000000000000007" + "6b"},
		{"expire", Command{Kind: KindExpire, Token: 42, Key: []byte("k")},
			"0301" + "000000000000002a" + "6b"},
		{"longest key", Command{Kind: KindExpire, Token: 42, Key: []byte(strings.Repeat("k", 128))},
			"0380" + "000000000000002a" + strings.Repeat("6b", 128)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := AppendCommand([]byte{0xff}, &test.c)
			if got := hex.EncodeToString(b[1:]); got != test.want {
				t.Fatalf("encoded\n%s, want\n%s", got, test.want)
			}
			b = b[1:]
			var c Command
			if err := DecodeCommand(b, &c); err != nil {
				t.Fatal(err)
			}
			if !sameCommand(&c, &test.c) {
				t.Errorf("decoded %+v, want %+v", c, test.c)
			}
			for n := range b {
				if err := DecodeCommand(b[:n], &c); !errors.Is(err, ErrCommand) {
					t.Errorf("the first %d bytes: %v", n, err)
				}
			}
			if err := DecodeCommand(append(b, 'x'), &c); !errors.Is(err, ErrCommand) {
				t.Errorf("a byte too many: %v", err)
			}
		})
	}
	for _, bad := range []string{"", "00", "0001" + "000000000000002a6b", "0401" + "000000000000002a6b", "0300" + "000000000000002a",
		"0381" + "000000000000002a" + strings.Repeat("6b", 129)} {
		b, err := hex.DecodeString(bad)
		if err != nil {
			t.Fatal(err)
		}
		if err := DecodeCommand(b, new(Command)); !errors.Is(err, ErrCommand) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func sameCommand(a, b *Command) bool {
	return a.Kind == b.Kind && a.LeaseMillis == b.LeaseMillis && a.Owner == b.Owner && a.Token == b.Token &&
		a.GrantedAt == b.GrantedAt && bytes.Equal(a.Key, b.Key)
}

func FuzzDecodeCommand(f *testing.F) {
	for _, kind := range []Kind{KindGrant, KindRelease, KindExpire} {
		f.Add(AppendCommand(nil, &Command{Kind: kind, Owner: 7, Token: 8, GrantedAt: -9, LeaseMillis: 1000, Key: []byte("k")}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Command
		if err := DecodeCommand(b, &c); err != nil {
			return
		}
		if got := AppendCommand(nil, &c); !bytes.Equal(got, b) {
			t.Errorf("%x is encoded as %x", b, got)
		}
	})
}
