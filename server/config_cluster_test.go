package server

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const clusterSecret = "a cluster secret"

// nodeEnv is the least environment of a node.
func nodeEnv(more ...string) []string {
	return append([]string{"TICKETING_STATE_DIR=/var/lib/ticketing", "TICKETING_PEER_LISTEN=127.0.0.1:5325", "TICKETING_CLUSTER_SECRET=" + clusterSecret}, more...)
}

func TestEveryClusterVariable(t *testing.T) {
	c, err := configFromEnv(nodeEnv(
		"TICKETING_SEAT=5", "TICKETING_PEER_ADVERTISE=n5:5325", "TICKETING_PEERS=n1:5325,[::1]:5325",
		"TICKETING_PEER_TLS_CERT=/c", "TICKETING_PEER_TLS_KEY=/k", "TICKETING_PEER_TLS_CA=/ca",
		"TICKETING_BOOTSTRAP=tkb1.p.m", "TICKETING_JOIN=tkj1.p.m", "TICKETING_REJOIN=off",
		"TICKETING_HEARTBEAT=1s", "TICKETING_ELECTION_TIMEOUT=3s", "TICKETING_LOG_MEMORY=1MiB",
	), secretFiles(nil))
	if err != nil {
		t.Fatal(err)
	}
	k := c.Cluster
	want := ClusterConfig{
		Seat: 5, PeerListen: "127.0.0.1:5325", PeerAdvertise: "n5:5325", Peers: []string{"n1:5325", "[::1]:5325"}, Secrets: []Secret{clusterSecret},
		TLSCert: "/c", TLSKey: "/k", TLSCA: "/ca", Bootstrap: "tkb1.p.m", Join: "tkj1.p.m",
		Heartbeat: time.Second, ElectionTimeout: 3 * time.Second, LogMemory: 1 << 20, given: k.given,
	}
	if got, want := fmt.Sprintf("%+v", k), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if k.Bootstrap != want.Bootstrap || k.Join != want.Join || !slices.Equal(k.Secrets, want.Secrets) {
		t.Error("the secrets are others")
	}
}

// Each bad value in an environment that is good otherwise: what the one problem says.
func TestBadClusterValues(t *testing.T) {
	for entry, says := range map[string]string{
		"TICKETING_SEAT=6":                                       `TICKETING_SEAT="6": a number from 1 to 5`,
		"TICKETING_SEAT=0":                                       `TICKETING_SEAT="0": a number from 1 to 5`,
		"TICKETING_PEER_LISTEN=x":                                `TICKETING_PEER_LISTEN="x": host:port`,
		"TICKETING_PEER_LISTEN=127.0.0.1:5225":                   `TICKETING_PEER_LISTEN="127.0.0.1:5225" and TICKETING_LISTEN="127.0.0.1:5225": two different`,
		"TICKETING_PEER_LISTEN=127.0.0.1:5425":                   "TICKETING_ADMIN_LISTEN",
		"TICKETING_PEER_ADVERTISE=[::]:1":                        "with a host and a port",
		"TICKETING_PEER_ADVERTISE=n1:0":                          "with a host and a port",
		"TICKETING_PEERS=a:1,,b:2":                               `TICKETING_PEERS="a:1,,b:2": host:port, several`,
		"TICKETING_CLUSTER_SECRET=hunter2":                       "TICKETING_CLUSTER_SECRET: secret 1 of 1 is too short; at least 16 bytes",
		"TICKETING_CLUSTER_SECRET=" + clusterSecret + ",hunter2": "TICKETING_CLUSTER_SECRET: secret 2 of 2 is too short",
		"TICKETING_CLUSTER_SECRET=,":                             "TICKETING_CLUSTER_SECRET: secret 1 of 2 is empty",
		"TICKETING_TOKEN=x," + clusterSecret:                     "TICKETING_CLUSTER_SECRET and TICKETING_TOKEN: two different secrets",
		"TICKETING_BOOTSTRAP=tkj1.p.m":                           "TICKETING_BOOTSTRAP: a credential tkb1.<payload>.<mac> is allowed",
		"TICKETING_JOIN=tkj1.payload":                            "TICKETING_JOIN: a credential tkj1.",
		"TICKETING_REJOIN=no":                                    `TICKETING_REJOIN="no": auto or off`,
		"TICKETING_HEARTBEAT=167ms":                              `TICKETING_HEARTBEAT="167ms" and TICKETING_ELECTION_TIMEOUT="500ms": a heartbeat of at most a third`,
		"TICKETING_HEARTBEAT=9ms":                                `="9ms": a duration from 10ms`,
		"TICKETING_ELECTION_TIMEOUT=299ms":                       `TICKETING_HEARTBEAT="100ms" and TICKETING_ELECTION_TIMEOUT="299ms"`,
		"TICKETING_ELECTION_TIMEOUT=2":                           `TICKETING_ELECTION_TIMEOUT="2": a duration`,
		"TICKETING_LOG_MEMORY=1KiB":                              "a size from 64KiB",
		"TICKETING_PEER_TLS_CERT=/c":                             "all or none",
		"TICKETING_PEER_TLS_KEY=/k":                              "all or none",
		"TICKETING_PEER_TLS_CA=/ca":                              "all or none",
		"TICKETING_STATE_DIR=":                                   "TICKETING_STATE_DIR: required in a cluster",
	} {
		name, _, _ := strings.Cut(entry, "=")
		env := slices.DeleteFunc(nodeEnv("TICKETING_BOOTSTRAP=tkb1.p.m"), func(e string) bool { return strings.HasPrefix(e, name+"=") })
		_, err := configFromEnv(append(env, entry), secretFiles(nil))
		problems := problemsOf(t, err)
		if len(problems) != 1 || !strings.Contains(problems[0], says) || strings.Contains(problems[0], "hunter2") {
			t.Errorf("%s: %q; want one that says %q", entry, problems, says)
		}
	}
}

func TestWhatANodeNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		env  []string
		says []string
	}{
		"a seat alone": {[]string{"TICKETING_SEAT=1"},
			[]string{"TICKETING_STATE_DIR: required", "TICKETING_PEER_LISTEN: required", "TICKETING_CLUSTER_SECRET: required", "TICKETING_SEAT: set, so this is a node"}},
		"a default that is written out": {[]string{"TICKETING_REJOIN=auto"},
			[]string{"TICKETING_STATE_DIR", "TICKETING_PEER_LISTEN", "TICKETING_CLUSTER_SECRET", "TICKETING_REJOIN: set, so this is a node"}},
		"a credential alone": {[]string{"TICKETING_JOIN=tkj1.p.m"},
			[]string{"TICKETING_STATE_DIR: required", "TICKETING_PEER_LISTEN: required", "TICKETING_CLUSTER_SECRET: required"}},
		"no peer address": {[]string{"TICKETING_STATE_DIR=/d", "TICKETING_BOOTSTRAP=tkb1.p.m", "TICKETING_CLUSTER_SECRET=" + clusterSecret}, []string{"TICKETING_PEER_LISTEN: required"}},
		"no secret":       {[]string{"TICKETING_STATE_DIR=/d", "TICKETING_BOOTSTRAP=tkb1.p.m", "TICKETING_PEER_LISTEN=:5325"}, []string{"TICKETING_CLUSTER_SECRET: required"}},
		"a seat and a directory, which may hold a marker": {[]string{"TICKETING_STATE_DIR=/d", "TICKETING_SEAT=1"},
			[]string{"TICKETING_PEER_LISTEN: required", "TICKETING_CLUSTER_SECRET: required", "TICKETING_SEAT: set, so this is a node of a cluster, and it needs a credential: TICKETING_BOOTSTRAP"}},
		"a wildcard for clients": {nodeEnv("TICKETING_LISTEN=:5225", "TICKETING_TOKEN="+longSecret),
			[]string{`TICKETING_ADVERTISE: required in a cluster with TICKETING_LISTEN=":5225"`}},
		"a wildcard for clients, and where": {nodeEnv("TICKETING_LISTEN=:5225", "TICKETING_TOKEN="+longSecret, "TICKETING_ADVERTISE=n1:5225"), nil},
		"a wildcard for peers":              {nodeEnv("TICKETING_PEER_LISTEN=:5326"), nil},
		"all":                               {nodeEnv(), nil},
		// Whether the directory holds a marker is not known yet.
		"no credential": {nodeEnv("TICKETING_SEAT=1"), nil},
	} {
		_, err := configFromEnv(test.env, secretFiles(nil))
		problems := problemsOf(t, err)
		ok := len(problems) == len(test.says)
		for i := range min(len(problems), len(test.says)) {
			ok = ok && strings.Contains(problems[i], test.says[i])
		}
		if !ok {
			t.Errorf("%s: %q; want %q", name, problems, test.says)
		}
	}
}

