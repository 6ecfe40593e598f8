package server

import "ticketing.internal/lock"

// A shard owns connections: an event loop owns many, a stream one. Others reach a connection only through its shard's mail.
type shard struct {
	// Immutable.
	wake      func() // makes the owner collect its mail; called without the engine's lock
	keepsTime bool   // the owner enters the engine again by itself, by the deadline that leave returned

	// Owned by the owner's thread of control; a stream's are guarded by the engine's lock.
	dirty []*conn   // connections that have something to send since the last flush
	spare []*outbox // outboxes to lend

	// Guarded by the engine's lock.
	mail   []mail
	waking bool // wake is due or under way
}

// mail is a message to a connection of a shard: a reply that another shard's batch produced, or an order.
type mail struct {
	to    *conn
	kind  mailKind
	reply lock.Reply // mailReply; its Key is not kept
	call  func()     // mailCall
}

type mailKind uint8

const (
	mailReply         mailKind = iota
	mailAdopt                  // a connection that was just accepted
	mailEvict                  // close it: it makes room for others
	mailEvictUnproved          // close it if it is still in its handshake: it makes room for others
	mailClose                  // the server stops: flush and close
	mailMoved                  // tell it who leads
	mailTakeBack               // a grant that is of no use to it: take it back
	mailCall                   // for the shard itself: call a function
)

// borrow lends an outbox.
func (s *shard) borrow() *outbox {
	if n := len(s.spare); n > 0 {
		o := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return o
	}
	return &outbox{bytes: make([]byte, 0, initialOutbox)}
}

// giveBack takes back an outbox whose content has been dealt with.
func (s *shard) giveBack(o *outbox) {
	if len(s.spare) >= keptOutboxes || cap(o.bytes) > keptOutbox {
		return
	}
	o.bytes, o.grants, o.sent = o.bytes[:0], o.grants[:0], 0
	s.spare = append(s.spare, o)
}
