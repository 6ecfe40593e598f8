package auth

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
)

func sampleBootstrap() *BootstrapCredential {
	return &BootstrapCredential{
		Domain:    [16]byte{1, 2, 3},
		Seats:     []CredentialSeat{{1, "node-1:5325"}, {2, "node-2:5325"}, {3, "[::1]:5325"}},
		TokenBase: 1 << 40, NotBeforeMillis: 1_000_000, NotAfterMillis: 2_000_000, AfterLoss: true,
	}
}

func sampleJoin() *JoinCredential {
	return &JoinCredential{Domain: [16]byte{1, 2, 3}, Seat: 2, NodeID: 4, PeerAddr: "node-4:5325", NotAfterMillis: 2_000_000}
}

func TestCredentialVectors(t *testing.T) {
	v := readPeer(t)
	s := newSecrets(t, v.Secret)
	b, id, err := ParseBootstrap(s, v.Bootstrap.Text)
	if err != nil || !bytes.Equal(id[:], v.Bootstrap.ID) || b.Seats[2] != (CredentialSeat{3, "[::1]:5325"}) || b.TokenBase != 1<<40 || !b.AfterLoss {
		t.Errorf("%+v, id %x, %v", b, id, err)
	} else if text, err := b.Mint(s); err != nil || text != v.Bootstrap.Text {
		t.Errorf("minted %s, %v; want %s", text, err, v.Bootstrap.Text)
	}
	j, id, err := ParseJoin(s, v.Join.Text)
	if err != nil || !bytes.Equal(id[:], v.Join.ID) || j.NodeID != 4 || j.PeerAddr != "node-4:5325" {
		t.Errorf("%+v, id %x, %v", j, id, err)
	} else if text, err := j.Mint(s); err != nil || text != v.Join.Text {
		t.Errorf("minted %s, %v; want %s", text, err, v.Join.Text)
	}
}

func TestCredentials(t *testing.T) {
	s := newSecrets(t, clusterA)
	text, err := sampleBootstrap().Mint(s)
	if err != nil || !strings.HasPrefix(text, "tkb1.") || strings.Count(text, ".") != 2 {
		t.Fatalf("%s, %v", text, err)
	}
	b, id, err := ParseBootstrap(s, text)
	want := sampleBootstrap()
	if err != nil || b.Domain != want.Domain || !slices.Equal(b.Seats, want.Seats) || b.TokenBase != want.TokenBase ||
		b.NotBeforeMillis != want.NotBeforeMillis || b.NotAfterMillis != want.NotAfterMillis || !b.AfterLoss {
		t.Errorf("parsed %+v, %v", b, err)
	}
	mac, _ := base64.RawURLEncoding.DecodeString(text[strings.LastIndex(text, ".")+1:])
	if len(mac) != 32 || id != CredentialID(mac[:16]) {
		t.Errorf("id %x of the MAC %x", id, mac)
	}
	if b.Early(1_000_000) || !b.Early(999_999) || b.Expired(1_999_999) || !b.Expired(2_000_000) {
		t.Error("its time is not from NotBefore until before NotAfter")
	}
	text, err = sampleJoin().Mint(s)
	if err != nil || !strings.HasPrefix(text, "tkj1.") {
		t.Fatalf("%s, %v", text, err)
	}
	j, _, err := ParseJoin(s, text)
	if err != nil || *j != *sampleJoin() {
		t.Errorf("parsed %+v, %v", j, err)
	}
	if j.Expired(1_999_999) || !j.Expired(2_000_000) {
		t.Error("its time is not until before NotAfter")
	}
}

// TestCredentialsCannotBeAltered: every text but the one that was minted is refused, so that a credential has one id.
func TestCredentialsCannotBeAltered(t *testing.T) {
	s := newSecrets(t, clusterA)
	bootstrap, _ := sampleBootstrap().Mint(s)
	join, _ := sampleJoin().Mint(s)
	for text, parse := range map[string]func(string) error{
		bootstrap: func(text string) error { _, _, err := ParseBootstrap(s, text); return err },
		join:      func(text string) error { _, _, err := ParseJoin(s, text); return err },
	} {
		if err := parse(text); err != nil {
			t.Fatal(err)
		}
		for i := range len(text) {
			for _, c := range []byte("A_b.\n \x00=") {
				altered := text[:i] + string(c) + text[i+1:]
				if altered != text && parse(altered) == nil {
					t.Errorf("%q in place of byte %d passes", c, i)
				}
				if parse(text[:i]+string(c)+text[i:]) == nil {
					t.Errorf("%q in front of byte %d passes", c, i)
				}
			}
			if parse(text[:i]) == nil || parse(text[:i]+text[i+1:]) == nil {
				t.Errorf("cut at byte %d it passes", i)
			}
		}
		for _, tail := range []string{"\n", " ", "A", ".", "=", "\r\n"} {
			if parse(text+tail) == nil {
				t.Errorf("%q behind it passes", tail)
			}
		}
	}
}

