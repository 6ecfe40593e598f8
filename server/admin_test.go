package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ticketing.internal/lock"
	"ticketing.internal/tlsconf"
)

// quietSource is an adminSource of a server that holds what a test gives it.
type quietSource struct {
	stuck  atomic.Bool
	whyNot string
	held   []lock.KeyInfo
	idle   bool          // it does not serve, as a follower
	scan   int           // keys that one look passes over at most; 0: all
	asked  chan struct{} // gets a value at each question, if it is not nil
	answer chan struct{} // a question is answered when a value is taken, if it is not nil
	looks  atomic.Int64
}

func (s *quietSource) live() bool    { return !s.stuck.Load() }
func (s *quietSource) ready() string { return s.whyNot }

func (s *quietSource) status() Status {
	if s.asked != nil {
		s.asked <- struct{}{}
		<-s.answer
	}
	return Status{Version: "v", Mode: "standalone", Role: "standalone", Ready: true, Domain: "00ff", HeldKeys: len(s.held), Token: 1 << 60}
}

func (s *quietSource) keys(p *keysPage) {
	s.looks.Add(1)
	p.now, p.serves = lock.Time{Mono: 50 * second, Wall: gateEpoch}, !s.idle
	p.next = 0
	for i := int(p.query.After); i < len(s.held); i++ {
		if i-int(p.query.After) == s.scan && s.scan > 0 || p.query.Limit == 0 {
			p.next = uint32(i)
			return
		}
		if k := s.held[i]; strings.HasPrefix(k.Key, p.query.Prefix) {
			p.keys = append(p.keys, k)
			p.query.Limit--
		}
	}
}

func testEvents(w io.Writer) *events { return newEvents(newClock(), NewLogger(w, "info", "text")) }

