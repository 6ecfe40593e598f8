// Package interop runs the clients that others published for the original server, unchanged, against the real
// ticketing binary. They speak version 0 of the protocol; docs/protocol.md lists which releases do.
//
// Each language has a driver: a small program that reads requests from its standard input, makes the published
// client carry them out, many at a time, and writes what came of them. The tests are the same for every driver, and
// some mix them.
//
//	ready ID SECONDS               ID ready true|false
//	acquire ID WAIT LEASE KEY      ID granted TOKEN, or ID failed KIND     in seconds
//	release ID GRANT               ID released true|false, or ID failed KIND; GRANT is the id of the acquire
//
// A driver is started with the addresses of the servers, comma-separated, the token and a CA file ("" for plaintext), and ends with its input.
//
// The clients are installed by the script `install` into a folder outside the sources; the script `run` does that and
// then runs the tests, which skip what is not installed.
package interop
