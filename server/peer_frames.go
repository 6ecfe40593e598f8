package server

import (
	"io"

	"ticketing.internal/wire"
)

const (
	// smallFrameBuffer is what a connection between nodes reads with at first, and bigFrameBuffer what it grows to by itself,
	// in bytes. A frame that is longer grows it further.
	smallFrameBuffer = 8 << 10
	bigFrameBuffer   = 512 << 10
)

// frameReader takes frames from one connection, with one buffer. What it returns is valid until the next call.
type frameReader struct {
	source     io.Reader
	buf        []byte
	start, end int // of what is read and not taken yet
	frames     []wire.PeerFrame
}

// one returns the next frame.
func (r *frameReader) one(maxBody int) (f wire.PeerFrame, err error) {
	for {
		n, err := wire.DecodePeerFrame(r.buf[r.start:r.end], maxBody, &f)
		if n > 0 || err != nil {
			r.start += n
			return f, err
		}
		if err := r.read(maxBody); err != nil {
			return f, err
		}
	}
}

// batch returns all whole frames that there are, waiting for one at least. Frames in front of an error come with it.
func (r *frameReader) batch(maxBody int) ([]wire.PeerFrame, error) {
	for {
		if frames, err := r.whole(maxBody); len(frames) > 0 || err != nil {
			return frames, err
		}
		if err := r.read(maxBody); err != nil {
			return nil, err
		}
	}
}

// whole returns the whole frames that are there already. Frames in front of an error come with it.
func (r *frameReader) whole(maxBody int) ([]wire.PeerFrame, error) {
	r.frames = r.frames[:0]
	for {
		var f wire.PeerFrame
		n, err := wire.DecodePeerFrame(r.buf[r.start:r.end], maxBody, &f)
		if n == 0 || err != nil {
			return r.frames, err
		}
		r.start += n
		r.frames = append(r.frames, f)
	}
}

// read takes one read's worth from the connection. An end within a frame is io.ErrUnexpectedEOF.
func (r *frameReader) read(maxBody int) error {
	r.makeRoom(maxBody)
	n, err := r.source.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil // an error comes again
	}
	if err == io.EOF && r.end > r.start {
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom leaves space behind what is read: for the rest of the frame that has begun, or for as much again as one read has
// filled.
func (r *frameReader) makeRoom(maxBody int) {
	need := wire.PeerHeaderSize
	var h wire.PeerHeader
	if n, err := wire.DecodePeerHeader(r.buf[r.start:r.end], maxBody, &h); n > 0 && err == nil {
		need += h.Length
	}
	size := max(len(r.buf), smallFrameBuffer)
	if r.end == len(r.buf) && r.end > 0 {
		size = max(size, min(2*size, bigFrameBuffer))
	}
	for size < need {
		size *= 2
	}
	if size > len(r.buf) {
		grown := make([]byte, size)
		r.end = copy(grown, r.buf[r.start:r.end])
		r.start, r.buf = 0, grown
		return
	}
	if r.start == r.end {
		r.start, r.end = 0, 0
	} else if len(r.buf)-r.start < need || r.end == len(r.buf) {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
}