func newTestAdmin(t *testing.T, source adminSource, change func(*Config)) *admin {
	t.Helper()
	c := DefaultConfig()
	c.AdminListen = "127.0.0.1:0"
	if change != nil {
		change(&c)
	}
	a, err := newAdmin(&c, nil, source, testEvents(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

// get asks a without a network. Each header is name: value.
func get(a *admin, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:5425"+target, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

func TestAdminPaths(t *testing.T) {
	a := newTestAdmin(t, &quietSource{}, nil)
	for target, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/status": 200, "/keys": 200, "/": 200,
		"/metrics": 404, "/nothing": 404, "/keys/": 404, "//status": 404, "/status/../keys": 404,
		"/keys?limit=1": 200, "/keys?limit=1000": 200, "/keys?limit=0": 400, "/keys?limit=1001": 400, "/keys?limit=x": 400,
		"/keys?after=zz": 200, "/keys?after=-1": 400, "/keys?after=0": 400, "/keys?after=zzzzzzzzzz": 400,
		"/keys?held_longer_ms=-5": 400, "/keys?held_longer_ms=250000": 200, "/keys?%zz": 400, "/keys?prefix=" + strings.Repeat("x", 129): 400,
	} {
		if w := get(a, "GET", target); w.Code != want {
			t.Errorf("GET %s: %d, want %d: %s", target, w.Code, want, w.Body)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/status", "/keys"} {
		if !strings.Contains(get(a, "GET", "/").Body.String(), path) {
			t.Errorf("/ does not name %s", path)
		}
	}
}

func TestAdminChangesNothing(t *testing.T) {
	a := newTestAdmin(t, &quietSource{}, nil)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
		for _, path := range []string{"/", "/livez", "/status", "/keys", "/nothing"} {
			if w := get(a, method, path); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	if w := get(a, "HEAD", "/status"); w.Code != 200 {
		t.Errorf("HEAD /status: %d", w.Code)
	}
}

func TestAdminHeaders(t *testing.T) {
	a := newTestAdmin(t, &quietSource{}, nil)
	for _, target := range []string{"/", "/status", "/keys", "/livez", "/nothing"} {
		h := get(a, "GET", target).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
	if got := get(a, "GET", "/status").Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("/status is %s", got)
	}
}

func TestAdminProbes(t *testing.T) {
	source := &quietSource{whyNot: "recovering: 3 s more"}
	a := newTestAdmin(t, source, func(c *Config) { c.AdminToken = "secret" })
	if w := get(a, "GET", "/livez"); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("/livez: %d %s", w.Code, w.Body)
	}
	if w := get(a, "GET", "/readyz"); w.Code != 503 || w.Body.String() != "recovering: 3 s more\n" {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
	source.stuck.Store(true)
	source.whyNot = ""
	if w := get(a, "GET", "/livez"); w.Code != 503 {
		t.Errorf("/livez of a stuck engine: %d %s", w.Code, w.Body)
	}
	if w := get(a, "GET", "/readyz"); w.Code != 200 {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
}

func TestAdminHost(t *testing.T) {
	for _, test := range []struct {
		listen, host string
		want         int
	}{
		{"127.0.0.1:0", "127.0.0.1:5425", 200},
		{"127.0.0.1:0", "127.0.0.1", 200},
		{"127.0.0.1:0", "localhost:5425", 200},
		{"127.0.0.1:0", "LOCALHOST", 200},
		{"127.0.0.1:0", "localhost.:1", 200},
		{"127.0.0.1:0", "[::1]:5425", 200},
		{"127.0.0.1:0", "[::1]", 200},
		{"127.0.0.1:0", "10.1.2.3:5425", 200},
		{"127.0.0.1:0", "", 200},
		{"127.0.0.1:0", "evil.example", 421},
		{"127.0.0.1:0", "evil.example:5425", 421},
		{"127.0.0.1:0", "127.0.0.1.evil.example:5425", 421},
		{"127.0.0.1:0", "localhost.evil.example", 421},
		{"127.0.0.1:0", "127.1", 421},
		{"127.0.0.1:0", "2130706433", 421},
		{"127.0.0.1:0", ":5425", 421},
		{"localhost:0", "localhost:1", 200},
		{"localhost:0", "evil.example", 421},
	} {
		a := newTestAdmin(t, &quietSource{}, func(c *Config) { c.AdminListen = test.listen })
		for _, path := range []string{"/", "/status", "/livez"} {
			if w := get(a, "GET", path, "Host: "+test.host); w.Code != test.want {
				t.Errorf("listening on %s, Host %q, %s: %d, want %d", test.listen, test.host, path, w.Code, test.want)
			}
		}
	}
	named := adminAccess{name: "locks.example"}
	if !named.hostAllowed("Locks.Example:5425") || named.hostAllowed("other.example") {
		t.Error("the name that is listened on does not count")
	}
}

func TestAdminToken(t *testing.T) {
	basic := func(userAndPassword string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(userAndPassword))
	}
	a := newTestAdmin(t, &quietSource{}, func(c *Config) { c.AdminToken = "the token" })
	for header, want := range map[string]int{
		"":                                 200,
		"Authorization: Bearer the token":  200,
		"Authorization: bearer the token":  200,
		basic("anybody:the token"):         200,
		basic(":the token"):                200,
		"X: y":                             401,
		"Authorization: Bearer":            401,
		"Authorization: Bearer the toke":   401,
		"Authorization: Bearer the token2": 401,
		"Authorization: the token":         401,
		"Authorization: Basic !":           401,
		"Authorization: Digest the token":  401,
		basic("the token:"):                401,
		basic("the token"):                 401,
	} {
		for _, path := range []string{"/", "/status", "/keys", "/nothing"} {
			headers, want := []string{header}, want
			if header == "" {
				headers, path = nil, "/livez" // open to all
			}
			if want == 200 && path == "/nothing" {
				want = 404
			}
			w := get(a, "GET", path, headers...)
			if w.Code != want {
				t.Errorf("%s with %q: %d, want %d", path, header, w.Code, want)
			}
			if w.Code == 401 && len(w.Header().Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s with %q does not ask for the token: %v", path, header, w.Header())
			}
		}
	}
	a.setToken("another")
	if w := get(a, "GET", "/status", "Authorization: Bearer the token"); w.Code != 401 {
		t.Errorf("the token that was replaced: %d", w.Code)
	}
	if w := get(a, "GET", "/status", "Authorization: Bearer another"); w.Code != 200 {
		t.Errorf("the token that replaced it: %d", w.Code)
	}
}

func TestAdminStatus(t *testing.T) {
	a := newTestAdmin(t, &quietSource{}, nil)
	body := get(a, "GET", "/status").Body.Bytes()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, name := range []string{
		"version", "mode", "role", "ready", "why_not_ready", "domain", "seat", "node_id", "incarnation", "term", "leader", "commit_index",
		"applied_index", "state_hash", "members", "replacement", "held_keys", "waiters", "connections", "token", "uptime_s", "limits",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %s in %s", name, body)
		}
	}
	for name, want := range map[string]string{"token": `"1152921504606846976"`, "leader": "null", "members": "[]", "seat": "null"} {
		if string(fields[name]) != want {
			t.Errorf("%s is %s, want %s", name, fields[name], want)
		}
	}
	var again Status
	if err := json.Unmarshal(body, &again); err != nil || again.Token != 1<<60 {
		t.Errorf("read back: token %d, %v", again.Token, err)
	}
}

// Two may ask the engine at a time. Others wait, and are told so in time; the probes never wait.
func TestAdminWhileTheEngineIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &quietSource{asked: make(chan struct{}), answer: make(chan struct{})}
		a := &admin{source: source, engine: make(chan struct{}, adminAtEngine), places: newAdminPlaces(nil, 1)}
		results := make(chan int, adminAtEngine)
		for range adminAtEngine {
			go func() { results <- get(a, "GET", "/status").Code }()
			<-source.asked
		}
		started := time.Now()
		if w := get(a, "GET", "/status"); w.Code != 503 || time.Since(started) != adminPatience {
			t.Errorf("one too many: %d after %v", w.Code, time.Since(started))
		}
		if w := get(a, "GET", "/livez"); w.Code != 200 {
			t.Errorf("/livez meanwhile: %d", w.Code)
		}
		for range adminAtEngine {
			source.answer <- struct{}{}
			if code := <-results; code != 200 {
				t.Errorf("in the end: %d", code)
			}
		}
	})
}

func TestAdminThatIsOff(t *testing.T) {
	c := DefaultConfig()
	c.AdminListen = ""
	a, err := newAdmin(&c, nil, &quietSource{}, testEvents(io.Discard))
	if a != nil || err != nil {
		t.Fatalf("%v, %v", a, err)
	}
	a.run()
	a.setToken("x")
	a.stop()
	a.close()
	if a.addr() != nil {
		t.Error("it has an address")
	}
}

func TestAdminPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := DefaultConfig()
	c.AdminListen = l.Addr().String()
	_, err = newAdmin(&c, nil, &quietSource{}, testEvents(io.Discard))
	if err == nil || ExitCode(err) != 1 || !strings.Contains(err.Error(), "TICKETING_ADMIN_LISTEN="+c.AdminListen) {
		t.Errorf("exit code %d, %v", ExitCode(err), err)
	}
}

