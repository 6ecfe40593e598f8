package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/wire"
)

// KeyPage is what /keys answers, as JSON.
type KeyPage struct {
	Keys []KeyEntry `json:"keys"`
	Next *string    `json:"next"` // to be given as after for the next page; null after the last
}

// KeyEntry is one held key.
type KeyEntry struct {
	Key       string    `json:"key"`
	Owner     uint64    `json:"owner,string"`
	Token     *Token    `json:"token"` // null unless the request showed the admin token
	Name      *string   `json:"name"`  // of the client it was granted to; null where this node did not grant, as the next
	Addr      *string   `json:"addr"`  // host:port
	GrantedAt time.Time `json:"granted_at"`
	LeaseEnd  time.Time `json:"lease_end"`
	Waiters   *int      `json:"waiters"` // null on a follower
}

// Token is a fencing token that JSON carries as a string: numbers there end at 2^53.
type Token uint64

// MarshalText writes the decimal number.
func (t Token) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(t), 10), nil }

// UnmarshalText reads a decimal number.
func (t *Token) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("reading a token: %w", err)
	}
	*t = Token(n)
	return nil
}

const (
	defaultKeys = 100
	mostKeys    = 1000
	// mostLooks is how often one request looks at the engine; a page that is not full by then ends early, with a cursor.
	mostLooks = 64
)

func (a *admin) serveKeys(w http.ResponseWriter, r *http.Request) {
	q, err := parseKeysQuery(r.URL.RawQuery)
	if err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	page := keysPage{query: q}
	for range mostLooks {
		a.source.keys(&page)
		page.query.After, page.query.Limit = page.next, q.Limit-len(page.keys)
		if page.next == 0 || page.query.Limit <= 0 {
			break
		}
	}
	w.Header().Set("Content-Type", "application/json")
	page.write(w, a.access.required())
}

// write sends the page entry by entry: it is never in memory as a whole. Errors are the client's going away.
func (p *keysPage) write(w io.Writer, showTokens bool) {
	io.WriteString(w, `{"keys":[`)
	encoder := json.NewEncoder(w)
	for i := range p.keys {
		if i > 0 {
			io.WriteString(w, ",")
		}
		entry := p.entry(&p.keys[i], showTokens)
		if encoder.Encode(&entry) != nil {
			return
		}
	}
	next := "null"
	if p.next != 0 {
		next = strconv.Quote(formatCursor(p.next))
	}
	io.WriteString(w, `],"next":`+next+"}\n")
}

func (p *keysPage) entry(k *lock.KeyInfo, showToken bool) KeyEntry {
	e := KeyEntry{
		Key:       k.Key,
		Owner:     k.Owner,
		GrantedAt: time.UnixMilli(k.GrantedAt).UTC(),
		LeaseEnd:  time.UnixMilli(p.now.Wall + (k.LeaseEnd-p.now.Mono)/int64(time.Millisecond)).UTC(),
	}
	if p.serves {
		e.Waiters = &k.Waiters
	}
	if showToken {
		e.Token = (*Token)(&k.Token)
	}
	if k.Here {
		e.Name, e.Addr = &k.Client.Name, &k.Client.Addr
	}
	return e
}

// parseKeysQuery reads prefix, limit, after and held_longer_ms. Others are ignored.
func parseKeysQuery(raw string) (q lock.KeysQuery, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("reading the query: %w", err)
	}
	number := func(name string, low, high, missing uint64) uint64 {
		text := values.Get(name)
		if text == "" {
			return missing
		}
		n, parseErr := strconv.ParseUint(text, 10, 64)
		if err == nil && (parseErr != nil || n < low || n > high) {
			err = fmt.Errorf("%s=%q: a number from %d to %d is allowed", name, text, low, high)
		}
		return n
	}
	q.Prefix = values.Get("prefix")
	q.Limit = int(number("limit", 1, mostKeys, defaultKeys))
	q.HeldMillis = int64(number("held_longer_ms", 0, wire.MaxLeaseMillis, 0))
	if len(q.Prefix) > wire.MaxKey {
		err = fmt.Errorf("prefix: at most %d bytes are allowed", wire.MaxKey)
	}
	var ok bool
	if q.After, ok = parseCursor(values.Get("after")); !ok && err == nil {
		err = fmt.Errorf("after=%q: only what an earlier answer had in next is allowed", values.Get("after"))
	}
	return q, err
}

// A cursor is the manager's, in a form that invites nobody to count.
func formatCursor(next uint32) string { return strconv.FormatUint(uint64(next), 36) }

func parseCursor(text string) (after uint32, ok bool) {
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(text, 36, 32)
	return uint32(n), err == nil && n != 0
}
