package server

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"ticketing.internal/wire"
)

// vectorCase is a case of the independent test vectors, which wire keeps.
type vectorCase struct {
	Name     string `json:"name"`
	Hex      string `json:"hex"`
	Code     uint16 `json:"code"`
	Owner    string `json:"owner"`
	ReplyHex string `json:"reply_hex"`
}

func readVectors(t *testing.T, file string) map[string][]vectorCase {
	t.Helper()
	b, err := os.ReadFile("../wire/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		t.Fatal(err)
	}
	lists := map[string][]vectorCase{}
	for _, name := range []string{"malformed", "rejected"} {
		var list []vectorCase
		if err := json.Unmarshal(raw[name], &list); err != nil || len(list) == 0 {
			t.Fatalf("%s: list %s: %v (%d cases)", file, name, err, len(list))
		}
		lists[name] = list
	}
	return lists
}

func (c *vectorCase) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString(c.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMalformedVectorsEndTheConnection(t *testing.T) {
	ts := startServer(t, nil)
	for _, v := range readVectors(t, "client-v1-frames.json")["malformed"] {
		t.Run(v.Name, func(t *testing.T) {
			c := ts.session(t)
			// What stands before the malformed frame is answered first.
			c.send(join(ping(77), v.bytes(t)))
			c.expect(wire.OpPong, 0, 77)
			c.expect(wire.OpError, v.Code, 0)
			c.expectEnd()
		})
	}
}

func TestRejectedVectorsAreAnsweredAndTheConnectionLives(t *testing.T) {
	ts := startServer(t, nil)
	for _, v := range readVectors(t, "client-v1-frames.json")["rejected"] {
		t.Run(v.Name, func(t *testing.T) {
			owner, err := strconv.ParseUint(v.Owner, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			c := ts.session(t)
			c.send(v.bytes(t))
			c.expect(wire.OpError, v.Code, owner)
			c.send(ping(78))
			c.expect(wire.OpPong, 0, 78)
		})
	}
}

func TestLegacyMalformedVectorsEndTheConnection(t *testing.T) {
	ts := startServer(t, nil)
	for _, v := range readVectors(t, "client-v0.json")["malformed"] {
		t.Run(v.Name, func(t *testing.T) {
			c := ts.legacy(t)
			c.send(v.bytes(t))
			c.expectLine("Emalformed\n")
			c.expectEnd()
		})
	}
}

func TestLegacyRejectedVectorsAreAnsweredAndTheConnectionLives(t *testing.T) {
	ts := startServer(t, nil)
	for _, v := range readVectors(t, "client-v0.json")["rejected"] {
		t.Run(v.Name, func(t *testing.T) {
			want, err := hex.DecodeString(v.ReplyHex)
			if err != nil {
				t.Fatal(err)
			}
			c := ts.legacy(t)
			c.send(v.bytes(t))
			c.expectLine(string(want))
			key := "alive-" + strings.ReplaceAll(v.Name, " ", "-")
			c.send(acquireV0(key, 1, 5))
			c.expectGrant(key)
		})
	}
}
