package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What a node does not know is no number.
func TestStatusSaysWhatIsNotKnown(t *testing.T) {
	var s nodeStatus
	said := `{"mode": "cluster", "node_id": 2, "members": [{"seat": 1, "node_id": 1, "lag": null, "last_heard_ms": null}, {"seat": 3, "node_id": 3, "lag": 7, "last_heard_ms": 40}]}`
	if err := json.Unmarshal([]byte(said), &s); err != nil {
		t.Fatal(err)
	}
	var cluster, node bytes.Buffer
	printCluster(&cluster, s)
	printNode(&node, s)
	for _, want := range []string{`(?m) -  +-$`, `(?m) 7  +40 ms ago$`, `lag -\n`, `lag 7\n`} {
		if !regexp.MustCompile(want).MatchString(cluster.String() + node.String()) {
			t.Errorf("no %q in\n%s%s", want, &cluster, &node)
		}
	}
}

// An endpoint that does not answer, or is not ready, leaves the columns of the others where they are.
func TestStatusKeepsItsColumns(t *testing.T) {
	up := nodeStatus{Role: "follower", Ready: true, Seat: 1, Term: 12, HeldKeys: 100000}
	waiting := up
	waiting.Ready, waiting.WhyNotReady = false, "no leader is known: \x1b[2J"
	nodes := []nodeReport{
		{Admin: "http://127.0.0.1:5425", status: up},
		{Admin: "http://127.0.0.1:5426", Error: `Get "http://127.0.0.1:5426/status": connection refused`},
		{Admin: "http://127.0.0.1:5427", status: waiting},
		{Admin: "http://127.0.0.1:5428", status: up},
	}
	var out bytes.Buffer
	if err := printNodes(&out, nodes); err != nil {
		t.Fatal(err)
	}
	table, reasons, _ := strings.Cut(out.String(), "\n\n")
	lines := strings.Split(table, "\n")
	for _, column := range []string{"ROLE", "READY", "SEAT", "TERM", "LEADER", "HELD", "WAITERS", "CONNECTIONS", "UP"} {
		at := strings.Index(lines[0], column)
		for _, line := range lines[1:] {
			if len(line) <= at || line[at-1] != ' ' || line[at] == ' ' {
				t.Errorf("nothing begins under %s at %d of %q", column, at, line)
			}
		}
	}
	for _, want := range []string{
		`http://127.0.0.1:5426: Get "http://127.0.0.1:5426/status": connection refused`, `http://127.0.0.1:5427: "no leader is known: \x1b[2J"`,
	} {
		if !strings.Contains(reasons, want) {
			t.Errorf("no %q below the table:\n%s", want, reasons)
		}
	}
}

// A port that takes connections and says nothing is told in words, with the time it was given.
func TestAdminEndpointThatIsSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	e := adminEndpoint{"http://" + silent.Addr().String(), &adminFlags{http: &http.Client{Timeout: 20 * time.Millisecond}}}
	_, _, err = e.status(t.Context())
	if want := e.url + ": no answer within 20ms"; err == nil || err.Error() != want || exitCode(err) != exitUnreachable {
		t.Errorf("%v (exit code %d); want %s", err, exitCode(err), want)
	}
}
