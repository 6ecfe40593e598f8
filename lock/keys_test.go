package lock

import (
	"fmt"
	"testing"
	"time"

	"ticketing.internal/wire"
)

func TestKeys(t *testing.T) {
	f := newFixture(t, roomy)
	a, b := f.open("10.0.0.1:1"), f.open("10.0.0.2:2")
	f.acquire(a, 1, "orders/1")
	f.acquire(b, 2, "orders/1")
	f.acquire(b, 3, "orders/1")
	f.pass(2 * time.Second)
	f.acquireFor(b, 4, "users/1", 0, 5000)
	f.m.Apply(f.now, &Command{Kind: KindGrant, Key: []byte("orders/2"), Owner: 9, LeaseMillis: 1000, GrantedAt: 77}, false)
	f.check()
	f.close(b)
	query := func(q KeysQuery) (lines []string) {
		keys, next := f.m.Keys(f.now, nil, &q)
		if next != 0 {
			t.Errorf("more after %d", next)
		}
		for _, k := range keys {
			lines = append(lines, fmt.Sprintf("%s owner=%d token=%d here=%v name=%s addr=%s at=%d left=%v waiters=%d", k.Key, k.Owner,
				k.Token, k.Here, k.Client.Name, k.Client.Addr, k.GrantedAt, time.Duration(k.LeaseEnd-f.now.Mono).Round(10*time.Millisecond),
				k.Waiters))
		}
		return lines
	}
	const (
		orders1 = "orders/1 owner=1 token=101 here=true name=client-10.0.0.1:1 addr=10.0.0.1:1 at=1800000000000 left=28s waiters=0"
		users1  = "users/1 owner=4 token=102 here=true name=client-10.0.0.2:2 addr=10.0.0.2:2 at=1800000002000 left=5s waiters=0"
		orders2 = "orders/2 owner=9 token=103 here=false name= addr= at=77 left=1s waiters=0"
	)
	for _, test := range []struct {
		name string
		q    KeysQuery
		want []string
	}{
		{"all", KeysQuery{}, []string{orders1, users1, orders2}},
		{"by prefix", KeysQuery{Prefix: "orders/"}, []string{orders1, orders2}},
		{"a prefix longer than a key", KeysQuery{Prefix: "orders/11"}, nil},
		{"held for a while", KeysQuery{HeldMillis: 1000}, []string{orders1}},
		{"held for longer than any", KeysQuery{HeldMillis: 3000}, nil},
	} {
		if got := query(test.q); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	f.acquire(a, 5, "users/1")
	if got := query(KeysQuery{Prefix: "users/"}); len(got) != 1 || got[0] != users1[:len(users1)-1]+"1" {
		t.Errorf("with a waiter: %q", got)
	}
}

func TestKeysInPages(t *testing.T) {
	const n = 5000
	f := newFixture(t, Limits{Keys: n + 1, Waiters: 1, WaitersPerKey: 1, InFlight: 1})
	s := f.open("10.0.0.1:1")
	for i := range n {
		f.m.Acquire(f.now, s, &wire.Request{Owner: uint64(i + 1), Lease: 1000, Key: fmt.Appendf(nil, "k%d", i)})
	}
	f.check()
	for _, q := range []KeysQuery{{}, {Limit: 1}, {Limit: 7, Scan: 3}, {Limit: 100}, {Limit: 5000}, {Scan: 1}, {Prefix: "k4", Scan: 50}} {
		seen := map[string]int{}
		for calls := 0; ; calls++ {
			keys, next := f.m.Keys(f.now, nil, &q)
			if most := min(max(q.Limit, 1), 1000); q.Limit > 0 && len(keys) > most || len(keys) > 1000 || q.Scan > 0 && len(keys) > q.Scan {
				t.Fatalf("%+v: %d keys at once", q, len(keys))
			}
			for _, k := range keys {
				seen[k.Key]++
			}
			// Others come and go meanwhile.
			f.m.Release(f.now, s, &wire.Request{Owner: 9999, Token: f.m.LastToken(), Key: []byte("other")})
			f.m.Acquire(f.now, s, &wire.Request{Owner: 9999, Lease: 1000, Key: []byte("other")})
			if next == 0 {
				break
			}
			q.After = next
		}
		delete(seen, "other")
		want := n
		if q.Prefix != "" {
			want = 1111 // k4, k4x, k4xx, k4xxx
		}
		for key, times := range seen {
			if times != 1 {
				t.Errorf("%+v: %s is told %d times", q, key, times)
			}
		}
		if len(seen) != want {
			t.Errorf("%+v: %d keys, want %d", q, len(seen), want)
		}
	}
}
