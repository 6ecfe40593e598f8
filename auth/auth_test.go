package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// unhex is bytes that the vectors write as hex.
type unhex []byte

func (u *unhex) UnmarshalText(text []byte) (err error) {
	*u, err = hex.DecodeString(string(text))
	return err
}

// hello is a v1 client hello, cut at its fixed offsets.
type hello []byte

func (h hello) nonce() []byte { return h[4:36] }
func (h hello) proof() []byte { return h[36:68] }
func (h hello) name() []byte  { return h[68:] }

type v1Vectors struct {
	Cases []struct {
		Name        string `json:"name"`
		Token       unhex  `json:"token_hex"`
		Nonce       string `json:"nonce"`
		ClientNonce unhex  `json:"client_nonce_hex"`
		Binding     unhex  `json:"binding_hex"`
		ClientName  string `json:"client_name"`
		ClientProof unhex  `json:"client_proof_hex"`
		ServerProof unhex  `json:"server_proof_hex"`
	} `json:"cases"`
	Rotation []struct {
		Name         string  `json:"name"`
		ServerTokens []unhex `json:"server_tokens_hex"`
		Nonce        string  `json:"nonce"`
		ClientNonce  unhex   `json:"client_nonce_hex"`
		Binding      unhex   `json:"binding_hex"`
		Matches      int     `json:"matches"`
		Hello        unhex   `json:"client_hello_hex"`
		ServerProof  unhex   `json:"server_proof_hex"`
	} `json:"rotation"`
	WrongClientProofs []struct {
		Name    string `json:"name"`
		Token   unhex  `json:"token_hex"`
		Nonce   string `json:"nonce"`
		Binding unhex  `json:"binding_hex"`
		Hello   unhex  `json:"client_hello_hex"`
	} `json:"wrong_client_proofs"`
	WrongServerProofs []struct {
		Name        string `json:"name"`
		Token       unhex  `json:"token_hex"`
		Nonce       string `json:"nonce"`
		ClientNonce unhex  `json:"client_nonce_hex"`
		Binding     unhex  `json:"binding_hex"`
		Welcome     unhex  `json:"welcome_hex"`
	} `json:"wrong_server_proofs"`
}

type v0Vectors struct {
	Digests []struct {
		Name  string `json:"name"`
		Token unhex  `json:"token_hex"`
		Nonce string `json:"nonce"`
		Line  unhex  `json:"digest_line_hex"`
	} `json:"digests"`
	WrongDigests []struct {
		Name  string `json:"name"`
		Token unhex  `json:"token_hex"`
		Nonce string `json:"nonce"`
		Line  unhex  `json:"digest_line_hex"`
	} `json:"wrong_digests"`
}