// startTestAdmin serves on a real port.
func startTestAdmin(t *testing.T, source adminSource) *admin {
	t.Helper()
	a := newTestAdmin(t, source, nil)
	a.run()
	return a
}

func dialAdmin(t *testing.T, a *admin) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", a.addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a whole request on c and returns the status of the answer, 0 if the connection is gone.
func ask(c net.Conn, path string, headers ...string) int {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", path, strings.Join(append(headers, ""), "\r\n"))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

func TestAdminOverTLS(t *testing.T) {
	certFile, keyFile, trust := writeCertificate(t)
	certificates, err := tlsconf.NewServer(tlsconf.ServerFiles{Cert: certFile, Key: keyFile})
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.AdminListen = "127.0.0.1:0"
	a, err := newAdmin(&c, certificates.Config(), &quietSource{}, testEvents(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.run()
	secure, err := tls.Dial("tcp", a.addr().String(), &tls.Config{RootCAs: trust, ServerName: "127.0.0.1", NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	if p := secure.ConnectionState().NegotiatedProtocol; p == "h2" {
		t.Error("HTTP/2 is negotiated, which has no bound of its own here")
	}
	if code := ask(secure, "/status"); code != 200 {
		t.Errorf("over TLS: %d", code)
	}
	if code := ask(dialAdmin(t, a), "/status"); code != 400 {
		t.Errorf("in plaintext: %d", code)
	}
}

func TestAdminHeaderLimit(t *testing.T) {
	a := startTestAdmin(t, &quietSource{})
	for size, want := range map[int]int{7 << 10: 200, 9 << 10: 431} {
		if got := ask(dialAdmin(t, a), "/livez", "X: "+strings.Repeat("x", size)); got != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, got, want)
		}
	}
}

// Connections that ask nothing, whole or not, do not keep others out.
func TestAdminConnectionsMakeRoom(t *testing.T) {
	a := startTestAdmin(t, &quietSource{})
	var first net.Conn
	for i := range adminConnections + 5 {
		c := dialAdmin(t, a)
		if i == 0 {
			first = c
		}
		io.WriteString(c, "GET /livez HTTP/1.1\r\nHo")
	}
	if code := ask(dialAdmin(t, a), "/livez"); code != 200 {
		t.Errorf("a probe gets %d", code)
	}
	if n, err := first.Read(make([]byte, 1)); err == nil {
		t.Errorf("the first connection was not closed to make room: read %d", n)
	}
	a.places.mu.Lock()
	defer a.places.mu.Unlock()
	if n := len(a.places.open); n > adminConnections {
		t.Errorf("%d connections are open", n)
	}
}

// While each connection is being answered nobody is thrown out: the newcomer is.
func TestAdminConnectionsThatAreBusyStay(t *testing.T) {
	source := &quietSource{asked: make(chan struct{}, adminConnections), answer: make(chan struct{}, adminConnections)}
	a := startTestAdmin(t, source)
	codes := make(chan int, adminConnections)
	for range adminConnections {
		c := dialAdmin(t, a)
		go func() { codes <- ask(c, "/status") }()
	}
	await(t, "all to be busy", func() bool {
		a.places.mu.Lock()
		defer a.places.mu.Unlock()
		busy := 0
		for _, place := range a.places.open {
			if place.busy {
				busy++
			}
		}
		return busy == adminConnections
	})
	if code := ask(dialAdmin(t, a), "/livez"); code != 0 {
		t.Errorf("one too many gets %d", code)
	}
	for range adminConnections {
		source.answer <- struct{}{}
	}
	for range adminConnections {
		if code := <-codes; code != 200 {
			t.Errorf("one that was there gets %d", code)
		}
	}
}

func TestAdminStop(t *testing.T) {
	a := startTestAdmin(t, &quietSource{})
	idle := dialAdmin(t, a)
	if code := ask(idle, "/livez"); code != 200 {
		t.Fatalf("/livez: %d", code)
	}
	a.stop()
	if _, err := net.Dial("tcp", a.addr().String()); err == nil {
		t.Error("it still listens")
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("an idle connection is still open")
	}
}

// What net/http complains of goes through the bounded log.
func TestAdminTroubleIsBounded(t *testing.T) {
	var out bytes.Buffer
	v := testEvents(&out)
	log := slog.NewLogLogger(adminTrouble{v}, slog.LevelWarn)
	for range 100 {
		log.Printf("http: TLS handshake error from %s", "127.0.0.1:1")
	}
	go v.run()
	v.stop()
	if n := strings.Count(out.String(), "\n"); n != eventsPerPeriod || !strings.Contains(out.String(), "TLS handshake error from 127.0.0.1:1") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