func TestNodeVariables(t *testing.T) {
	c := DefaultConfig()
	if names := c.nodeVariables(); names != nil {
		t.Errorf("of the defaults: %q", names)
	}
	c.AllowVolatileStateDir, c.TokenFloor = true, 1 // also of a standalone server
	c.Cluster.Rejoin, c.Cluster.Peers = false, []string{"a:1"}
	if names := c.nodeVariables(); !slices.Equal(names, []string{"TICKETING_PEERS", "TICKETING_REJOIN"}) {
		t.Errorf("of a configuration made by hand: %q", names)
	}
	if c.StateDir = ""; c.Validate() == nil {
		t.Error("a node without a state directory is valid")
	}
}

func TestPeerCertificatesThatCannotBeRead(t *testing.T) {
	_, err := ConfigFromEnv(nodeEnv("TICKETING_PEER_TLS_CERT=/no/such.crt", "TICKETING_PEER_TLS_KEY=/no/such.key", "TICKETING_PEER_TLS_CA=/no/such.ca"))
	var c *ConfigError
	if !errors.As(err, &c) || !slices.ContainsFunc(c.Problems, func(p string) bool {
		return strings.HasPrefix(p, `TICKETING_PEER_TLS_CERT="/no/such.crt", TICKETING_PEER_TLS_KEY="/no/such.key", TICKETING_PEER_TLS_CA="/no/such.ca": `)
	}) {
		t.Errorf("%v", err)
	}
}

func TestClusterSecretsAreReloaded(t *testing.T) {
	const second = "another cluster secret"
	files := map[string]string{"/s": clusterSecret + "\n", "/b": "tkb1.p.m\n"}
	env := []string{"TICKETING_STATE_DIR=/d", "TICKETING_PEER_LISTEN=:5325", "TICKETING_CLUSTER_SECRET_FILE=/s", "TICKETING_BOOTSTRAP_FILE=/b"}
	c, err := configFromEnv(env, secretFiles(files))
	if err != nil {
		t.Fatal(err)
	}
	// A credential is used once: whoever removed its file can rotate the secret all the same.
	delete(files, "/b")
	files["/s"] = second + "\n" + clusterSecret + "\n"
	if err := c.reloadSecrets(secretFiles(files)); err != nil || !slices.Equal(c.Cluster.Secrets, []Secret{second, clusterSecret}) {
		t.Errorf("after a rotation: %d secrets, %v", len(c.Cluster.Secrets), err)
	}
	files["/s"] = "short"
	if p := problemsOf(t, c.reloadSecrets(secretFiles(files))); len(p) != 1 || !strings.Contains(p[0], "too short") {
		t.Errorf("a short secret: %q", p)
	}
	if !slices.Equal(c.Cluster.Secrets, []Secret{second, clusterSecret}) {
		t.Error("the short secret is in force")
	}
}

func TestDescribeOfANode(t *testing.T) {
	c, err := configFromEnv(nodeEnv("TICKETING_SEAT=2", "TICKETING_BOOTSTRAP=tkb1.hunter.hunter"), secretFiles(nil))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Describe(&out, time.Now())
	shown := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"TICKETING_SEAT 2 ", "TICKETING_PEER_ADVERTISE - (default)", "TICKETING_CLUSTER_SECRET (secret) ", "TICKETING_BOOTSTRAP (secret) ", "TICKETING_JOIN - (default)",
		"TICKETING_REJOIN auto (default)", "TICKETING_HEARTBEAT 100ms (default)", "TICKETING_LOG_MEMORY 4MiB (default)",
		"bytes of the Raft log 67108864 x 1 B = 64.0 MiB", "locks in a snapshot 1000000 x 208 B",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, secret := range []string{"hunter", clusterSecret} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q shows in\n%s", secret, out.String())
		}
	}
}

func TestPeerPortWarnings(t *testing.T) {
	plain := []string{"TICKETING_STATE_DIR=/d", "TICKETING_TOKEN=" + longSecret, "TICKETING_CLUSTER_SECRET=" + clusterSecret}
	for name, test := range map[string]struct {
		env  []string
		want int
	}{
		"loopback":          {[]string{"TICKETING_PEER_LISTEN=127.0.0.1:5325"}, 0},
		"outside":           {[]string{"TICKETING_PEER_LISTEN=:5325"}, 1},
		"outside, with TLS": {[]string{"TICKETING_PEER_LISTEN=:5325", "TICKETING_PEER_TLS_CERT=/c", "TICKETING_PEER_TLS_KEY=/k", "TICKETING_PEER_TLS_CA=/a"}, 0},
	} {
		c, err := configFromEnv(append(test.env, plain...), secretFiles(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Warnings(); len(got) != test.want || test.want == 1 && !strings.Contains(got[0], "TICKETING_PEER_LISTEN=:5325 is plaintext") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