func readVectors(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readV1(t *testing.T) (v v1Vectors) {
	t.Helper()
	readVectors(t, "testdata/client-v1-handshake.json", &v)
	if len(v.Cases) == 0 || len(v.Rotation) == 0 || len(v.WrongClientProofs) == 0 || len(v.WrongServerProofs) == 0 {
		t.Fatal("a list of the vectors is empty")
	}
	return v
}

func readV0(t *testing.T) (v v0Vectors) {
	t.Helper()
	readVectors(t, "testdata/client-v0.json", &v)
	if len(v.Digests) == 0 || len(v.WrongDigests) == 0 {
		t.Fatal("a list of the vectors is empty")
	}
	return v
}

func TestProofVectors(t *testing.T) {
	for _, v := range readV1(t).Cases {
		t.Run(v.Name, func(t *testing.T) {
			client := ClientProof(v.Token, []byte(v.Nonce), v.ClientNonce, v.Binding, []byte(v.ClientName))
			if !bytes.Equal(client[:], v.ClientProof) {
				t.Errorf("client proof %x; want %x", client, v.ClientProof)
			}
			server := ServerProof(v.Token, v.ClientNonce, []byte(v.Nonce), v.Binding)
			if !bytes.Equal(server[:], v.ServerProof) {
				t.Errorf("server proof %x; want %x", server, v.ServerProof)
			}
			if !VerifyServer(v.ServerProof, v.Token, v.ClientNonce, []byte(v.Nonce), v.Binding) {
				t.Error("the client refuses the right server proof")
			}
			token, ok := NewTokens(v.Token).MatchClient(v.ClientProof, []byte(v.Nonce), v.ClientNonce, v.Binding, []byte(v.ClientName))
			if !ok || !bytes.Equal(token, v.Token) {
				t.Errorf("the server refuses the right client proof: %q, %v", token, ok)
			}
		})
	}
}

func TestRotationVectors(t *testing.T) {
	for _, v := range readV1(t).Rotation {
		t.Run(v.Name, func(t *testing.T) {
			var list [][]byte
			for _, token := range v.ServerTokens {
				list = append(list, token)
			}
			h := hello(v.Hello)
			token, ok := NewTokens(list...).MatchClient(h.proof(), []byte(v.Nonce), h.nonce(), v.Binding, h.name())
			if v.Matches < 0 {
				if ok || token != nil {
					t.Errorf("matched %q", token)
				}
				return
			}
			if !ok || !bytes.Equal(token, list[v.Matches]) {
				t.Fatalf("matched %q, %v; want %q", token, ok, list[v.Matches])
			}
			if p := ServerProof(token, v.ClientNonce, []byte(v.Nonce), v.Binding); !bytes.Equal(p[:], v.ServerProof) {
				t.Errorf("server proof %x; want %x", p, v.ServerProof)
			}
		})
	}
}

func TestWrongClientProofVectors(t *testing.T) {
	for _, v := range readV1(t).WrongClientProofs {
		t.Run(v.Name, func(t *testing.T) {
			h := hello(v.Hello)
			if token, ok := NewTokens(v.Token).MatchClient(h.proof(), []byte(v.Nonce), h.nonce(), v.Binding, h.name()); ok || token != nil {
				t.Errorf("accepted with %q", token)
			}
		})
	}
}

func TestWrongServerProofVectors(t *testing.T) {
	for _, v := range readV1(t).WrongServerProofs {
		t.Run(v.Name, func(t *testing.T) {
			if VerifyServer(v.Welcome[24:56], v.Token, v.ClientNonce, []byte(v.Nonce), v.Binding) {
				t.Error("accepted")
			}
		})
	}
}

func TestLegacyDigestVectors(t *testing.T) {
	v := readV0(t)
	for _, d := range v.Digests {
		t.Run(d.Name, func(t *testing.T) {
			line := bytes.TrimSuffix(d.Line, []byte("\n"))
			if digest := LegacyDigest(d.Token, []byte(d.Nonce)); !bytes.Equal(digest[:], line) {
				t.Errorf("digest %q; want %q", digest, line)
			}
			if !NewTokens([]byte("another"), d.Token, []byte("a third")).MatchLegacy(line, []byte(d.Nonce)) {
				t.Error("the right digest is refused among several tokens")
			}
		})
	}
	for _, d := range v.WrongDigests {
		t.Run(d.Name, func(t *testing.T) {
			if NewTokens(d.Token).MatchLegacy(bytes.TrimSuffix(d.Line, []byte("\n")), []byte(d.Nonce)) {
				t.Error("accepted")
			}
		})
	}
}

func TestEncodeNonce(t *testing.T) {
	raw := [NonceSize]byte{0: 0xfb, 1: 0xff, 31: 1}
	text := EncodeNonce([]byte("x"), &raw)[1:]
	if back, err := base64.RawURLEncoding.DecodeString(string(text)); len(text) != EncodedNonceSize || err != nil || !bytes.Equal(back, raw[:]) {
		t.Errorf("EncodeNonce = %q, which decodes to %x, %v", text, back, err)
	}
}

func TestTokensAreTheOnesGiven(t *testing.T) {
	nonce, cnonce := []byte("nonce"), []byte("client nonce")
	proof := func(token string) []byte {
		p := ClientProof([]byte(token), nonce, cnonce, nil, nil)
		return p[:]
	}
	accepts := func(tokens *Tokens, token string) bool {
		_, ok := tokens.MatchClient(proof(token), nonce, cnonce, nil, nil)
		return ok
	}
	if none := NewTokens(); accepts(none, "") {
		t.Error("a set of no tokens accepts the empty token")
	}
	if !accepts(NewTokens(nil), "") {
		t.Error("a set of the empty token refuses it")
	}
	given := []byte("secret")
	tokens := NewTokens(given)
	copy(given, "public")
	if !accepts(tokens, "secret") || accepts(tokens, "public") {
		t.Error("the set changed with the caller's slice")
	}
	if _, ok := tokens.MatchClient(proof("secret")[:31], nonce, cnonce, nil, nil); ok {
		t.Error("a proof cut by one byte is accepted")
	}
}
