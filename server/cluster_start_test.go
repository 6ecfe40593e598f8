package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
)

// The domains and the clock of the start table's tests.
var (
	oldDomain = raft.Domain{0xd0}
	newDomain = raft.Domain{0xd1}
)

const (
	startMillis = int64(1_800_000_000_000)
	credLife    = int64(15 * time.Minute / time.Millisecond)
)

func testSecrets(t *testing.T, texts ...string) *auth.ClusterSecrets {
	t.Helper()
	var list [][]byte
	for _, s := range texts {
		list = append(list, []byte(s))
	}
	secrets, err := auth.NewClusterSecrets(list...)
	if err != nil {
		t.Fatal(err)
	}
	return secrets
}

// bootstrapText is a credential of newDomain for the seats n1, n2 and n3.
func bootstrapText(t *testing.T, change func(*auth.BootstrapCredential)) string {
	t.Helper()
	c := &auth.BootstrapCredential{Domain: newDomain, TokenBase: 77, NotBeforeMillis: startMillis, NotAfterMillis: startMillis + credLife}
	for i, addr := range []string{"n1:5325", "n2:5325", "n3:5325"} {
		c.Seats = append(c.Seats, auth.CredentialSeat{Seat: uint8(i + 1), PeerAddr: addr})
	}
	if change != nil {
		change(c)
	}
	text, err := c.Mint(testSecrets(t, clusterSecret))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// joinText is a credential of newDomain for seat 3 as NodeID 7 at n7.
func joinText(t *testing.T, change func(*auth.JoinCredential)) string {
	t.Helper()
	c := &auth.JoinCredential{Domain: newDomain, Seat: 3, NodeID: 7, PeerAddr: "n7:5325", NotAfterMillis: startMillis + credLife}
	if change != nil {
		change(c)
	}
	text, err := c.Mint(testSecrets(t, clusterSecret))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// lifeIn is the marker of seat 3 at n3, as NodeID 3 and then 6.
func lifeIn(domain raft.Domain) *marker {
	return &marker{
		domain: domain, seat: 3, peerAddr: "n3:5325", peers: []string{"n1:5325", "n2:5325"}, tokenMark: 99, credentialEnd: 5, opened: true,
		incarnations: []raft.Member{{NodeID: 3, Incarnation: raft.Incarnation{3}}, {NodeID: 6, Incarnation: raft.Incarnation{6}}},
	}
}

// startText is a decision in a line.
func startText(d startDecision) string {
	if d.mode == startAlone {
		return d.mode.String()
	}
	text := fmt.Sprintf("%v domain %x seat %d at %s, looks at %s", d.mode, d.domain[:1], d.seat, d.peerAddr, strings.Join(d.lookAt, " "))
	if d.otherDomain {
		text += ", marker of another domain"
	}
	if d.tokenMark != 0 {
		text += fmt.Sprintf(", mark %d", d.tokenMark)
	}
	if d.elseRejoin {
		text += ", else rejoin"
	}
	return text
}

type startTest struct {
	env     []string // beside nodeEnv; a lone "-" stands for: without it
	kept    keptState
	ramDisk string
	later   int64    // ms after startMillis
	want    string   // the decision, or
	refused string   // what the refusal says
	code    int      // of the refusal; 0 stands for 78
	noted   []string // what the notes say, one each
}

func (test startTest) decide(t *testing.T, name string) (startDecision, error) {
	t.Helper()
	env := nodeEnv(test.env...)
	if len(test.env) > 0 && test.env[0] == "-" {
		env = append([]string{"TICKETING_STATE_DIR=/var/lib/ticketing"}, test.env[1:]...)
	}
	c, err := configFromEnv(env, secretFiles(nil))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	facts := startFacts{config: &c, kept: test.kept, ramDisk: test.ramDisk, given: readCredentials(&c.Cluster), nowMillis: startMillis + test.later}
	return facts.decide()
}

func (test startTest) check(t *testing.T, name string) {
	t.Helper()
	d, err := test.decide(t, name)
	switch {
	case test.refused != "":
		code := test.code
		if code == 0 {
			code = exitConfig
		}
		if err == nil || !strings.Contains(err.Error(), test.refused) || ExitCode(err) != code {
			t.Errorf("%s: exit code %d, %v\nwant %d, and %q", name, ExitCode(err), err, code, test.refused)
		}
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case startText(d) != test.want:
		t.Errorf("%s:\n%s, want\n%s", name, startText(d), test.want)
	default:
		ok := len(d.notes) == len(test.noted)
		for i := range min(len(d.notes), len(test.noted)) {
			ok = ok && strings.Contains(d.notes[i], test.noted[i])
		}
		if !ok {
			t.Errorf("%s: notes %q, want %q", name, d.notes, test.noted)
		}
	}
}

const (
	bootstrapOf2 = "bootstrap domain d1 seat 2 at n2:5325, looks at n1:5325 n3:5325"
	rejoinOf3    = "rejoin domain d1 seat 3 at n3:5325, looks at n1:5325 n2:5325, mark 99"
	rejoinInOld  = "rejoin domain d0 seat 3 at n3:5325, looks at n1:5325 n2:5325, mark 99"
)

// The rows of the table at decide.
func TestStartTable(t *testing.T) {
	bootstrap, join := "TICKETING_BOOTSTRAP="+bootstrapText(t, nil), "TICKETING_JOIN="+joinText(t, nil)
	used := "TICKETING_JOIN=" + joinText(t, func(c *auth.JoinCredential) { c.NodeID = 6 })
	const seat2, off = "TICKETING_SEAT=2", "TICKETING_REJOIN=off"
	none, same, other := keptState{}, keptState{marker: lifeIn(newDomain)}, keptState{marker: lifeIn(oldDomain)}
	lonely := lifeIn(newDomain)
	lonely.peers = nil
	const both = "TICKETING_BOOTSTRAP, for one of the first nodes"
	for name, test := range map[string]startTest{
		"none; bootstrap":            {kept: none, env: []string{seat2, bootstrap}, want: bootstrapOf2},
		"none; bootstrap, no rejoin": {kept: none, env: []string{seat2, bootstrap, off}, want: bootstrapOf2},
		"none; join": {kept: none, env: []string{join, "TICKETING_PEERS=n1:5325,n2:5325"},
			want: "join domain d1 seat 3 at n7:5325, looks at n1:5325 n2:5325"},
		"none; join, nobody to ask":               {kept: none, env: []string{join}, refused: "TICKETING_PEERS: required here"},
		"none; join, nobody to ask but itself":    {kept: none, env: []string{join, "TICKETING_PEERS=n7:5325"}, refused: "TICKETING_PEERS: required here"},
		"this domain's; nothing, nobody to ask":   {kept: keptState{marker: lonely}, refused: "TICKETING_PEERS: required here"},
		"this domain's; nothing, nobody it knows": {kept: keptState{marker: lonely}, env: []string{"TICKETING_PEERS=n9:1"}, want: "rejoin domain d1 seat 3 at n3:5325, looks at n9:1, mark 99"},
		"none; a seat": {kept: none, env: []string{seat2}, refused: both},

		"this domain's; join not consumed": {kept: same, env: []string{join},
			want: "join domain d1 seat 3 at n7:5325, looks at n1:5325 n2:5325, mark 99, else rejoin"},
		"this domain's; join not consumed, more peers": {kept: same, env: []string{join, "TICKETING_PEERS=n9:1,n2:5325,n7:5325"},
			want: "join domain d1 seat 3 at n7:5325, looks at n9:1 n2:5325 n1:5325, mark 99, else rejoin"},
		"this domain's; join not consumed, no rejoin": {kept: same, env: []string{join, off},
			want: "join domain d1 seat 3 at n7:5325, looks at n1:5325 n2:5325, mark 99"},
		"this domain's; join consumed":              {kept: same, env: []string{used}, want: rejoinOf3, noted: []string{"TICKETING_JOIN was used by an earlier process"}},
		"this domain's; join consumed, no rejoin":   {kept: same, env: []string{used, off}, refused: "ticketing cluster replace --seat 3 --peer-addr n3:5325"},
		"this domain's; bootstrap":                  {kept: same, env: []string{"TICKETING_SEAT=3", bootstrap}, want: rejoinOf3, noted: []string{"had a life already"}},
		"this domain's; bootstrap without a seat":   {kept: same, env: []string{bootstrap}, want: rejoinOf3, noted: []string{"had a life already"}},
		"this domain's; bootstrap, no rejoin":       {kept: same, env: []string{seat2, bootstrap, off}, refused: "TICKETING_REJOIN=off: set it to auto, or run"},
		"this domain's; nothing":                    {kept: same, want: rejoinOf3},
		"this domain's; nothing, more peers":        {kept: same, env: []string{"TICKETING_PEERS=n9:1,n3:5325"}, want: "rejoin domain d1 seat 3 at n3:5325, looks at n1:5325 n2:5325 n9:1, mark 99"},
		"this domain's; nothing, no rejoin":         {kept: same, env: []string{off}, refused: "had a life in seat 3"},
		"this domain's; another seat":               {kept: same, env: []string{seat2}, want: rejoinOf3, noted: []string{"TICKETING_SEAT=2 counts at a bootstrap only: the marker says that this node's seat is 3"}},
		"this domain's; a standalone's environment": {kept: same, env: []string{"-"}, refused: "holds the marker of a node of a cluster (seat 3)"},

		"another domain's; bootstrap":            {kept: other, env: []string{seat2, bootstrap}, want: bootstrapOf2 + ", marker of another domain, mark 99"},
		"another domain's; bootstrap, no rejoin": {kept: other, env: []string{seat2, bootstrap, off}, want: bootstrapOf2 + ", marker of another domain, mark 99"},
		"another domain's; join": {kept: other, env: []string{join, "TICKETING_PEERS=n1:5325"},
			want: "join domain d1 seat 3 at n7:5325, looks at n1:5325, marker of another domain, mark 99"},
		"another domain's; a join with a NodeId that it knows": {kept: other, env: []string{used, "TICKETING_PEERS=n1:5325"},
			want: "join domain d1 seat 3 at n7:5325, looks at n1:5325, marker of another domain, mark 99"},
		"another domain's; nothing": {kept: other, want: rejoinInOld},

		"a standalone's; bootstrap": {kept: keptState{alone: true}, env: []string{seat2, bootstrap}, refused: "holds the state of a standalone server"},
		"a standalone's; join":      {kept: keptState{alone: true}, env: []string{join}, refused: "holds the state of a standalone server"},
		"a standalone's; nothing":   {kept: keptState{alone: true}, env: []string{"-"}, want: "standalone"},
		"none; nothing":             {kept: none, env: []string{"-"}, want: "standalone"},
	} {
		test.check(t, name)
	}
}

// Whatever makes a node of a cluster keeps it from coming up as a standalone server.
func TestEveryClusterVariableNeedsAChoice(t *testing.T) {
	for _, entry := range []string{
		"TICKETING_SEAT=1", "TICKETING_PEER_LISTEN=:5325", "TICKETING_PEER_ADVERTISE=n1:1", "TICKETING_PEERS=n1:1", "TICKETING_CLUSTER_SECRET=" + longSecret,
		"TICKETING_REJOIN=auto", "TICKETING_REJOIN=off", "TICKETING_HEARTBEAT=100ms", "TICKETING_ELECTION_TIMEOUT=1s", "TICKETING_LOG_MEMORY=4MiB",
	} {
		name, _, _ := strings.Cut(entry, "=")
		for where, kept := range map[string]keptState{"none": {}, "a standalone's": {alone: true}} {
			c, _ := configFromEnv([]string{"TICKETING_STATE_DIR=/d", entry}, secretFiles(nil))
			// The secret and the peer address are there, so that nothing else is missing.
			c.Cluster.Secrets, c.Cluster.PeerListen = []Secret{clusterSecret}, "127.0.0.1:5325"
			d, err := (&startFacts{config: &c, kept: kept, nowMillis: startMillis}).decide()
			if err == nil || ExitCode(err) != exitConfig || !strings.Contains(err.Error(), name) {
				t.Errorf("%s; %s: %v, %v", where, entry, d.mode, err)
			}
			if !kept.alone && (!strings.Contains(err.Error(), "TICKETING_BOOTSTRAP") || !strings.Contains(err.Error(), "TICKETING_JOIN")) {
				t.Errorf("%s: the choices are not named: %v", entry, err)
			}
		}
	}
}

func TestStartWithCredentialsThatDoNotCount(t *testing.T) {
	bootstrap, join := "TICKETING_BOOTSTRAP="+bootstrapText(t, nil), "TICKETING_JOIN="+joinText(t, nil)
	const seat2, otherSecret = "TICKETING_SEAT=2", "TICKETING_CLUSTER_SECRET=another cluster secret"
	rotated := "TICKETING_CLUSTER_SECRET=another cluster secret," + clusterSecret
	elsewhere := func(credential string) []string {
		return []string{"-", "TICKETING_PEER_LISTEN=127.0.0.1:5325", otherSecret, "TICKETING_SEAT=3", credential}
	}
	marked := keptState{marker: lifeIn(newDomain)}
	for name, test := range map[string]startTest{
		"bootstrap, its last millisecond": {env: []string{seat2, bootstrap}, later: credLife - 1, want: bootstrapOf2},
		"bootstrap, ended":                {env: []string{seat2, bootstrap}, later: credLife, refused: "TICKETING_BOOTSTRAP ended at 2027-01-15T08:15:00Z"},
		"join, ended":                     {env: []string{join}, later: credLife, refused: "TICKETING_JOIN ended at"},
		"bootstrap, ended; its marker":    {env: []string{bootstrap}, later: credLife, kept: marked, want: rejoinOf3, noted: []string{"TICKETING_BOOTSTRAP ended"}},
		"join, ended; its marker":         {env: []string{join}, later: credLife, kept: marked, want: rejoinOf3, noted: []string{"TICKETING_JOIN ended"}},
		"bootstrap, ended; another's marker": {env: []string{seat2, bootstrap}, later: credLife, kept: keptState{marker: lifeIn(oldDomain)}, want: rejoinInOld,
			noted: []string{"TICKETING_BOOTSTRAP ended", "TICKETING_SEAT=2"}},
		"join, ended; its marker, no rejoin": {env: []string{join, "TICKETING_REJOIN=off"}, later: credLife, kept: marked, refused: "TICKETING_JOIN ended"},

		"bootstrap, not yet valid":             {env: []string{seat2, bootstrap}, later: -1, refused: "is not valid before 2027-01-15T08:00:00Z", code: exitFailed},
		"bootstrap, not yet valid; its marker": {env: []string{bootstrap}, later: -1, kept: marked, want: rejoinOf3, noted: []string{"had a life"}},

		"two":                 {env: []string{seat2, bootstrap, join}, refused: "TICKETING_BOOTSTRAP and TICKETING_JOIN are both given"},
		"two; a marker":       {env: []string{seat2, bootstrap, join}, kept: marked, refused: "both given"},
		"two; a standalone's": {env: []string{seat2, bootstrap, join}, kept: keptState{alone: true}, refused: "standalone"},
		"two, both ended":     {env: []string{seat2, bootstrap, join}, later: credLife, refused: "TICKETING_BOOTSTRAP ended"},
		"two, the bootstrap's end is over": {env: []string{"TICKETING_BOOTSTRAP=" + bootstrapText(t, func(c *auth.BootstrapCredential) { c.NotAfterMillis = startMillis + 1 }), join, "TICKETING_PEERS=n1:5325"},
			later: 1, want: "join domain d1 seat 3 at n7:5325, looks at n1:5325", noted: []string{"TICKETING_BOOTSTRAP ended"}},

		"wrong secret, bootstrap": {env: elsewhere(bootstrap), refused: "TICKETING_BOOTSTRAP: bootstrap credential: credential made with another cluster secret"},
		"wrong secret, join":      {env: elsewhere(join), refused: "TICKETING_JOIN: join credential: credential made with another cluster secret"},
		"wrong secret, and a marker": {env: elsewhere(bootstrap), kept: marked, want: rejoinOf3,
			noted: []string{"TICKETING_BOOTSTRAP counts as not given: bootstrap credential: credential made with another"}},
		"the second secret": {env: []string{"-", "TICKETING_PEER_LISTEN=127.0.0.1:5325", rotated, seat2, bootstrap}, want: bootstrapOf2},
		"an altered one":    {env: []string{seat2, strings.Replace(bootstrap, "tkb1.", "tkb1.A", 1)}, refused: "TICKETING_BOOTSTRAP: bootstrap credential"},
		"cut short":         {env: []string{join[:len(join)-2]}, refused: "TICKETING_JOIN: join credential: malformed credential"},
	} {
		test.check(t, name)
	}
}

func TestStartAgainstTheEnvironment(t *testing.T) {
	bootstrap, join := "TICKETING_BOOTSTRAP="+bootstrapText(t, nil), "TICKETING_JOIN="+joinText(t, nil)
	const at2, at3 = "TICKETING_PEER_ADVERTISE=n2:5325", "TICKETING_PEER_ADVERTISE=n3:5325"
	five := "TICKETING_BOOTSTRAP=" + bootstrapText(t, func(c *auth.BootstrapCredential) {
		c.Seats = append(c.Seats, auth.CredentialSeat{Seat: 4, PeerAddr: "n4:1"}, auth.CredentialSeat{Seat: 5, PeerAddr: "n5:1"})
	})
	marked := keptState{marker: lifeIn(newDomain)}
	joinOf7 := "join domain d1 seat 3 at n7:5325, looks at n1:5325"
	for name, test := range map[string]startTest{
		"bootstrap without a seat":       {env: []string{bootstrap}, refused: "TICKETING_SEAT: required with TICKETING_BOOTSTRAP: a number from 1 to 3"},
		"a seat beyond the credential's": {env: []string{"TICKETING_SEAT=4", bootstrap}, refused: `TICKETING_SEAT="4": the credential in TICKETING_BOOTSTRAP has the seats 1 to 3`},
		"the fifth of five": {env: []string{"TICKETING_SEAT=5", five}, want: "bootstrap domain d1 seat 5 at n5:1, looks at n1:5325 n2:5325 n3:5325 n4:1",
			noted: []string{`TICKETING_PEER_LISTEN="127.0.0.1:5325": the credential says that the other nodes reach this one at "n5:1", where it does not listen: they will not find it; listen there, or make another credential, for all first nodes (ticketing cluster init --seat 5=HOST:PORT ...)`}},
		"a port that is forwarded": {env: []string{"TICKETING_SEAT=5", five, "TICKETING_PEER_ADVERTISE=n5:1"}, want: "bootstrap domain d1 seat 5 at n5:1, looks at n1:5325 n2:5325 n3:5325 n4:1"},
		"another port in the environment": {env: []string{"-", "TICKETING_PEER_LISTEN=:5326", "TICKETING_CLUSTER_SECRET=" + clusterSecret}, kept: marked, want: rejoinOf3,
			noted: []string{`TICKETING_PEER_LISTEN=":5326": the marker says that the other nodes reach this one at "n3:5325"`}},
		"bootstrap at its address":        {env: []string{"TICKETING_SEAT=2", bootstrap, at2}, want: bootstrapOf2},
		"bootstrap at another address":    {env: []string{"TICKETING_SEAT=2", bootstrap, at3}, refused: `TICKETING_PEER_ADVERTISE="n3:5325": the credential says that the other nodes reach this one at "n2:5325"`},
		"join at its address":             {env: []string{join, "TICKETING_PEER_ADVERTISE=n7:5325", "TICKETING_PEERS=n1:5325"}, want: joinOf7},
		"join at another address":         {env: []string{join, at3, "TICKETING_PEERS=n1:5325"}, refused: `at "n7:5325"`},
		"join at another, with a marker":  {env: []string{join, at3}, kept: marked, refused: `at "n7:5325"`},
		"rejoin at its address":           {env: []string{at3}, kept: marked, want: rejoinOf3},
		"rejoin at another address":       {env: []string{at2}, kept: marked, refused: `the marker says that the other nodes reach this one at "n3:5325"; take the variable away, or replace the seat under its new address (ticketing cluster replace --seat 3 --peer-addr n2:5325)`},
		"join with a seat of a bootstrap": {env: []string{"TICKETING_SEAT=1", join, "TICKETING_PEERS=n1:5325"}, want: joinOf7, noted: []string{"TICKETING_SEAT=1 counts at a bootstrap only: the credential says that this node's seat is 3"}},
		"join with its own seat":          {env: []string{"TICKETING_SEAT=3", join, "TICKETING_PEERS=n1:5325"}, want: joinOf7},
		"a floor of a standalone server":  {env: []string{"TICKETING_TOKEN_FLOOR=9"}, kept: marked, want: rejoinOf3, noted: []string{"ticketing cluster init --token-floor"}},

		"a RAM file system":                        {env: []string{"TICKETING_SEAT=2", bootstrap}, ramDisk: "tmpfs", refused: "lies on a RAM file system (tmpfs)"},
		"a RAM file system, and a marker":          {kept: marked, ramDisk: "ramfs", refused: "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes"},
		"a RAM file system, allowed":               {env: []string{"TICKETING_SEAT=2", bootstrap, "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes"}, ramDisk: "tmpfs", want: bootstrapOf2},
		"a RAM file system of a standalone server": {env: []string{"-"}, ramDisk: "tmpfs", want: "standalone"},
	} {
		test.check(t, name)
	}
}

// A marker makes a node, and what it lacks is said at once.
func TestStartOfANodeWithoutItsEnvironment(t *testing.T) {
	_, err := startTest{env: []string{"-"}, kept: keptState{marker: lifeIn(newDomain)}, ramDisk: "tmpfs"}.decide(t, "")
	problems := problemsOf(t, err)
	want := []string{"TICKETING_PEER_LISTEN: required", "TICKETING_CLUSTER_SECRET: required", "RAM file system", "holds the marker of a node"}
	if len(problems) != len(want) || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(strings.Join(problems, "\n"), w) }) {
		t.Errorf("%q; want %q", problems, want)
	}
}

