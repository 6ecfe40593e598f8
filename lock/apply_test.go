package lock

import (
	"testing"
	"time"
)

// TestEndIsExact: key, owner and token must all match; each comparison is needed by a row of its own.
func TestEndIsExact(t *testing.T) {
	tests := []struct {
		name string
		c    Command
		want Outcome
	}{
		{"release", Command{Kind: KindRelease, Key: []byte("k1"), Owner: 7, Token: 101}, Released},
		{"release, another key that is held", Command{Kind: KindRelease, Key: []byte("k2"), Owner: 7, Token: 101}, NotFound},
		{"release, another key that is free", Command{Kind: KindRelease, Key: []byte("k3"), Owner: 7, Token: 101}, NotFound},
		{"release, a longer key", Command{Kind: KindRelease, Key: []byte("k11"), Owner: 7, Token: 101}, NotFound},
		{"release, another owner", Command{Kind: KindRelease, Key: []byte("k1"), Owner: 8, Token: 101}, NotFound},
		{"release, an older token", Command{Kind: KindRelease, Key: []byte("k1"), Owner: 7, Token: 100}, NotFound},
		{"release, a later token", Command{Kind: KindRelease, Key: []byte("k1"), Owner: 7, Token: 102}, NotFound},
		{"release, the token of another key", Command{Kind: KindRelease, Key: []byte("k2"), Owner: 8, Token: 101}, NotFound},
		{"expire", Command{Kind: KindExpire, Key: []byte("k1"), Token: 101}, Expired},
		{"expire, another key that is held", Command{Kind: KindExpire, Key: []byte("k2"), Token: 101}, NotExpired},
		{"expire, another key that is free", Command{Kind: KindExpire, Key: []byte("k3"), Token: 101}, NotExpired},
		{"expire, an older token", Command{Kind: KindExpire, Key: []byte("k1"), Token: 100}, NotExpired},
		{"expire, a later token", Command{Kind: KindExpire, Key: []byte("k1"), Token: 102}, NotExpired},
		{"grant, held", Command{Kind: KindGrant, Key: []byte("k1"), Owner: 7, LeaseMillis: 1000}, GrantRejected},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, roomy)
			f.stepDown()
			for i, key := range []string{"k1", "k2"} {
				c := Command{Kind: KindGrant, Key: []byte(key), Owner: uint64(7 + i), LeaseMillis: 30_000}
				if r := f.m.Apply(f.now, &c, false); r != (Result{Granted, uint64(101 + i)}) {
					t.Fatalf("grant: %+v", r)
				}
			}
			f.check()
			hash := f.m.StateHash()
			if r := f.m.Apply(f.now, &test.c, false); r != (Result{Outcome: test.want}) {
				t.Errorf("result %+v, want %d", r, test.want)
			}
			f.check()
			ended := test.want == Released || test.want == Expired
			if n := f.m.Stats().Held; n != 1 && ended || n != 2 && !ended {
				t.Errorf("%d held", n)
			}
			if changed := f.m.StateHash() != hash; changed != ended {
				t.Errorf("the hash changed: %v", changed)
			}
		})
	}
}

func TestTokensOnlyGrow(t *testing.T) {
	f := newFixture(t, roomy)
	s := f.open("10.0.0.1:1")
	f.try(s, 1, "k1")
	f.m.RaiseToken(50) // never lowered
	f.try(s, 2, "k2")
	f.m.RaiseToken(1000)
	f.try(s, 3, "k1") // a T takes no token
	f.try(s, 4, "k4")
	f.want("1 A owner=1 token=101", "1 A owner=2 token=102", "1 T owner=3", "1 A owner=4 token=1001")
	if n := f.m.LastToken(); n != 1001 {
		t.Errorf("last token %d", n)
	}
}

func TestStateHashTellsEachField(t *testing.T) {
	hash := func(change func(c *Command)) uint64 {
		m := newFollower()
		c := Command{Kind: KindGrant, Key: []byte("order-1234"), Owner: 7, LeaseMillis: 30_000, GrantedAt: 1_800_000_000_000}
		change(&c)
		m.Apply(Time{Mono: int64(time.Hour)}, &c, false)
		return m.StateHash()
	}
	seen := map[uint64]string{hash(func(*Command) {}): "nothing"}
	for name, change := range map[string]func(c *Command){
		"owner":      func(c *Command) { c.Owner++ },
		"lease":      func(c *Command) { c.LeaseMillis++ },
		"granted_at": func(c *Command) { c.GrantedAt++ },
		"first byte": func(c *Command) { c.Key[0]++ },
		"last byte":  func(c *Command) { c.Key[9]++ },
		"length":     func(c *Command) { c.Key = append(c.Key, 0) },
		"shorter":    func(c *Command) { c.Key = c.Key[:9] },
		"kind":       func(c *Command) { c.Kind = KindExpire },
	} {
		h := hash(change)
		if other, ok := seen[h]; ok {
			t.Errorf("a change of %s hashes like one of %s", name, other)
		}
		seen[h] = name
	}
	if again := hash(func(*Command) {}); seen[again] != "nothing" {
		t.Errorf("the hash depends on more than the state")
	}
}

// TestStateHashForgets: the order in which locks came and went does not matter, the counter does.
func TestStateHashForgets(t *testing.T) {
	a, b := newFollower(), newFollower()
	grant := func(m *Manager, key string) {
		m.Apply(Time{}, &Command{Kind: KindGrant, Key: []byte(key), Owner: 1, LeaseMillis: 1000}, false)
	}
	expire := func(m *Manager, key string, token uint64) {
		m.Apply(Time{}, &Command{Kind: KindExpire, Key: []byte(key), Token: token}, false)
	}
	grant(a, "x")
	grant(a, "y")
	expire(a, "x", 1)
	b.RaiseToken(1)
	grant(b, "y")
	if a.StateHash() != b.StateHash() {
		t.Error("equal states with different hashes")
	}
	b.RaiseToken(3)
	if a.StateHash() == b.StateHash() {
		t.Error("different counters with equal hashes")
	}
}
