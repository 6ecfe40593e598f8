// Package auth proves that both ends of a client connection know the same token, a secret of any bytes, which
// itself never crosses the wire. It does no I/O and draws no randomness.
//
// The nonce that enters every proof is the text of the greeting: EncodedNonceSize characters, not the bytes that
// they stand for. The binding is empty on plaintext, and on TLS the 32 bytes of the exporter, so that a proof made
// for one TLS session is worth nothing in another.
package auth
