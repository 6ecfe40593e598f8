package auth

import (
	"bytes"
	"crypto/subtle"
)

// Tokens is the set of tokens that a server accepts: more than one while a token is being replaced.
// It is immutable and safe for concurrent use.
type Tokens struct {
	list [][]byte
}

// NewTokens returns the set of the given tokens, copied. The empty token is a token like any other;
// a set of none accepts nobody.
func NewTokens(list ...[]byte) *Tokens {
	t := &Tokens{list: make([][]byte, len(list))}
	for i, token := range list {
		t.list[i] = bytes.Clone(token)
	}
	return t
}

// MatchClient returns the token with which a client's proof was made; the server's own proof is made with the same.
// The time taken depends on the number of tokens and not on which of them matches. The caller must not change the token.
func (t *Tokens) MatchClient(proof, nonce, clientNonce, binding, name []byte) (token []byte, ok bool) {
	return t.match(func(token []byte) int {
		want := ClientProof(token, nonce, clientNonce, binding, name)
		return subtle.ConstantTimeCompare(proof, want[:])
	})
}

// MatchLegacy reports whether line, without its newline, is the digest of one of the tokens, in constant time as
// MatchClient does.
func (t *Tokens) MatchLegacy(line, nonce []byte) bool {
	_, ok := t.match(func(token []byte) int {
		want := LegacyDigest(token, nonce)
		return subtle.ConstantTimeCompare(line, want[:])
	})
	return ok
}

func (t *Tokens) match(equal func(token []byte) int) (token []byte, ok bool) {
	found := -1
	for i, token := range t.list {
		found = subtle.ConstantTimeSelect(equal(token), i, found)
	}
	if found < 0 {
		return nil, false
	}
	return t.list[found], true
}
