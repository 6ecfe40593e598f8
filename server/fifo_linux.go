package server

// A fifo holds the connections that share one fixed time limit, oldest first, so that the next to fall due is always the
// head: arming, disarming and re-arming are O(1) and need no timer. A connection is in at most one fifo of each link set.
type fifo struct {
	kind       int // which of a connection's link sets this list threads
	limit      int64
	head, tail *conn
}

// The link sets of a connection: what it waits for from its peer, and what it waits to get rid of.
const (
	waitRead = iota
	waitWrite
	linkSets
)

// link is one connection's place in a fifo.
type link struct {
	in         *fifo
	prev, next *conn
	since      int64 // mono ns at which the limit began to count
}

// push puts c at the tail, counting from now, after taking it from whatever fifo of the same link set it was in.
func (f *fifo) push(c *conn, now int64) {
	l := &c.links[f.kind]
	if l.in != nil {
		l.in.remove(c)
	}
	l.in, l.since, l.prev, l.next = f, now, f.tail, nil
	if f.tail == nil {
		f.head = c
	} else {
		f.tail.links[f.kind].next = c
	}
	f.tail = c
}

// remove takes c out; c must be in f.
func (f *fifo) remove(c *conn) {
	l := &c.links[f.kind]
	if l.prev == nil {
		f.head = l.next
	} else {
		l.prev.links[f.kind].next = l.next
	}
	if l.next == nil {
		f.tail = l.prev
	} else {
		l.next.links[f.kind].prev = l.prev
	}
	*l = link{}
}

// leave takes c out of the fifo that its link set kind is in, if any.
func (c *conn) leave(kind int) {
	if f := c.links[kind].in; f != nil {
		f.remove(c)
	}
}

// due returns the head if its limit is over at now, else nil.
func (f *fifo) due(now int64) *conn {
	if f.head != nil && now-f.head.links[f.kind].since >= f.limit {
		return f.head
	}
	return nil
}

// deadline is when the head falls due, or never.
func (f *fifo) deadline() int64 {
	if f.head == nil {
		return never
	}
	return f.head.links[f.kind].since + f.limit
}
