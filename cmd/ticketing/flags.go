package main

import (
	"errors"
	"flag"
	"io"
	"strings"
)

var errHelp = errors.New("help was asked for")

// arguments are what a command line holds beside flags.
type arguments struct {
	before []string // before a "--"
	after  []string // after it
}

// all returns the positional arguments of a command to which "--" only ends the flags.
func (a *arguments) all() []string { return append(append([]string(nil), a.before...), a.after...) }

// noArguments refuses positional arguments, for a command that takes none.
func noArguments(args arguments) error {
	if len(args.all()) > 0 {
		return usageError("takes no arguments, only flags")
	}
	return nil
}

// newFlags returns an empty set of flags for the command. It prints nothing by itself: parseFlags returns errors.
func newFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// parseFlags sets the flags in args, wherever they stand ahead of a "--", and returns the rest. Package flag
// stops at the first positional argument, so that `release KEY --force` would ignore the flag.
func parseFlags(fs *flag.FlagSet, args []string) (arguments, error) {
	var rest arguments
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			rest.after = args
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest.before = append(rest.before, arg)
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		f := fs.Lookup(name)
		if f == nil {
			if name == "h" || name == "help" {
				return rest, errHelp
			}
			return rest, usageError("unknown flag %q%s: ticketing help %s lists them", arg, hint(name, flagNames(fs), "--"), fs.Name())
		}
		switch b, ok := f.Value.(interface{ IsBoolFlag() bool }); {
		case given:
		case ok && b.IsBoolFlag():
			value = "true"
		case len(args) == 0:
			return rest, usageError("--%s needs a value", name)
		default:
			value, args = args[0], args[1:]
		}
		if err := fs.Set(name, value); err != nil {
			if exitCode(err) == exitUsage { // the value knows better than its name
				return rest, usageError("--%s %q: %v", name, value, err)
			}
			want, _ := flag.UnquoteUsage(f)
			if want == "duration" {
				want = "duration with its unit, such as 500ms, 30s or 1m30s"
			}
			if getter, ok := f.Value.(flag.Getter); ok {
				switch getter.Get().(type) {
				case int, uint64:
					want = "number"
				}
			}
			if want != strings.ToUpper(want) { // a word, and no picture of the value
				want = "a " + want
			}
			return rest, usageError("--%s %q: want %s", name, value, want)
		}
	}
	return rest, nil
}

func flagNames(fs *flag.FlagSet) []string {
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// listFlag collects a flag that may be repeated, or hold several values with commas between them.
type listFlag []string

// String returns the values as one.
func (l *listFlag) String() string { return strings.Join(*l, ",") }

// Set adds the values in s.
func (l *listFlag) Set(s string) error {
	for _, v := range strings.Split(s, ",") {
		if v = strings.TrimSpace(v); v == "" {
			return errors.New("an empty value")
		}
		*l = append(*l, v)
	}
	return nil
}

// hint returns ` (did you mean X?)` for the candidate nearest to name, or nothing if none is near.
func hint(name string, candidates []string, prefix string) string {
	best, least := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		if d := editDistance(name, c); d < least {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + prefix + best + "?)"
}

// editDistance returns the number of bytes to insert, delete or replace to turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
