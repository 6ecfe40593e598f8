package server

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"ticketing.internal/lock"
)

func heldKeys(n int) []lock.KeyInfo {
	keys := make([]lock.KeyInfo, n)
	for i := range keys {
		keys[i] = lock.KeyInfo{
			Key: fmt.Sprintf("key-%04d", i), Owner: math.MaxUint64, Token: math.MaxUint64 - uint64(i), Here: true,
			Client: lock.Client{Name: "billing", Addr: "10.0.0.1:4711"}, GrantedAt: gateEpoch - 1500, LeaseEnd: 80 * second, Waiters: i,
		}
	}
	return keys
}

func keyPage(t *testing.T, a *admin, query string, headers ...string) (KeyPage, string) {
	t.Helper()
	w := get(a, "GET", "/keys?"+query, headers...)
	var page KeyPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
		t.Fatalf("/keys?%s: %d, %v: %s", query, w.Code, err, w.Body)
	}
	return page, w.Body.String()
}

func TestAdminKeyFields(t *testing.T) {
	source := &quietSource{held: heldKeys(1)}
	a := newTestAdmin(t, source, nil)
	_, text := keyPage(t, a, "")
	want := `{"keys":[{"key":"key-0000","owner":"18446744073709551615","token":null,"name":"billing","addr":"10.0.0.1:4711",` +
		`"granted_at":"2026-01-01T00:16:38.5Z","lease_end":"2026-01-01T00:17:10Z","waiters":0}` + "\n" + `],"next":null}` + "\n"
	if text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	a.setToken("secret")
	if page, _ := keyPage(t, a, "", "Authorization: Bearer secret"); page.Keys[0].Token == nil || *page.Keys[0].Token != math.MaxUint64 {
		t.Errorf("the token does not show to who has the admin token: %+v", page.Keys[0])
	}
	source.held[0].Here = false
	if _, text := keyPage(t, a, "", "Authorization: Bearer secret"); !strings.Contains(text, `"name":null,"addr":null`) {
		t.Errorf("granted elsewhere: %s", text)
	}
	source.idle = true
	if _, text := keyPage(t, a, "", "Authorization: Bearer secret"); !strings.Contains(text, `"waiters":null`) {
		t.Errorf("on a follower, which does not know who waits: %s", text)
	}
}

func TestAdminNoKeys(t *testing.T) {
	if _, text := keyPage(t, newTestAdmin(t, &quietSource{}, nil), ""); text != `{"keys":[],"next":null}`+"\n" {
		t.Errorf("got %s", text)
	}
}

// Names and keys come from clients; nothing in them may be taken for JSON or for HTML.
func TestAdminKeysEscapes(t *testing.T) {
	hostile := "\"}]</script><script>\u2028\\\u00a0é"
	source := &quietSource{held: heldKeys(1)}
	source.held[0].Key, source.held[0].Client.Name = hostile, hostile
	page, text := keyPage(t, newTestAdmin(t, source, nil), "")
	if page.Keys[0].Key != hostile || *page.Keys[0].Name != hostile {
		t.Errorf("read back %q, %q", page.Keys[0].Key, *page.Keys[0].Name)
	}
	if strings.ContainsAny(text, "<>\u2028") {
		t.Errorf("not escaped: %s", text)
	}
}

func TestAdminKeysPaging(t *testing.T) {
	for name, test := range map[string]struct {
		scan, limit int
		pages       int
	}{
		"whole pages":                      {0, 100, 10},
		"a page of the rest":               {0, 999, 2},
		"all at once":                      {0, 1000, 1},
		"many looks fill a page":           {10, 100, 10},
		"a page that takes too many looks": {1, 100, 16},
	} {
		source := &quietSource{held: heldKeys(1000), scan: test.scan}
		a := newTestAdmin(t, source, nil)
		seen, pages, after := 0, 0, ""
		for {
			page, _ := keyPage(t, a, fmt.Sprintf("limit=%d&after=%s", test.limit, after))
			pages++
			for _, k := range page.Keys {
				if k.Key != source.held[seen].Key {
					t.Fatalf("%s: %s follows %d keys", name, k.Key, seen)
				}
				seen++
			}
			if len(page.Keys) > test.limit {
				t.Errorf("%s: %d keys", name, len(page.Keys))
			}
			if page.Next == nil {
				break
			}
			after = *page.Next
		}
		if seen != 1000 || pages != test.pages {
			t.Errorf("%s: %d keys on %d pages, want %d pages", name, seen, pages, test.pages)
		}
	}
}

func TestAdminKeysLooksAreBounded(t *testing.T) {
	source := &quietSource{held: heldKeys(1000), scan: 1}
	page, _ := keyPage(t, newTestAdmin(t, source, nil), "prefix=nobody")
	if n := source.looks.Load(); n != mostLooks || page.Next == nil || len(page.Keys) != 0 {
		t.Errorf("%d looks, next %v, %d keys", n, page.Next, len(page.Keys))
	}
}

func TestParseKeysQuery(t *testing.T) {
	for raw, want := range map[string]lock.KeysQuery{
		"": {Limit: 100},
		"prefix=a%26b%20c&limit=7&after=10&held_longer_ms=2500": {Prefix: "a&b c", Limit: 7, After: 36, HeldMillis: 2500},
		"after=1z141z3": {Limit: 100, After: math.MaxUint32},
		"unknown=1":     {Limit: 100},
	} {
		if got, err := parseKeysQuery(raw); err != nil || got != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	for after := range map[uint32]bool{1: true, 35: true, 36: true, math.MaxUint32: true} {
		if got, ok := parseCursor(formatCursor(after)); !ok || got != after {
			t.Errorf("cursor %d reads back as %d, %v", after, got, ok)
		}
	}
}

func FuzzKeysQuery(f *testing.F) {
	f.Add("prefix=a&limit=7&after=10&held_longer_ms=2500")
	f.Add("limit=%31&after=zzzzzz")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseKeysQuery(raw)
		if err == nil && (q.Limit < 1 || q.Limit > mostKeys || q.HeldMillis < 0 || q.HeldMillis > int64(250*time.Second/time.Millisecond) || len(q.Prefix) > 128) {
			t.Fatalf("accepted: %+v", q)
		}
	})
}
