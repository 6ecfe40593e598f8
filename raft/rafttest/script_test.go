package rafttest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ticketing.internal/raft"
)

var rewriteFlag = flag.Bool("rewrite", false, "TestScripts writes the transcripts anew")

// TestScripts runs the transcripts in testdata: lines that begin with "> " are commands, the lines behind each are what
// happened. With -rewrite they are written anew; read the difference before it is committed.
//
//	nodes N             voters n1..nN, none of which has heard of a leader; tick and heartbeat 100 ms, election 500 ms
//	open N              n becomes the leader of term 1, and the domain is open (nothing is printed)
//	tick A B .. xK      K ticks of each, in turn; "all" is everybody
//	timeout A B ..      ticks of these until each stands for election
//	deliver [A->B ..]   what is on its way arrives, and what that causes; with pairs, only what is on its way between them;
//	                    A>>B is the first of it alone
//	drop [A->B ..]      what is on its way is lost
//	run K               K times: tick all, deliver
//	cut A B | isolate A | heal    links, in both directions
//	crash A             its connections end: followers get the hint
//	messages on|off     print what arrives
//	grant A KEY | fill A K        proposals: a Grant; K commands of 24 KiB
//	transfer A [B]      leadership
//	prepare A SEAT | admit A N | abort A | rejoin A SEAT    control requests at A; admit starts node N as a learner
//	status [A ..] | log A         what a node says of itself
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := transcribe(t, string(want))
			if *rewriteFlag {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareLines(t, got, string(want))
		})
	}
}

func compareLines(t *testing.T, got, want string) {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			line := func(l []string) string {
				if i < len(l) {
					return l[i]
				}
				return "(the end)"
			}
			t.Fatalf("line %d: got %q, want %q", i+1, line(g), line(w))
		}
	}
}

// transcribe runs the commands of a transcript and returns it with what happened now.
func transcribe(t *testing.T, text string) string {
	s := &script{t: t}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			s.out.WriteString(line + "\n")
			s.run(strings.Fields(line[2:]))
		case line == "" || strings.HasPrefix(line, "#"):
			s.out.WriteString(line + "\n")
		}
	}
	return strings.TrimRight(s.out.String(), "\n") + "\n"
}

func (s *script) run(words []string) {
	command, args := words[0], words[1:]
	switch command {
	case "nodes":
		s.begin(s.number(args[0]))
	case "open":
		s.open(s.node(args[0]))
	case "tick":
		times := 1
		if last := args[len(args)-1]; last[0] == 'x' {
			times, args = s.number(last[1:]), args[:len(args)-1]
		}
		for range times {
			s.tick(s.these(args))
		}
	case "timeout":
		s.timeout(s.these(args))
	case "deliver":
		s.deliver(args)
	case "drop":
		s.take(args)
	case "run":
		for range s.number(args[0]) {
			s.tick(s.these([]string{"all"}))
			s.deliver(nil)
		}
	case "cut":
		s.cut(func(a, b int) bool { return a == s.number(args[0]) && b == s.number(args[1]) })
	case "isolate":
		s.cut(func(a, _ int) bool { return a == s.number(args[0]) })
	case "heal":
		s.cuts = nil
	case "crash":
		s.crash(s.node(args[0]))
	case "messages":
		s.messages = args[0] == "on"
	case "grant":
		s.propose(s.node(args[0]), grantCommand(args[1]))
	case "fill":
		for range s.number(args[1]) {
			s.propose(s.node(args[0]), append([]byte{tagFiller}, make([]byte, 24<<10)...))
		}
	case "transfer":
		s.transfer(s.node(args[0]), args[1:])
	case "prepare", "admit", "abort", "rejoin":
		s.control(s.node(args[0]), command, args[1:])
	case "status":
		for _, n := range s.these(args) {
			s.printf("%v", describeStatus(n.Status()))
		}
	case "log":
		s.printLog(s.node(args[0]))
	default:
		s.t.Fatalf("unknown command %q", command)
	}
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatalf("%q: %v", text, err)
	}
	return n
}

func (s *script) node(text string) *scriptNode {
	for _, n := range s.nodes {
		if n.number == s.number(text) && !n.down {
			return n
		}
	}
	s.t.Fatalf("no node %s", text)
	return nil
}

// these are the nodes named; none or "all": every one.
func (s *script) these(names []string) (nodes []*scriptNode) {
	if len(names) > 0 && names[0] != "all" {
		for _, name := range names {
			nodes = append(nodes, s.node(name))
		}
		return nodes
	}
	for _, n := range s.nodes {
		if !n.down {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (s *script) printf(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(&s.out, format+"\n", args...)
	}
}

func name(m raft.Member) string { return fmt.Sprint("n", m.NodeID) }

func names(members []raft.Member) string {
	text := make([]string, len(members))
	for i, m := range members {
		text[i] = name(m)
	}
	return strings.Join(text, " ")
}
