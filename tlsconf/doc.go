// Package tlsconf makes TLS configurations from PEM files: the server's, which follows its files as they change, and
// the client's. TLS 1.2 is the least and 1.3 is preferred.
//
// Sessions are not resumed. A client of a lock server connects once and stays, so there is little to save, and a full
// handshake looks at the client's certificate and at the present client CA each time.
package tlsconf
