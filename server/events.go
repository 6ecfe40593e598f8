package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"

	"ticketing.internal/lock"
)

// events turns what clients do into log lines at a bounded rate. Its methods never block, so that they may be called inside a batch:
// a goroutine of its own writes the lines, and a line that finds the queue to it full is dropped.
type events struct {
	clock *clock
	log   *eventLog
	queue chan event
	done  chan struct{}
}

// event is a log line that is still to be written.
type event struct {
	at      int64 // mono ns
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// queuedEvents is how many lines may wait to be written.
const queuedEvents = 256

func newEvents(c *clock, log *slog.Logger) *events {
	return &events{clock: c, log: newEventLog(log), queue: make(chan event, queuedEvents), done: make(chan struct{})}
}

// run writes the lines until stop.
func (v *events) run() {
	defer close(v.done)
	for ev := range v.queue {
		if ev.message == "" {
			v.log.flush(ev.at)
			continue
		}
		v.log.write(ev.at, ev.level, ev.message, ev.attrs...)
	}
}

// stop ends run once every line is written. No event may follow.
func (v *events) stop() {
	close(v.queue)
	<-v.done
}

// flush has the counts of suppressed lines written.
func (v *events) flush(now int64) {
	v.put(event{at: now})
}

func (v *events) put(ev event) {
	select {
	case v.queue <- ev:
	default: // the log cannot keep up: the line is lost
	}
}

func (v *events) write(level slog.Level, message string, attrs ...slog.Attr) {
	v.put(event{at: v.clock.mono(), level: level, message: message, attrs: attrs})
}

func from(remote netip.AddrPort) slog.Attr { return slog.String("from", remote.String()) }

// shownBytes is how many bytes of a stranger's input a log line shows.
const shownBytes = 16

// stranger logs a connection whose first bytes belong to no version of the protocol.
func (v *events) stranger(remote netip.AddrPort, data []byte) {
	attrs := []slog.Attr{from(remote), slog.String("starts_with", fmt.Sprintf("%q", data[:min(len(data), shownBytes)]))}
	switch {
	case len(data) > 1 && data[0] == 0x16 && data[1] == 0x03:
		v.write(slog.LevelWarn, "a client speaks TLS to this port, which is plaintext: set TICKETING_TLS_CERT and TICKETING_TLS_KEY here, or turn TLS off in the client", from(remote))
	case bytes.HasPrefix(data, []byte("GET ")) || bytes.HasPrefix(data, []byte("POST ")) || bytes.HasPrefix(data, []byte("HEAD ")):
		v.write(slog.LevelWarn, "a client speaks HTTP to the lock port: the admin endpoint is another port (TICKETING_ADMIN_LISTEN)", from(remote))
	default:
		v.write(slog.LevelWarn, "a connection does not speak the lock protocol: closed", attrs...)
	}
}

func (v *events) malformed(remote netip.AddrPort) {
	v.write(slog.LevelWarn, "a client sent a malformed frame: its connection is closed", from(remote))
}

// badLegacyKey logs a v0 key that no client can mean. Some clients that were published later greet like v0 and then speak another
// protocol, which looks like this.
func (v *events) badLegacyKey(remote netip.AddrPort) {
	v.write(slog.LevelWarn, "a v0 client sent a key that cannot be: the published clients that this server serves are those of version 0.1.0", from(remote))
}

func (v *events) authFailed(remote netip.AddrPort) {
	v.write(slog.LevelWarn, "a client does not know the token: compare its TICKETING_TOKEN with the server's", from(remote))
}

func (v *events) handshakeFailed(remote netip.AddrPort, err error) {
	v.write(slog.LevelWarn, "a TLS handshake failed: its connection is closed", from(remote), slog.String("why", err.Error()))
}

func (v *events) plaintextOnTLS(remote netip.AddrPort) {
	v.write(slog.LevelWarn, "a client speaks plaintext to this port, which is TLS: set TLS in the client (TICKETING_TLS_CA)", from(remote))
}

func (v *events) slowReader(remote netip.AddrPort) {
	v.write(slog.LevelWarn, "a client did not take its replies for 10 s: its connection is closed", from(remote))
}

func (v *events) tooManyConnections(remote netip.AddrPort) {
	v.write(slog.LevelWarn, "a connection was refused: all places are taken (TICKETING_MAX_CONNECTIONS, and the limit of open files)", from(remote))
}

func (v *events) acceptFailed(err error) {
	v.write(slog.LevelError, "accepting a connection failed: trying again", slog.String("why", err.Error()))
}

// markerFailing logs that the marker falls behind what it should say.
func (v *events) markerFailing(why string) {
	v.write(slog.LevelError, "the marker cannot be written: if the whole cluster were lost now, tokens of the next one might not be larger", slog.String("why", why))
}

func (v *events) notAdmitted(addr, why string) {
	v.write(slog.LevelWarn, "not admitted yet: trying again", slog.String("asked", addr), slog.String("why", why))
}

// readiness logs that acquires are refused from now on, because of why, or with an empty why that they are served again. An election
// is in order: each planned change of the leader has one.
func (v *events) readiness(why string) {
	level := slog.LevelWarn
	switch why {
	case "":
		v.write(slog.LevelInfo, "acquires are served")
		return
	case electingText, assumingText:
		level = slog.LevelInfo
	}
	v.write(level, "acquires are refused for now", slog.String("why", why))
}

// foreignRelease logs a release that comes from another address than the acquire did, for audits.
func (v *events) foreignRelease(key []byte, owner, token uint64, grantedTo lock.Client, by netip.AddrPort) {
	v.write(slog.LevelInfo, "a lock was released from another address than it was granted to",
		slog.String("key", fmt.Sprintf("%q", key)), slog.Uint64("owner", owner), slog.Uint64("token", token),
		slog.String("granted_to", grantedTo.Addr), slog.String("released_by", by.String()))
}
