package server

import (
	"encoding/hex"
	"fmt"
	"net"
	"time"
)

// observer answers the questions of the admin endpoint. It implements adminSource.
type observer struct{ s *Server }

// liveLimit is how long the engine may go without a batch before it counts as stuck.
const liveLimit = 5 * time.Second

// live reports whether the engine was left within the last 5 s. An idle loop comes round twice a second.
func (o observer) live() bool {
	return o.s.clock.mono()-o.s.engine.progress.Load() < int64(liveLimit)
}

// ready says why acquires are not served, "" if they are. It does not wait for the engine.
func (o observer) ready() (whyNot string) {
	if !o.live() {
		return fmt.Sprintf("the engine has not moved for %v", liveLimit)
	}
	return *o.s.engine.unready.Load()
}

// status describes the server.
func (o observer) status() Status {
	e := o.s.engine
	whyNot := o.ready()
	e.mu.Lock()
	defer e.mu.Unlock()
	return o.s.describe(whyNot)
}

// describe returns what /status shows. Called under the engine's lock.
func (s *Server) describe(whyNot string) Status {
	e := s.engine
	connections, _, _ := s.admission.load()
	stats := e.manager.Stats()
	hash := fmt.Sprintf("%016x", e.manager.StateHash())
	st := Status{
		Version: s.cfg.Version, Ready: whyNot == "", WhyNotReady: whyNot, Domain: hex.EncodeToString(e.welcomer.domain[:]), StateHash: &hash,
		HeldKeys: stats.Held, Waiters: stats.Waiters, Connections: connections, Token: stats.LastToken,
		UptimeSeconds: (s.clock.mono() - s.startedAt) / int64(time.Second),
		Limits: StatusLimits{
			Connections: s.admission.places, Keys: s.cfg.MaxKeys, Waiters: s.cfg.MaxWaiters,
			WaitersPerKey: s.cfg.MaxWaitersPerKey, InFlight: s.cfg.MaxInFlight, BufferedBytes: s.cfg.MaxBuffered,
		},
	}
	e.authority.describe(&st)
	return st
}

// keys fills one page of held keys.
func (o observer) keys(k *keysPage) {
	e := o.s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	k.now, k.serves = e.clock.now(), e.leadership.serving
	k.keys, k.next = e.manager.Keys(k.now, k.keys, &k.query)
}

// AdminAddr is the address of the admin endpoint, nil when it is off.
func (s *Server) AdminAddr() net.Addr { return s.admin.addr() }

// adminText is that address as the log shows it.
func (s *Server) adminText() string {
	if addr := s.AdminAddr(); addr != nil {
		return addr.String()
	}
	return "off"
}
