package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// Limits of what is taken from an admin endpoint.
const (
	adminTimeout   = 10 * time.Second
	maxAdminAnswer = 8 << 20 // bytes
)

func adminEnviron() []string {
	return []string{
		"TICKETING_ADMIN_ADDRS URLs of admin endpoints, with commas between them (--admin; default http://127.0.0.1:5425)",
		"TICKETING_ADMIN_TOKEN their secret (or TICKETING_ADMIN_TOKEN_FILE)",
	}
}

func adminExits() []string {
	return []string{"64 usage", "69 no admin endpoint reachable", "77 authentication or certificate", "78 configuration"}
}

// adminFlags say where the admin endpoints are.
type adminFlags struct {
	tlsFlags
	urls  listFlag
	token string
	http  *http.Client
}

func (f *adminFlags) register(fs *flag.FlagSet) {
	fs.Var(&f.urls, "admin", "`URL` of an admin endpoint; may be repeated")
	f.tlsFlags.register(fs)
}

// prepare joins flags and environment.
func (f *adminFlags) prepare(p *process) (err error) {
	if len(f.urls) == 0 {
		list := p.variable("TICKETING_ADMIN_ADDRS")
		if list == "" {
			list = "http://127.0.0.1:5425"
		}
		if err := f.urls.Set(list); err != nil {
			return withExit(exitConfig, fmt.Errorf("TICKETING_ADMIN_ADDRS %q: %w", list, err))
		}
	}
	for i, s := range f.urls {
		if !strings.Contains(s, "://") {
			s = "http://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return usageError("admin endpoint %q: want a URL such as http://127.0.0.1:5425", f.urls[i])
		}
		f.urls[i] = strings.TrimSuffix(u.String(), "/")
	}
	if f.token, err = p.secret("TICKETING_ADMIN_TOKEN"); err != nil {
		return err
	}
	tls, err := tlsconf.NewClient(f.options(p))
	if err != nil {
		return withExit(exitConfig, err)
	}
	f.http = &http.Client{
		Transport: &http.Transport{TLSClientConfig: tls},
		Timeout:   adminTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token must go to no other address than the one given
		},
	}
	return nil
}

// endpoints returns one for each URL.
func (f *adminFlags) endpoints() []*adminEndpoint {
	var list []*adminEndpoint
	for _, u := range f.urls {
		list = append(list, &adminEndpoint{u, f})
	}
	return list
}

// leader returns the endpoint of the node that serves, or the first that answers.
func (f *adminFlags) leader(ctx context.Context) (*adminEndpoint, error) {
	var first *adminEndpoint
	var problems []error
	for _, e := range f.endpoints() {
		status, _, err := e.status(ctx)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if len(f.urls) == 1 || status.Role == "leader" || status.Role == "standalone" {
			return e, nil
		}
		if first == nil {
			first = e
		}
	}
	if first == nil {
		return nil, joinUnreachable(problems, lookAtAdmin)
	}
	return first, nil
}

// lookAtAdmin is what to check when no admin endpoint answers.
const lookAtAdmin = "does a server run there? its admin port (TICKETING_ADMIN_LISTEN) is what --admin or TICKETING_ADMIN_ADDRS names"

// adminEndpoint is one node's.
type adminEndpoint struct {
	url   string
	flags *adminFlags
}

// get returns the JSON at path.
func (e *adminEndpoint) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return nil, usageError("admin endpoint %q: %v", e.url, err)
	}
	if e.flags.token != "" {
		request.Header.Set("Authorization", "Bearer "+e.flags.token)
	}
	response, err := e.flags.http.Do(request)
	if err != nil {
		if code := exitCode(err); code == exitAuth {
			return nil, withExit(code, err)
		}
		return nil, withExit(exitUnreachable, e.inTime(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAdminAnswer))
	switch {
	case err != nil:
		return nil, withExit(exitUnreachable, fmt.Errorf("reading the answer of %s: %w", e.url, e.inTime(err)))
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		return nil, withExit(exitAuth, fmt.Errorf("%s refuses: %s; set TICKETING_ADMIN_TOKEN", e.url, response.Status))
	case response.StatusCode != http.StatusOK:
		return nil, withExit(exitUnreachable, fmt.Errorf("%s answers %s: %.200q", e.url, response.Status, body))
	}
	return body, nil
}