func TestCredentialsOfOthers(t *testing.T) {
	s := newSecrets(t, clusterA)
	bootstrap, _ := sampleBootstrap().Mint(s)
	join, _ := sampleJoin().Mint(s)
	if _, _, err := ParseBootstrap(s, join); !errors.Is(err, ErrCredentialForm) {
		t.Errorf("a join credential as a bootstrap credential: %v", err)
	}
	if _, _, err := ParseJoin(s, strings.Replace(bootstrap, "tkb1.", "tkj1.", 1)); !errors.Is(err, ErrCredentialSecret) {
		t.Errorf("a bootstrap credential renamed: %v", err)
	}
	if _, _, err := ParseBootstrap(newSecrets(t, clusterB), bootstrap); !errors.Is(err, ErrCredentialSecret) {
		t.Errorf("another secret: %v", err)
	}
	_, first, err := ParseBootstrap(newSecrets(t, clusterB, clusterA), bootstrap)
	if err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	again, _ := sampleBootstrap().Mint(newSecrets(t, clusterA, clusterB))
	if _, id, _ := ParseBootstrap(s, again); id != first {
		t.Error("the same credential has another id")
	}
	for _, text := range []string{"", ".", "..", "tkb1.", "tkb1..", "tkb1.AAAA.AAAA"} {
		if _, _, err := ParseBootstrap(s, text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}

// TestSealedNonsense: what the right secret has sealed is still checked.
func TestSealedNonsense(t *testing.T) {
	s := newSecrets(t, clusterA)
	good, _ := sampleBootstrap().Mint(s)
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(good, ".")[1])
	for size := range len(payload) {
		if _, _, err := ParseBootstrap(s, s.seal(BootstrapPrefix, bootstrapCredentialKey, payload[:size])); !errors.Is(err, ErrCredentialForm) {
			t.Errorf("%d of %d bytes: %v", size, len(payload), err)
		}
	}
	if _, _, err := ParseBootstrap(s, s.seal(BootstrapPrefix, bootstrapCredentialKey, append(payload, 0))); !errors.Is(err, ErrCredentialForm) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestCredentialsOutOfRange(t *testing.T) {
	s := newSecrets(t, clusterA)
	for name, change := range map[string]func(*BootstrapCredential){
		"two seats":          func(c *BootstrapCredential) { c.Seats = c.Seats[:2] },
		"no seats":           func(c *BootstrapCredential) { c.Seats = nil },
		"seats out of order": func(c *BootstrapCredential) { c.Seats[0].Seat = 2 },
		"an address twice":   func(c *BootstrapCredential) { c.Seats[0].PeerAddr = c.Seats[1].PeerAddr },
		"no address":         func(c *BootstrapCredential) { c.Seats[0].PeerAddr = "" },
		"a long address":     func(c *BootstrapCredential) { c.Seats[0].PeerAddr = strings.Repeat("a", 256) },
		"ends as it begins":  func(c *BootstrapCredential) { c.NotAfterMillis = c.NotBeforeMillis },
	} {
		c := sampleBootstrap()
		change(c)
		if text, err := c.Mint(s); !errors.Is(err, ErrCredentialForm) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for name, change := range map[string]func(*JoinCredential){
		"seat 0":         func(c *JoinCredential) { c.Seat = 0 },
		"seat 6":         func(c *JoinCredential) { c.Seat = 6 },
		"no NodeId":      func(c *JoinCredential) { c.NodeID = 0 },
		"no address":     func(c *JoinCredential) { c.PeerAddr = "" },
		"a long address": func(c *JoinCredential) { c.PeerAddr = strings.Repeat("a", 256) },
	} {
		c := sampleJoin()
		change(c)
		if text, err := c.Mint(s); !errors.Is(err, ErrCredentialForm) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
