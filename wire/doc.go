// Package wire encodes and decodes what clients and the server send each other: version 1, and version 0, the line
// protocol of older published clients. It also has the frames, handshake and requests between nodes, whose layout is in
// docs/protocol-peer.md. It works on byte slices in place and does no I/O. Nothing allocates, except the decoders of what
// nodes say to each other outside of Raft.
//
// Decoders take the frame at the start of a buffer and return its length; 0 without an error means that the frame is
// not whole yet. What they return aliases the buffer. Encoders append to the caller's buffer. A code of the protocol
// is an error value (Busy, Failure). Integers are unsigned and big-endian.
//
// # Opening
//
//	server  SHA256 nonce[43] \n                          greeting; the nonce is unpadded base64url of 32 random bytes
//	        Etoo_many_connections\n                      in place of it
//	client  first byte 0x01: v1; A-Z a-z 0-9 - _: v0; else E unsupported_version
//
//	v1 hello    01  n  0[2]  client nonce[32]  proof[32]  name[n]                  n 0..64
//	v1 welcome  01  role  n[2]  in flight[4]  domain[16]  proof[32]  leader[n]     role 1 serves, 2 does not; n 0..255
//	v0 digest   digest[43] \n                                                      no answer but on failure
//
// # Version 1
//
// A request, 24 bytes and the key; n is 1 to 128, and 0 for a ping:
//
//	offset   0   1  2     4        8         16         20      24
//	acquire  A   n  0[2]  wait[4]  owner[8]  lease[4]   0[4]    key[n]       ms
//	release  R   n  0[2]  0[4]     owner[8]  token[8]           key[n]       token 0 withdraws
//	ping     P   0  0[2]  0[4]     any[8]    0[8]
//
// A reply, 24 bytes and, for M and E, a text:
//
//	offset   0   1  2        4         8         16        24
//	granted  A   0  0[2]     waited[4] owner[8]  token[8]               ms
//	timeout  T   0  0[2]     0[4]      owner[8]  0[8]
//	released R   0  0[2]     0[4]      owner[8]  token[8]
//	not held N   0  0[2]     0[4]      owner[8]  token[8]
//	busy     B   0  code[2]  hint[4]   owner[8]  0[8]                   ms; code: Busy
//	error    E   n  code[2]  0[4]      owner[8]  0[8]      reason[n]    code: Failure; owner 0: answers no request
//	moved    M   n  0[2]     0[4]      0[8]      term[8]   address[n]   n 0: unknown
//	pong     P   0  0[2]     0[4]      owner[8]  0[8]
//
// Fields written 0 are reserved. Another value there, an unknown op, or an n out of range makes the frame malformed, which
// can be told from the header alone: the connection ends. Any other field out of range is answered with an E that carries
// the owner, and the connection lives on.
//
// Example: acquire order-1234, wait 5 s, lease 30 s, owner 7; granted after 3 ms with token 0x0001_0000_0000_002a:
//
//	41 0a 0000 00001388 0000000000000007 00007530 00000000 6f726465722d31323334
//	41 00 0000 00000003 0000000000000007 000100000000002a
//
// # Version 0
//
// Fixed parts are read by count, for they may hold a newline; then a key of up to 192 bytes to the next newline.
//
//	request  A  wait[2]  lease[2]  key \n      seconds; wait 0: as long as it takes
//	         R  key \n
//	         \n                                keep-alive, either way
//	reply    A  token[8]  key \n
//	         T  key \n                         timed out
//	         R  key \n                         released
//	         N  key \n                         not held
//	         M  host:port \n                   the leader is elsewhere
//	         E  reason \n                      answers nothing in particular
//
// Replies are matched by (op, key), first in first out.
package wire
