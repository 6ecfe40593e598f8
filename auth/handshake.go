package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Sizes in bytes.
const (
	NonceSize        = 32 // of random bytes, server's and client's alike
	EncodedNonceSize = 43 // of the server's nonce as the greeting shows it
	ProofSize        = 32
	DigestSize       = 43 // of the digest that a v0 client sends, without its newline
)

// The labels keep the two directions apart, so that a proof cannot be reflected. The zero byte ends them.
const (
	clientLabel = "ticketing v1 client\x00"
	serverLabel = "ticketing v1 server\x00"
)

// EncodeNonce appends the text of a server's nonce, EncodedNonceSize characters of unpadded base64url, to dst.
func EncodeNonce(dst []byte, raw *[NonceSize]byte) []byte {
	return base64.RawURLEncoding.AppendEncode(dst, raw[:])
}

// ClientProof returns what a v1 client puts into its hello. nonce is the text of the greeting.
func ClientProof(token, nonce, clientNonce, binding, name []byte) [ProofSize]byte {
	return mac(token, clientLabel, nonce, clientNonce, binding, name)
}

// ServerProof returns what a server puts into its welcome. nonce is the text of the greeting.
func ServerProof(token, clientNonce, nonce, binding []byte) [ProofSize]byte {
	return mac(token, serverLabel, clientNonce, nonce, binding)
}

// VerifyServer reports in constant time whether proof is the ServerProof of the other arguments.
func VerifyServer(proof, token, clientNonce, nonce, binding []byte) bool {
	want := ServerProof(token, clientNonce, nonce, binding)
	return hmac.Equal(proof, want[:])
}

// LegacyDigest returns the line, without its newline, with which a v0 client answers the greeting.
func LegacyDigest(token, nonce []byte) [DigestSize]byte {
	h := sha256.New()
	h.Write(token)
	h.Write(nonce)
	var digest [DigestSize]byte
	base64.RawURLEncoding.Encode(digest[:], h.Sum(nil))
	return digest
}

func mac(token []byte, label string, parts ...[]byte) [ProofSize]byte {
	h := hmac.New(sha256.New, token)
	h.Write([]byte(label))
	for _, p := range parts {
		h.Write(p)
	}
	return [ProofSize]byte(h.Sum(nil))
}
