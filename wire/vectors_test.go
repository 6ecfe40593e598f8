package wire

import (
	"bytes"
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

func readVectors(tb testing.TB, path string, into any) {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
}

type streamVector struct {
	Name     string `json:"name"`
	Hex      unhex  `json:"hex"`
	Lengths  []int  `json:"lengths"`
	Consumed int    `json:"consumed"`
}

type requestVector struct {
	Name         string `json:"name"`
	Op           string `json:"op"`
	Key          unhex  `json:"key_hex"`
	WaitMillis   uint32 `json:"wait_ms"`
	LeaseMillis  uint32 `json:"lease_ms"`
	WaitSeconds  uint16 `json:"wait_s"`
	LeaseSeconds uint16 `json:"lease_s"`
	Owner        uint64 `json:"owner,string"`
	Token        uint64 `json:"token,string"`
	Hex          unhex  `json:"hex"`
}

func (v *requestVector) op() Op {
	return map[string]Op{"acquire": OpAcquire, "release": OpRelease, "ping": OpPing, "keepalive": OpKeepAlive}[v.Op]
}

type v1Vectors struct {
	Requests []requestVector `json:"requests"`
	Replies  []struct {
		Name     string `json:"name"`
		Op       string `json:"op"`
		Code     uint16 `json:"code"`
		CodeName string `json:"code_name"`
		Millis   uint32 `json:"ms"`
		Owner    uint64 `json:"owner,string"`
		Token    uint64 `json:"token,string"`
		Text     string `json:"text"`
		Hex      unhex  `json:"hex"`
	} `json:"replies"`
	Malformed []struct {
		Name string  `json:"name"`
		Hex  unhex   `json:"hex"`
		Code Failure `json:"code"`
	} `json:"malformed"`
	Rejected []struct {
		Name  string  `json:"name"`
		Hex   unhex   `json:"hex"`
		Error string  `json:"error"`
		Code  Failure `json:"code"`
		Owner uint64  `json:"owner,string"`
	} `json:"rejected"`
	RequestStreams []streamVector `json:"request_streams"`
	ReplyStreams   []streamVector `json:"reply_streams"`
}

func readV1(tb testing.TB) *v1Vectors {
	tb.Helper()
	var v v1Vectors
	readVectors(tb, "testdata/client-v1-frames.json", &v)
	if len(v.Requests) == 0 || len(v.Replies) == 0 || len(v.Malformed) == 0 || len(v.Rejected) == 0 ||
		len(v.RequestStreams) == 0 || len(v.ReplyStreams) == 0 {
		tb.Fatal("a list of the vectors is empty")
	}
	return &v
}

type v0Vectors struct {
	Requests []requestVector `json:"requests"`
	Replies  []struct {
		Name  string  `json:"name"`
		Op    string  `json:"op"`
		Key   unhex   `json:"key_hex"`
		Token *uint64 `json:"token,string"`
		Text  *string `json:"text"`
		Hex   unhex   `json:"hex"`
	} `json:"replies"`
	Malformed []struct {
		Name  string `json:"name"`
		Hex   unhex  `json:"hex"`
		Reply unhex  `json:"reply_hex"`
	} `json:"malformed"`
	Rejected []struct {
		Name  string `json:"name"`
		Hex   unhex  `json:"hex"`
		Key   unhex  `json:"key_hex"`
		Error string `json:"error"`
		Reply unhex  `json:"reply_hex"`
	} `json:"rejected"`
	Digests []struct {
		Name     string `json:"name"`
		Greeting unhex  `json:"greeting_hex"`
		Nonce    string `json:"nonce"`
		Line     unhex  `json:"digest_line_hex"`
	} `json:"digests"`
	WrongDigests []struct {
		Name  string `json:"name"`
		Line  unhex  `json:"digest_line_hex"`
		Reply unhex  `json:"reply_hex"`
	} `json:"wrong_digests"`
	RequestStreams []streamVector `json:"request_streams"`
	ReplyStreams   []streamVector `json:"reply_streams"`
}

func readV0(tb testing.TB) *v0Vectors {
	tb.Helper()
	var v v0Vectors
	readVectors(tb, "testdata/client-v0.json", &v)
	if len(v.Requests) == 0 || len(v.Replies) == 0 || len(v.Malformed) == 0 || len(v.Rejected) == 0 ||
		len(v.Digests) == 0 || len(v.WrongDigests) == 0 || len(v.RequestStreams) == 0 || len(v.ReplyStreams) == 0 {
		tb.Fatal("a list of the vectors is empty")
	}
	return &v
}

// checkWholeFrame requires that decode takes all of frame, takes just as much when more follows, and wants more for
// every proper prefix.
func checkWholeFrame(t *testing.T, frame []byte, decode func([]byte) (int, error)) {
	t.Helper()
	for _, b := range [][]byte{frame, append(bytes.Clone(frame), "more"...)} {
		if n, err := decode(b); n != len(frame) || err != nil {
			t.Errorf("decode of %d bytes = %d, %v; want %d, nil", len(b), n, err, len(frame))
		}
	}
	for i := range frame {
		if n, err := decode(frame[:i:i]); n != 0 || err != nil {
			t.Errorf("decode of the first %d of %d bytes = %d, %v; want 0, nil", i, len(frame), n, err)
		}
	}
}

func checkStreams(t *testing.T, streams []streamVector, decode func([]byte) (int, error)) {
	t.Helper()
	for _, v := range streams {
		t.Run(v.Name, func(t *testing.T) {
			consumed := 0
			for i, want := range v.Lengths {
				n, err := decode(v.Hex[consumed:])
				if n != want || err != nil {
					t.Fatalf("frame %d: decode = %d, %v; want %d, nil", i, n, err, want)
				}
				consumed += n
			}
			if consumed != v.Consumed {
				t.Errorf("consumed %d; want %d", consumed, v.Consumed)
			}
			if n, err := decode(v.Hex[consumed:]); n != 0 || err != nil {
				t.Errorf("decode of the rest = %d, %v; want 0, nil", n, err)
			}
		})
	}
}