// inTime returns err, or for one about a deadline the time that there was.
func (e *adminEndpoint) inTime(err error) error {
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return fmt.Errorf("%s: no answer within %v", e.url, e.flags.http.Timeout)
	}
	return err
}

// nodeStatus is the part of /status that is shown to people.
type nodeStatus struct {
	Version     string `json:"version"`
	Mode        string `json:"mode"`
	Role        string `json:"role"`
	Ready       bool   `json:"ready"`
	WhyNotReady string `json:"why_not_ready"`
	Domain      string `json:"domain"`
	Seat        int    `json:"seat"`
	NodeID      uint32 `json:"node_id"`
	Term        uint64 `json:"term"`
	Leader      *struct {
		ClientAddr string `json:"client_addr"`
	} `json:"leader"`
	Members []struct {
		Seat        int     `json:"seat"`
		NodeID      uint32  `json:"node_id"`
		Role        string  `json:"role"`
		ClientAddr  string  `json:"client_addr"`
		PeerAddr    string  `json:"peer_addr"`
		Lag         *uint64 `json:"lag"` // null, as the next, where the node does not know
		LastHeardMs *uint64 `json:"last_heard_ms"`
	} `json:"members"`
	Replacement *replacement `json:"replacement"` // null: none is under way
	HeldKeys    uint64       `json:"held_keys"`
	Waiters     *uint64      `json:"waiters"` // null on a follower
	Connections uint64       `json:"connections"`
	Token       string       `json:"token"`
	Uptime      float64      `json:"uptime_s"`
}

// replacement is the replacement of a node, under way.
type replacement struct {
	Seat   int    `json:"seat"`
	NodeID uint32 `json:"node_id"`
	Phase  string `json:"phase"`
}

func (r *replacement) String() string {
	return fmt.Sprintf("seat %d by node %d: %s", r.Seat, r.NodeID, plain(r.Phase))
}

// status returns /status, decoded and as it was sent.
func (e *adminEndpoint) status(ctx context.Context) (nodeStatus, json.RawMessage, error) {
	var s nodeStatus
	body, err := e.get(ctx, "/status")
	if err != nil {
		return s, nil, err
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return s, nil, withExit(exitUnreachable, fmt.Errorf("the answer of %s/status: %w", e.url, err))
	}
	return s, body, nil
}

// heldKey is a key of /keys.
type heldKey struct {
	Key       string    `json:"key"`
	Owner     string    `json:"owner"`
	Token     string    `json:"token,omitempty"` // only with the admin token
	Name      *string   `json:"name"`            // null if another node granted it
	Addr      *string   `json:"addr"`
	GrantedAt time.Time `json:"granted_at"`
	LeaseEnd  time.Time `json:"lease_end"`
	Waiters   *uint64   `json:"waiters"` // null on a follower
}

// keysQuery selects keys.
type keysQuery struct {
	prefix     string
	heldLonger time.Duration
}

// keys reads page by page the keys that match query and for which keep (nil: for all) is true, and returns at most most of them (0: all).
func (e *adminEndpoint) keys(ctx context.Context, query keysQuery, keep func(*heldKey) bool, most int) ([]heldKey, error) {
	list := []heldKey{}
	values := url.Values{"limit": {"1000"}}
	if query.prefix != "" {
		values.Set("prefix", query.prefix)
	}
	if query.heldLonger > 0 {
		// Nothing is held for longer than the longest lease, and the endpoint takes no more.
		values.Set("held_longer_ms", fmt.Sprint(min(query.heldLonger.Milliseconds(), wire.MaxLeaseMillis)))
	}
	for {
		body, err := e.get(ctx, "/keys?"+values.Encode())
		if err != nil {
			return nil, err
		}
		var page struct {
			Keys []heldKey `json:"keys"`
			Next string    `json:"next"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, withExit(exitUnreachable, fmt.Errorf("the answer of %s/keys: %w", e.url, err))
		}
		for i := range page.Keys {
			if keep == nil || keep(&page.Keys[i]) {
				list = append(list, page.Keys[i])
			}
			if most > 0 && len(list) == most {
				return list, nil
			}
		}
		if page.Next == "" {
			return list, nil
		}
		values.Set("after", page.Next)
	}
}
