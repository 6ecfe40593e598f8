package interop

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// published is a client that others published, and how to run its driver.
type published struct {
	name      string
	installed string   // a path in the folder that `install` filled
	command   []string // what has the prefix "./" is in that folder too
}

func publishedClients() []published {
	return []published{
		{"npm", "npm/node_modules/saro-ticketing", []string{"node", "./npm/driver.mjs"}},
		{"python", "python/saro_ticketing", []string{"python3", "./python/driver.py"}},
		{"rust", "rust/debug/driver", []string{"./rust/debug/driver"}},
	}
}

// forEachClient runs test once with each client, and skips those that are not installed.
func forEachClient(t *testing.T, test func(t *testing.T, p published)) {
	for _, p := range publishedClients() {
		t.Run(p.name, func(t *testing.T) {
			if !p.isInstalled() {
				t.Skipf("the published client for %s is not installed: run make interop, on a machine that has %s", p.name, p.name)
			}
			test(t, p)
		})
	}
}

func (p published) isInstalled() bool {
	_, err := os.Stat(filepath.Join(os.Getenv(dirVariable), p.installed))
	return os.Getenv(dirVariable) != "" && err == nil
}

// failed is the kind of error that a published client gave.
type failed string

func (f failed) Error() string { return "the published client says: " + string(f) }

const (
	timedOut     = failed("timeout")
	notConnected = failed("not_connected")
)

// driver is a process that runs a published client.
type driver struct {
	cmd *exec.Cmd
	in  io.Writer

	mu      sync.Mutex
	asked   int
	answers map[string]chan string // by the id of the request
}

// start starts the driver with the servers at addrs, comma-separated. It is killed when the test ends.
func (p published) start(t *testing.T, addrs, token, ca string) *driver {
	t.Helper()
	dir := os.Getenv(dirVariable)
	var args []string
	for _, a := range append(p.command, addrs, token, ca) {
		if rest, ok := strings.CutPrefix(a, "./"); ok {
			a = filepath.Join(dir, rest)
		}
		args = append(args, a)
	}
	d := &driver{cmd: exec.Command(args[0], args[1:]...), answers: map[string]chan string{}}
	d.cmd.Stderr = os.Stderr
	in, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.in = in
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.read(out)
		d.cmd.Wait()
	}()
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-done
	})
	return d
}

// startReady starts the driver and waits until it is connected.
func (p published) startReady(t *testing.T, s *server) *driver {
	t.Helper()
	d := p.start(t, s.addr, testToken, "")
	if !d.ready(int(testTime.Seconds())) {
		t.Fatalf("%s does not connect\n%s", p.name, s.log())
	}
	return d
}

func (d *driver) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		id, outcome, _ := strings.Cut(lines.Text(), " ")
		d.mu.Lock()
		answer := d.answers[id]
		d.mu.Unlock()
		if answer != nil {
			answer <- outcome
		}
	}
}

// ask sends a request and returns its id and what came of it. want is the word of success.
func (d *driver) ask(want, op string, words ...string) (id, outcome string, err error) {
	answer := make(chan string, 1)
	d.mu.Lock()
	d.asked++
	id = strconv.Itoa(d.asked)
	d.answers[id] = answer
	_, err = fmt.Fprintln(d.in, strings.Join(append([]string{op, id}, words...), " "))
	d.mu.Unlock()
	if err != nil {
		return id, "", fmt.Errorf("asking the driver: %w", err)
	}
	select {
	case line := <-answer:
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case want:
			return id, rest, nil
		case "failed":
			return id, "", failed(rest)
		}
		return id, "", fmt.Errorf("the driver answers %q to %s", line, op)
	case <-time.After(2 * testTime):
		return id, "", fmt.Errorf("the driver does not answer to %s %v", op, words)
	}
}

func (d *driver) ready(seconds int) bool {
	_, outcome, err := d.ask("ready", "ready", strconv.Itoa(seconds))
	return err == nil && outcome == "true"
}

func (d *driver) acquire(key string, wait, lease int) (grant, error) {
	id, token, err := d.ask("granted", "acquire", strconv.Itoa(wait), strconv.Itoa(lease), key)
	if err != nil {
		return grant{}, err
	}
	n, err := strconv.ParseUint(token, 10, 64)
	return grant{token: n, release: func() (bool, error) {
		_, outcome, err := d.ask("released", "release", id)
		return outcome == "true", err
	}}, err
}
