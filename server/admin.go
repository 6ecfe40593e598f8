package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"ticketing.internal/lock"
)

// adminSource is what the admin endpoint shows. live and ready answer at once, whatever the engine does.
type adminSource interface {
	live() bool             // the engine's loop has made progress in the last 5 s
	ready() (whyNot string) // empty: acquires are served
	status() Status         // takes the engine's lock
	keys(k *keysPage)       // fills the page in one hold of the engine's lock
}

// keysPage is one look at the held keys.
type keysPage struct {
	query  lock.KeysQuery
	now    lock.Time // of the look, by which the ends of leases become wall times
	serves bool      // this node does, at the look: only then it knows who waits
	keys   []lock.KeyInfo
	next   uint32 // where the next page starts; 0: this is the last
}

// admin serves HTTP for people and probes. It changes nothing. A nil *admin is one that is off.
type admin struct {
	source  adminSource
	events  *events
	access  adminAccess
	places  *adminPlaces
	engine  chan struct{} // holds a value for each request that is asking the engine: bounds memory, and the harm of a stuck engine
	server  *http.Server
	address net.Addr
	done    chan struct{}
}

const (
	adminTimeout     = 5 * time.Second // for the headers, and for an answer
	adminIdle        = time.Minute     // kept open between requests, unless the place is needed
	adminConnections = 64
	// adminHeaders is the limit that net/http is given. It reads 4 KiB more than that, and 8 KiB are meant.
	adminHeaders = 4 << 10
	// adminAtEngine is how many requests may ask the engine at a time; the others wait.
	adminAtEngine = 2
	// adminPatience is how long a request waits for that, so that an answer is still in time.
	adminPatience = 4 * time.Second
)

// newAdmin opens the admin port of c; it returns nil when that is off. certificates is nil on plaintext. Nothing is served before
// run.
func newAdmin(c *Config, certificates *tls.Config, source adminSource, events *events) (*admin, error) {
	if c.AdminListen == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", c.AdminListen)
	if err != nil {
		return nil, fmt.Errorf("listening on TICKETING_ADMIN_LISTEN=%s: %w; stop what uses the port, choose another, or set it to off", c.AdminListen, err)
	}
	a := &admin{
		source: source, events: events, address: l.Addr(), engine: make(chan struct{}, adminAtEngine), done: make(chan struct{}),
		access: adminAccess{name: hostOf(c.AdminListen)},
	}
	a.setToken(c.AdminToken)
	if certificates != nil {
		l = tls.NewListener(l, certificates)
	}
	a.places = newAdminPlaces(l, adminConnections)
	a.server = &http.Server{
		Handler:           a,
		ReadHeaderTimeout: adminTimeout,
		ReadTimeout:       adminTimeout,
		WriteTimeout:      adminTimeout,
		IdleTimeout:       adminIdle,
		MaxHeaderBytes:    adminHeaders,
		ConnState:         a.places.changed,
		ConnContext:       a.places.context,
		ErrorLog:          slog.NewLogLogger(adminTrouble{events}, slog.LevelWarn),
	}
	return a, nil
}

// run starts serving, in a goroutine that ends with stop or close.
func (a *admin) run() {
	if a == nil {
		return
	}
	go func() {
		defer close(a.done)
		a.server.Serve(a.places) // returns when it is closed
	}()
}

// stop lets answers under way be finished, for a second at most, and returns when all is closed. It is for after run.
func (a *admin) stop() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		a.server.Close()
	}
	<-a.done
}

// close gives the port back, also where run was never called.
func (a *admin) close() {
	if a != nil {
		a.places.Close()
		a.server.Close()
	}
}

// addr is where it listens, nil when it is off.
func (a *admin) addr() net.Addr {
	if a == nil {
		return nil
	}
	return a.address
}

// setToken puts another admin token into force.
func (a *admin) setToken(token Secret) {
	if a != nil {
		a.access.setToken(token)
	}
}

// ServeHTTP is http.Handler.
func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.places.busy(r.Context())
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	switch {
	case !a.access.hostAllowed(r.Host):
		answer(w, http.StatusMisdirectedRequest, "the Host of the request is not this endpoint's: use an IP address or the name that it listens on")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		answer(w, http.StatusMethodNotAllowed, "nothing can be changed here: GET and HEAD are allowed")
	case r.URL.Path == "/livez":
		a.serveLive(w)
	case r.URL.Path == "/readyz":
		a.serveReady(w)
	case !a.access.granted(r):
		a.events.write(slog.LevelWarn, "a request to the admin endpoint did not show the admin token", slog.String("from", r.RemoteAddr))
		h.Set("WWW-Authenticate", `Basic realm="Ticketing", charset="UTF-8"`)
		h.Add("WWW-Authenticate", `Bearer realm="Ticketing"`)
		answer(w, http.StatusUnauthorized, "the admin token is needed: as a bearer token, or as the password of any user")
	default:
		a.serveData(w, r)
	}
}

func (a *admin) serveData(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		answer(w, http.StatusOK, "Ticketing, a lock server. There is: /livez, /readyz, /status, /keys?prefix=&limit=&after=&held_longer_ms=")
	case "/status":
		a.askEngine(w, r, a.serveStatus)
	case "/keys":
		a.askEngine(w, r, a.serveKeys)
	default:
		answer(w, http.StatusNotFound, "there is no such page; / names those that there are")
	}
}

func (a *admin) serveLive(w http.ResponseWriter) {
	if !a.source.live() {
		answer(w, http.StatusServiceUnavailable, "the engine has not moved for 5 s")
		return
	}
	answer(w, http.StatusOK, "ok")
}

func (a *admin) serveReady(w http.ResponseWriter) {
	if why := a.source.ready(); why != "" {
		answer(w, http.StatusServiceUnavailable, why)
		return
	}
	answer(w, http.StatusOK, "ok")
}

// askEngine calls serve when it is its turn at the engine.
func (a *admin) askEngine(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
	ctx, cancel := context.WithTimeout(r.Context(), adminPatience)
	defer cancel()
	select {
	case a.engine <- struct{}{}:
		defer func() { <-a.engine }()
		serve(w, r)
	case <-ctx.Done():
		answer(w, http.StatusServiceUnavailable, "too many others are asking; try again")
	}
}

func (a *admin) serveStatus(w http.ResponseWriter, _ *http.Request) {
	s := a.source.status()
	if s.Members == nil {
		s.Members = []StatusMember{} // a list in JSON too
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&s) // an error is the client's going away
}

// answer writes one line of text.
func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

// adminTrouble passes net/http's messages about failed connections to the bounded log.
type adminTrouble struct{ events *events }

func (t adminTrouble) Handle(_ context.Context, r slog.Record) error {
	t.events.write(slog.LevelWarn, "a connection to the admin endpoint failed", slog.String("why", strings.TrimPrefix(r.Message, "http: ")))
	return nil
}

func (t adminTrouble) Enabled(context.Context, slog.Level) bool { return true }
func (t adminTrouble) WithAttrs([]slog.Attr) slog.Handler       { return t }
func (t adminTrouble) WithGroup(string) slog.Handler            { return t }