// Where a node listens is compared with where the others reach it, as far as that is sure.
func TestElsewhere(t *testing.T) {
	for _, test := range []struct {
		listen, addr string
		want         bool
	}{
		{"10.0.0.1:5325", "10.0.0.1:5325", false},
		{"10.0.0.1:5326", "10.0.0.1:5325", true},
		{"10.0.0.1:5325", "10.0.0.2:5325", true},
		{"127.0.0.1:5325", "10.0.0.2:5325", true},
		{"0.0.0.0:5325", "10.0.0.2:5325", false},
		{"[::]:5325", "10.0.0.2:5325", false},
		{":5325", "10.0.0.2:5325", false},
		{":5326", "n2:5325", true},
		{"10.0.0.1:5325", "n2:5325", false},
		{"n1:5325", "10.0.0.2:5325", false},
		{"[::ffff:10.0.0.1]:5325", "10.0.0.1:5325", false},
		{"127.0.0.1:0", "127.0.0.1:5325", false},
	} {
		if got := elsewhere(test.listen, test.addr); got != test.want {
			t.Errorf("listening on %s, reached at %s: %v", test.listen, test.addr, got)
		}
	}
}

func TestStartKnowsItsCredential(t *testing.T) {
	secrets := testSecrets(t, clusterSecret)
	text := bootstrapText(t, nil)
	_, id, err := auth.ParseBootstrap(secrets, text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := startTest{env: []string{"TICKETING_SEAT=1", "TICKETING_BOOTSTRAP=" + text}, kept: keptState{marker: lifeIn(oldDomain)}}.decide(t, "bootstrap")
	if err != nil || d.credential != raft.CredentialID(id) || d.credentialEnd != startMillis+credLife || d.bootstrap.TokenBase != 77 || !d.marker.equal(lifeIn(oldDomain)) {
		t.Errorf("bootstrap: %+v, %v", d, err)
	}
	text = joinText(t, nil)
	if _, id, err = auth.ParseJoin(secrets, text); err != nil {
		t.Fatal(err)
	}
	d, err = startTest{env: []string{"TICKETING_JOIN=" + text, "TICKETING_PEERS=n1:5325"}}.decide(t, "join")
	if err != nil || d.credential != raft.CredentialID(id) || d.credentialEnd != startMillis+credLife || d.join.NodeID != 7 || d.marker != nil {
		t.Errorf("join: %+v, %v", d, err)
	}
	d, err = startTest{kept: keptState{marker: lifeIn(newDomain)}}.decide(t, "rejoin")
	if err != nil || d.credential != (raft.CredentialID{}) || d.credentialEnd != 5 || !d.marker.opened {
		t.Errorf("rejoin: %+v, %v", d, err)
	}
}

// planStart on real directories.
func TestPlanStart(t *testing.T) {
	node := func(dir string, more ...string) *Config {
		env := append([]string{"TICKETING_STATE_DIR=" + dir, "TICKETING_PEER_LISTEN=127.0.0.1:5325", "TICKETING_CLUSTER_SECRET=" + clusterSecret,
			"TICKETING_ALLOW_VOLATILE_STATE_DIR=yes"}, more...)
		c, err := configFromEnv(env, secretFiles(nil))
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	alone := DefaultConfig()
	if d, m, err := planStart(&alone, nil, startMillis); err != nil || d.mode != startAlone || m != nil {
		t.Errorf("no state directory: %v, %v", d.mode, err)
	}
	state := openTestState(t, t.TempDir())
	if d, m, err := planStart(&alone, state, startMillis); err != nil || d.mode != startAlone || m != nil {
		t.Errorf("an empty one: %v, %v", d.mode, err)
	}
	first := node(state.dir, "TICKETING_SEAT=2", "TICKETING_BOOTSTRAP="+bootstrapText(t, nil))
	d, m, err := planStart(first, state, startMillis)
	if err != nil || startText(d) != bootstrapOf2 {
		t.Fatalf("a first start: %s, %v", startText(d), err)
	}
	if found, ok := m.read(); ok {
		t.Errorf("a marker before the first promise: %+v", found)
	}
	if err := m.enter(newLife{domain: d.domain, seat: d.seat, self: raft.Member{NodeID: 2, Incarnation: raft.Incarnation{1}}, peerAddr: d.peerAddr, peers: d.lookAt,
		credentialEnd: d.credentialEnd}); err != nil {
		t.Fatal(err)
	}
	// The same environment, and then a standalone server's.
	if d, _, err := planStart(first, state, startMillis); err != nil || startText(d) != "rejoin domain d1 seat 2 at n2:5325, looks at n1:5325 n3:5325" {
		t.Errorf("the second start: %s, %v", startText(d), err)
	}
	if d, _, err := planStart(&alone, state, startMillis); ExitCode(err) != exitConfig {
		t.Errorf("a standalone server on a marker: %v, %v", d.mode, err)
	}

	// A standalone server's file is no directory for a node.
	served := openTestState(t, t.TempDir())
	if err := served.write(exampleState(), 1); err != nil {
		t.Fatal(err)
	}
	if d, _, err := planStart(&alone, served, startMillis); err != nil || d.mode != startAlone {
		t.Errorf("a standalone server again: %v, %v", d.mode, err)
	}
	if d, _, err := planStart(node(served.dir, "TICKETING_SEAT=1"), served, startMillis); ExitCode(err) != exitConfig {
		t.Errorf("a node on a standalone server's file: %v, %v", d.mode, err)
	}
}
