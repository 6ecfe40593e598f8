package server

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What --check says of a start, of which nothing is done.
func TestCheckOfAStart(t *testing.T) {
	home := t.TempDir()
	in := func(name string) string { return filepath.Join(home, name) }
	write := func(name string, content []byte) string {
		if err := os.Mkdir(in(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(in(name), stateName), content, 0o600); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	marked, alone := write("marked", appendMarker(nil, lifeIn(newDomain))), write("alone", appendState(nil, exampleState()))
	damaged := write("damaged", []byte("nothing that a server wrote"))
	running := openTestState(t, in("running"))
	before := treeOf(t, home)

	node := []string{"TICKETING_PEER_LISTEN=127.0.0.1:5326", "TICKETING_CLUSTER_SECRET=" + clusterSecret, "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes"}
	bootstrap, join := "TICKETING_BOOTSTRAP="+bootstrapText(t, nil), "TICKETING_JOIN="+joinText(t, nil)
	for name, test := range map[string]struct {
		dir         string
		env         []string
		code        int
		says, warns string
	}{
		"standalone, nothing":             {code: exitDone},
		"standalone, a new directory":     {dir: in("new"), code: exitDone},
		"standalone, its directory":       {dir: alone, code: exitDone},
		"a directory in use":              {dir: running.dir, code: exitDone},
		"a parent that is missing":        {dir: in("no/such"), code: exitFailed, says: "the directory above it must exist"},
		"a file":                          {dir: filepath.Join(alone, stateName), code: exitConfig, says: "it must be a directory"},
		"a damaged file":                  {dir: damaged, code: exitConfig, says: "what it said is lost"},
		"standalone on a marker":          {dir: marked, code: exitConfig, says: "holds the marker of a node of a cluster (seat 3)"},
		"a seat, no credential":           {dir: in("new"), env: append(node, "TICKETING_SEAT=1"), code: exitConfig, says: "needs a credential"},
		"a node's first start":            {dir: in("new"), env: append(node, "TICKETING_SEAT=3", bootstrap), code: exitDone, warns: `reach this one at "n3:5325", where it`},
		"a seat that there is not":        {dir: in("new"), env: append(node, "TICKETING_SEAT=4", bootstrap), code: exitConfig, says: "has the seats 1 to 3"},
		"a seat that a credential is not": {dir: in("new"), env: append(node, "TICKETING_SEAT=1", "TICKETING_PEERS=n1:5325", join), code: exitDone, warns: "this node's seat is 3"},
		"a marker":                        {dir: marked, env: append(node, "TICKETING_TOKEN_FLOOR=9"), code: exitDone, warns: "TICKETING_TOKEN_FLOOR=9 has no effect"},
		"a marker, and no rejoin":         {dir: marked, env: append(node, "TICKETING_REJOIN=off"), code: exitConfig, says: "TICKETING_REJOIN=off"},
		"a node on a standalone's":        {dir: alone, env: append(node, "TICKETING_SEAT=1", bootstrap), code: exitConfig, says: "holds the state of a standalone server"},
	} {
		env := slices.Clone(test.env)
		if test.dir != "" {
			env = append(env, "TICKETING_STATE_DIR="+test.dir)
		}
		c, err := configFromEnv(env, secretFiles(nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var shown strings.Builder
		err = c.Describe(&shown, time.UnixMilli(startMillis))
		if ExitCode(err) != test.code || err != nil && !strings.Contains(err.Error(), test.says) || !strings.Contains(shown.String(), test.warns) {
			t.Errorf("%s: exit code %d, %v; want %d, %q and %q\n%s", name, ExitCode(err), err, test.code, test.says, test.warns, shown.String())
		}
	}
	if after := treeOf(t, home); after != before {
		t.Errorf("it has changed what was there:\n%s\nbefore:\n%s", after, before)
	}
	// A start at the same time is not kept from its directory.
	c := DefaultConfig()
	c.StateDir = in("new")
	if err := c.Describe(io.Discard, time.UnixMilli(startMillis)); err != nil {
		t.Fatal(err)
	}
	openTestState(t, c.StateDir)
}

// treeOf lists what is below dir, with sizes and times.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			b.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The peer address of a node is its credential's or its marker's, unless the environment says the same.
func TestCheckShowsTheAddressOfANode(t *testing.T) {
	dir := t.TempDir()
	node := []string{"TICKETING_PEER_LISTEN=127.0.0.1:5326", "TICKETING_CLUSTER_SECRET=" + clusterSecret, "TICKETING_ALLOW_VOLATILE_STATE_DIR=yes",
		"TICKETING_STATE_DIR=" + dir}
	shows := func(want string, more ...string) {
		t.Helper()
		c, err := configFromEnv(append(slices.Clone(node), more...), secretFiles(nil))
		if err != nil {
			t.Fatal(err)
		}
		var shown strings.Builder
		if err := c.Describe(&shown, time.UnixMilli(startMillis)); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(shown.String()), " "); !strings.Contains(text, "TICKETING_PEER_ADVERTISE "+want+" TICKETING_PEERS") {
			t.Errorf("no %q in\n%s", want, shown.String())
		}
	}
	shows("n2:5325 (default)", "TICKETING_SEAT=2", "TICKETING_BOOTSTRAP="+bootstrapText(t, nil))
	shows("n2:5325", "TICKETING_SEAT=2", "TICKETING_BOOTSTRAP="+bootstrapText(t, nil), "TICKETING_PEER_ADVERTISE=n2:5325")
	life := lifeIn(newDomain)
	if err := os.WriteFile(filepath.Join(dir, stateName), appendMarker(nil, life), 0o600); err != nil {
		t.Fatal(err)
	}
	shows(life.peerAddr + " (default)")
}
