package client

import "io"

// inbox is what was read from a connection and not yet consumed. Used by one goroutine.
type inbox struct {
	from io.Reader
	buf  []byte
	r, w int // buf[r:w] is there
}

const (
	minInbox = 4 << 10 // holds any frame and any part of the handshake
	maxInbox = 64 << 10
)

func newInbox(from io.Reader) *inbox { return &inbox{from: from, buf: make([]byte, minInbox)} }

// bytes is what is there. It is valid until the next fill.
func (in *inbox) bytes() []byte { return in.buf[in.r:in.w] }

func (in *inbox) consume(n int) { in.r += n }

// fill reads once, at least one byte. A buffer that was filled to its end is doubled, so that a busy connection reads
// many replies at once and a quiet one stays small.
func (in *inbox) fill() error {
	full := in.w == len(in.buf)
	rest := in.buf[in.r:in.w]
	if full && len(in.buf) < maxInbox {
		in.buf = make([]byte, 2*len(in.buf))
	}
	in.w = copy(in.buf, rest)
	in.r = 0
	for {
		n, err := in.from.Read(in.buf[in.w:])
		if n > 0 {
			in.w += n
			return nil
		}
		if err != nil {
			return err
		}
	}
}
