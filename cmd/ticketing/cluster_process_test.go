package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// said fails the test unless the process ended with code and said everything wanted.
func (o outcome) said(t *testing.T, name string, code int, want ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("%s: exit code %d, want %d\nstdout: %s\nstderr: %s", name, o.code, code, o.stdout, o.stderr)
		return
	}
	for _, text := range want {
		if !strings.Contains(o.stdout+o.stderr, text) {
			t.Errorf("%s: no %q in\n%s%s", name, text, o.stdout, o.stderr)
		}
	}
}

func TestClusterCommands(t *testing.T) {
	t.Parallel()
	c := newChaosCluster(t, 3)
	c.startAll()
	leader := c.leader()
	others := c.others(leader)
	seat := func(n *chaosNode) string { return fmt.Sprint(n.seat) }
	named := func(n *chaosNode) string { return fmt.Sprintf("seat %d (%s)", n.seat, n.peer) }
	control := func(code int, args []string, want ...string) outcome {
		t.Helper()
		o := c.control(args...)
		o.said(t, strings.Join(args, " "), code, want...)
		return o
	}
	eventually(t, "all to be heard", func() bool { return c.control("can-stop").code == exitOK })

	control(exitOK, []string{"status"}, "serving    yes", leader.client)
	control(exitOK, []string{"can-stop"}, "yes: "+named(c.nodes[0])+" may stop")
	control(exitUsage, []string{"can-stop", "--seat", "4"}, "seat 4: the cluster has no such seat; its seats are 1, 2, 3")
	control(exitUsage, []string{"can-stop", "--seat", "6"}, "--seat 6: a seat is 1 to 5")
	control(exitUsage, []string{"transfer", "--to", "0"}, "--to 0: a seat is 1 to 5")
	control(exitUsage, []string{"can-stop", "2"}, "takes no arguments")
	control(exitOK, []string{"transfer", "--to", seat(leader)}, named(leader)+" leads already")
	control(exitUsage, []string{"transfer", "--to", "4"}, "seat 4: the cluster has no such seat")
	control(exitUsage, []string{"replace", "--seat", "4", "--peer-addr", "10.0.0.9:5325"}, "seat 4: the cluster has no such seat")
	control(exitUsage, []string{"replace", "--seat", "9", "--peer-addr", "10.0.0.9:5325"}, "--seat 9: a seat is 1 to 5")
	control(exitUsage, []string{"replace", "--seat", "two"}, `--seat "two": want a number`)
	for _, timeout := range []string{"0s", "-1s"} {
		control(exitUsage, []string{"status", "--timeout", timeout}, "--timeout "+timeout+": want a duration above 0s")
	}
	control(exitNegative, []string{"abort"}, "rejected: no such replacement is under way")
	control(exitUsage, []string{"replace", "--seat", "2"}, "--peer-addr are required")
	control(exitUsage, []string{"replace", "--seat", "2", "--peer-addr", "10.0.0.9"}, `--peer-addr "10.0.0.9": want host:port`)
	control(exitUsage, []string{"replace", "--seat", "2", "--peer-addr", "10.0.0.9:1", "--valid", "25h"}, "--valid 25h0m0s: 1s to 24h")

	var prepared struct {
		Domain, Credential, Expires string
		Seat                        int
		PeerAddr                    string `json:"peer_addr"`
	}
	o := control(exitOK, []string{"replace", "--seat", "2", "--peer-addr", "10.0.0.9:5325", "--json"})
	if err := json.Unmarshal([]byte(o.stdout), &prepared); err != nil || prepared.Seat != 2 || prepared.PeerAddr != "10.0.0.9:5325" ||
		!regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(prepared.Domain) || !isUTC(prepared.Expires) || !strings.HasPrefix(prepared.Credential, "tkj1.") {
		t.Errorf("replace --json: %v in %s", err, o.stdout)
	}
	const shown = `replacement:? seat 2 by node 4: prepared`
	for _, args := range [][]string{{"cluster", "status", "--peer", leader.peer}, {"status", "--admin", leader.admin}, {"status", "--admin", leader.admin, "--admin", others[0].admin}} {
		if o := run(t, []string{"TICKETING_CLUSTER_SECRET=" + chaosSecret}, args...); len(regexp.MustCompile(shown).FindAllString(strings.Join(strings.Fields(o.stdout), " "), -1)) != 1 {
			t.Errorf("%q does not show the replacement once:\n%s%s", args, o.stdout, o.stderr)
		}
	}
	control(exitNegative, []string{"can-stop", "--seat", "1"}, "no: seat 2 is being replaced by node 4 (prepared)", "cluster abort")
	control(exitNegative, []string{"replace", "--seat", "3", "--peer-addr", "10.0.0.9:5325"}, "rejected: a replacement is under way")
	control(exitOK, []string{"abort"}, "the replacement is given up")

	o = control(exitOK, []string{"status", "--json"})
	var status struct {
		Domain, Incarnation, Token string
		StateHash                  string `json:"state_hash"`
		Members                    []struct{ Incarnation string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &status); err != nil || len(status.Members) != 3 || !regexp.MustCompile(`^[0-9]+$`).MatchString(status.Token) ||
		!regexp.MustCompile(`^([0-9a-f]{32}){5}$`).MatchString(status.Domain+status.Incarnation+status.StateHash+status.StateHash+status.Members[0].Incarnation+status.Members[1].Incarnation) {
		t.Errorf("status --json: %v in %s", err, o.stdout)
	}

	c.kill(others[0])
	eventually(t, "the leader to miss it", func() bool { return c.control("can-stop", "--seat", seat(others[1])).code == exitNegative })
	control(exitNegative, []string{"can-stop", "--seat", seat(others[1])}, "no: "+named(others[0])+" ", "without it and seat "+seat(others[1])+" there is no majority: wait, or start it")
	control(exitOK, []string{"can-stop", "--seat", seat(others[0])})
	o = control(exitNegative, []string{"can-stop", "--seat", seat(others[1]), "--json"})
	var answer struct {
		MayStop *bool `json:"may_stop"`
		Why     string
	}
	if err := json.Unmarshal([]byte(o.stdout), &answer); err != nil || answer.MayStop == nil || *answer.MayStop || !strings.HasPrefix(answer.Why, named(others[0])) {
		t.Errorf("can-stop --json: %v in %s", err, o.stdout)
	}
	control(exitNegative, []string{"transfer", "--to", seat(others[0])}, "rejected: "+named(others[0])+" ", "name another seat")

	c.kill(others[1])
	var leaderless outcome
	eventually(t, "the last node to say that nobody leads", func() bool {
		leaderless = c.control("status", "--timeout", "1s") // on a busy machine that can be too short to be answered
		return strings.Contains(leaderless.stderr, "cluster init --after-loss")
	})
	leaderless.said(t, "status --timeout 1s", exitUnreachable, "1 of 3 nodes answered, and it does not lead", leader.peer, others[0].peer+": ")
	c.kill(leader)
	control(exitUnreachable, []string{"status"}, "no node of the cluster can be reached", "connection refused")
}

// isUTC reports whether text is a time as the commands print it.
func isUTC(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil && strings.HasSuffix(text, "Z")
}

func TestClusterInit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, environ string
		args          []string
		code          int
		want          string
	}{
		{"two seats", chaosSecret, []string{"--seat", "1=a:1", "--seat", "2=b:2"}, exitUsage, "2 seats: a cluster has 3 or 5"},
		{"a seat left out", chaosSecret, []string{"--seat", "1=a:1", "--seat", "2=b:2", "--seat", "4=c:3"}, exitUsage, "seat 3 is missing"},
		{"no port", chaosSecret, []string{"--seat", "1=a", "--seat", "2=b:2", "--seat", "3=c:3"}, exitUsage, `seat 1="a": want host:port`},
		{"a seat twice", chaosSecret, []string{"--seat", "1=a:1", "--seat", "2=b:2", "--seat", "2=c:3"}, exitUsage, `--seat "2=c:3": seat 2 is given twice, the first time as b:2`},
		{"no seat", chaosSecret, []string{"--seat", "a:1"}, exitUsage, `--seat "a:1": want N=HOST:PORT, such as`},
		{"a seat too many", chaosSecret, []string{"--seat", "6=a:1"}, exitUsage, `--seat "6=a:1": a cluster has 3 or 5 nodes`},
		{"loopback and others", chaosSecret, []string{"--seat", "1=127.0.0.1:1", "--seat", "2=10.0.0.2:2", "--seat", "3=c:3"}, exitUsage,
			"127.0.0.1:1 is reached from its own machine alone, but there is 10.0.0.2:2 too"},
		{"a wildcard", chaosSecret, []string{"--seat", "1=a:1", "--seat", "2=:2", "--seat", "3=c:3"}, exitUsage, `seat 2=":2": want host:port with a host that`},
		{"no port that there is", chaosSecret, []string{"--seat", "1=a:1", "--seat", "2=b:99999", "--seat", "3=c:3"}, exitUsage, `seat 2="b:99999": want host:port, with a port from 1 to 65535`},
		{"a floor that is too high", chaosSecret, []string{"--token-floor", "18446744073709551615", "--seat", "1=a:1"}, exitUsage, "--token-floor 18446744073709551615: at most "},
		{"a short secret", "short", []string{"--seat", "1=a:1", "--seat", "2=b:2", "--seat", "3=c:3"}, exitConfig, "TICKETING_CLUSTER_SECRET: "},
		{"no secret", "", []string{"--seat", "1=a:1", "--seat", "2=b:2", "--seat", "3=c:3"}, exitConfig, "TICKETING_CLUSTER_SECRET is not set"},
		{"all", chaosSecret, []string{"--seat", "1=a:1", "--seat", "2=b:2", "--seat", "3=c:3"}, exitOK, "tkb1."},
	} {
		run(t, []string{"TICKETING_CLUSTER_SECRET=" + test.environ}, append([]string{"cluster", "init"}, test.args...)...).said(t, test.name, test.code, test.want)
	}
	// A script takes stdout as the credential.
	alone := run(t, []string{"TICKETING_CLUSTER_SECRET=" + chaosSecret}, "cluster", "init", "--seat", "1=a:1", "--seat", "2=b:2", "--seat", "3=c:3").stdout
	if credential, rest, _ := strings.Cut(alone, "\n"); len(strings.Split(credential, ".")) != 3 || rest != "" {
		t.Errorf("stdout is not the credential alone: %q", alone)
	}
	o := run(t, []string{"TICKETING_CLUSTER_SECRET=" + chaosSecret}, "cluster", "init", "--json", "--seat", "1=a:1", "--seat", "2=b:2", "--seat", "3=c:3")
	var made struct{ Expires, Credential string }
	if err := json.Unmarshal([]byte(o.stdout), &made); err != nil || !isUTC(made.Expires) || !strings.HasPrefix(made.Credential, "tkb1.") || o.stderr != "" {
		t.Errorf("--json: %v, %s%s", err, o.stdout, o.stderr)
	}
}

func TestClusterHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help", "cluster"}, {"cluster", "--help"}, {"cluster", "-h"}, {"cluster", "help"}} {
		run(t, nil, args...).said(t, strings.Join(args, " "), exitOK, "Usage: ticketing cluster init", "Usage: ticketing cluster can-stop")
	}
	for _, c := range clusterCommands() {
		changes := slices.Contains([]string{"cluster replace", "cluster abort", "cluster transfer"}, c.name)
		if slices.Contains(c.exits, unknownOutcome) != changes || !slices.IsSorted(c.exits) {
			t.Errorf("%s ends with %q; an unknown outcome has what changes a cluster, and that alone", c.name, c.exits)
		}
	}
	run(t, nil, "cluster").said(t, "cluster alone", exitUsage, "ticketing help cluster")
	run(t, nil, "cluster", "stat").said(t, "cluster stat", exitUsage, "did you mean cluster status?")
}

// nodeCA issues certificates for nodes and commands.
type nodeCA struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newNodeCA(t *testing.T, name string) *nodeCA {
	t.Helper()
	a := &nodeCA{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue writes a certificate NAME.crt and its key NAME.key. The first signs itself.
func (a *nodeCA) issue(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-100*24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for end, block := range map[string]*pem.Block{"crt": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(a.dir, name+"."+end), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// peerTLS is the environment of nodes at hosts, or of a command, with a certificate that ends so long from now.
func (a *nodeCA) peerTLS(name string, ends time.Duration, hosts ...net.IP) []string {
	a.t.Helper()
	a.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(ends), IPAddresses: hosts})
	file := func(f string) string { return filepath.Join(a.dir, f) }
	return []string{
		"TICKETING_PEER_TLS_CERT=" + file(name+".crt"), "TICKETING_PEER_TLS_KEY=" + file(name+".key"), "TICKETING_PEER_TLS_CA=" + file("ca.crt"),
	}
}

// What keeps a command from a cluster is named, with what to do, and has its exit code.
func TestClusterCommandsThatReachNobody(t *testing.T) {
	t.Parallel()
	ca := newNodeCA(t, "nodes")
	plain, secured := newChaosCluster(t, 3), newChaosCluster(t, 3)
	var hosts []net.IP
	for _, n := range secured.nodes {
		host, _, _ := net.SplitHostPort(n.peer)
		hosts = append(hosts, net.ParseIP(host))
	}
	secured.environ = append(secured.environ, ca.peerTLS("node", 24*time.Hour, hosts...)...)
	plain.startAll()
	secured.startAll()
	if log := secured.nodes[0].process.stderr.String(); !strings.Contains(log, "TICKETING_PEER_TLS_CERT: TLS certificate") || !strings.Contains(log, " expires at ") {
		t.Errorf("a node with a certificate for a day more does not warn:\n%s", log)
	}
	with := func(environ ...string) []string {
		return append([]string{"TICKETING_CLUSTER_SECRET=" + chaosSecret}, environ...)
	}
	for _, test := range []struct {
		name    string
		cluster *chaosCluster
		environ []string
		code    int
		want    []string
	}{
		{"plaintext", plain, with(), exitOK, []string{"serving"}},
		{"TLS", secured, with(ca.peerTLS("operator", time.Hour)...), exitOK, []string{"serving"}},
		{"another secret", plain, []string{"TICKETING_CLUSTER_SECRET=another secret of the tests"}, exitAuth, []string{"compare TICKETING_CLUSTER_SECRET"}},
		{"TLS to plaintext", plain, with(ca.peerTLS("eager", time.Hour)...), exitUnreachable, []string{"TICKETING_PEER_TLS_* if and only if the nodes have them"}},
		{"plaintext to TLS", secured, with(), exitAuth, []string{"the node uses TLS, and this command does not: set TICKETING_PEER_TLS_CERT"}},
		{"a missing certificate", secured, with("TICKETING_PEER_TLS_CERT=/none", "TICKETING_PEER_TLS_KEY=/none", "TICKETING_PEER_TLS_CA=/none"), exitConfig,
			[]string{`TICKETING_PEER_TLS_CERT="/none"`, "no such file"}},
		{"an expired certificate", secured, with(ca.peerTLS("expired", -time.Hour)...), exitAuth,
			[]string{"expired certificate: the node refuses the certificate in TICKETING_PEER_TLS_CERT"}},
		{"a CA that the nodes do not know", secured, with(newNodeCA(t, "others").peerTLS("stranger", time.Hour)...), exitAuth,
			[]string{": a certificate was refused: ", "unknown authority: compare TICKETING_PEER_TLS_CA"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, command := range [][]string{
				{"status"}, {"replace", "--seat", "2", "--peer-addr", "10.0.0.9:5325"}, {"abort"}, {"transfer"}, {"can-stop"},
			} {
				if test.code == exitOK && command[0] != "status" {
					continue
				}
				args := append([]string{"cluster"}, command...)
				for _, n := range test.cluster.nodes {
					args = append(args, "--peer", n.peer)
				}
				run(t, test.environ, args...).said(t, command[0], test.code, test.want...)
			}
		})
	}
}
