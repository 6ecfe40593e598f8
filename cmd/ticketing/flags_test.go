package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseFlags(t *testing.T) {
	type values struct {
		wait  time.Duration
		force bool
		addrs string
	}
	cases := []struct {
		name   string
		args   string // words with spaces between them
		want   values
		before string
		after  string
		err    string
	}{
		{name: "nothing"},
		{name: "flags ahead", args: "--wait 2s --force k", want: values{wait: 2 * time.Second, force: true}, before: "k"},
		{name: "flags behind", args: "k --force --wait=2s", want: values{wait: 2 * time.Second, force: true}, before: "k"},
		{name: "one dash", args: "-wait 2s k", want: values{wait: 2 * time.Second}, before: "k"},
		{name: "a bool takes no word", args: "--force k", want: values{force: true}, before: "k"},
		{name: "a bool with a value", args: "--force=false k", before: "k"},
		{name: "repeated", args: "--addr a:1 --addr b:2,c:3", want: values{addrs: "a:1,b:2,c:3"}},
		{name: "behind the dashes nothing is a flag", args: "k -- cmd --force -x", before: "k", after: "cmd --force -x"},
		{name: "second dashes", args: "k -- cmd -- x", before: "k", after: "cmd -- x"},
		{name: "a dash alone", args: "- k", before: "- k"},
		{name: "unknown", args: "k --forse", err: `unknown flag "--forse" (did you mean --force?)`},
		{name: "unknown and far", args: "--zzzzzz", err: `unknown flag "--zzzzzz": ticketing help x lists them`},
		{name: "no value", args: "--wait", err: "--wait needs a value"},
		{name: "bad value", args: "--wait soon", err: `--wait "soon": want a duration with its unit, such as`},
		{name: "bad bool", args: "--force=perhaps", err: `--force "perhaps"`},
		{name: "empty element", args: "--addr a,,b", err: "--addr"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got values
			var addrs listFlag
			fs := newFlags("x")
			fs.DurationVar(&got.wait, "wait", 0, "`duration` to wait")
			fs.BoolVar(&got.force, "force", false, "")
			fs.Var(&addrs, "addr", "`address`")
			args, err := parseFlags(fs, strings.Fields(c.args))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || exitCode(err) != exitUsage {
					t.Fatalf("error %v (exit %d), want %q", err, exitCode(err), c.err)
				}
				return
			}
			got.addrs = addrs.String()
			if err != nil || got != c.want ||
				!slices.Equal(args.before, strings.Fields(c.before)) || !slices.Equal(args.after, strings.Fields(c.after)) {
				t.Errorf("values %+v, arguments %+v, error %v", got, args, err)
			}
		})
	}
	if _, err := parseFlags(newFlags("x"), []string{"k", "--help"}); !errors.Is(err, errHelp) {
		t.Errorf("--help gives %v", err)
	}
}

func TestHint(t *testing.T) {
	for name, want := range map[string]string{
		"realese": " (did you mean release?)",
		"x":       "",
		"foobar":  "",
	} {
		if got := hint(name, []string{"release", "status", "lock"}, ""); got != want {
			t.Errorf("hint for %q: %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"lock", "lock", 0}, {"lock", "look", 1}, {"kitten", "sitting", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
