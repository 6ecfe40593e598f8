// Command ticketing is the lock server and its tools: everything that operates or tries a server from a shell.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	p := &process{
		environ: os.Environ(),
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
	}
	os.Exit(p.run(os.Args[1:]))
}

// process is what a command sees of the process that it runs in.
type process struct {
	environ []string // read once, in main, and nowhere else
	stdin   *os.File // handed to children
	stdout  *os.File // what was asked for
	stderr  *os.File // what went wrong, and what happens meanwhile
}

// run runs the command that args name and returns the exit code.
func (p *process) run(args []string) int {
	name, args := commandName(args)
	if hidden, ok := hiddenCommands()[name]; ok {
		return p.report(name, hidden(p, args))
	}
	if later(name) {
		return p.report(name, usageError("not in this version"))
	}
	if name == "cluster help" || name == "cluster" && slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "-help" || a == "--help" }) {
		return p.report("help", runHelp(p, arguments{before: []string{"cluster"}}))
	}
	if name == "cluster" {
		return p.report(name, usageError("what of the cluster? init, status, replace, abort, transfer or can-stop: ticketing help cluster"))
	}
	c := findCommand(commands(), name)
	if c == nil {
		return p.report("", usageError("unknown command %q%s: ticketing help lists them", name, hint(name, commandNames(), "")))
	}
	parsed, err := parseFlags(c.flags, args)
	if errors.Is(err, errHelp) {
		c.describe(p.stdout)
		return exitOK
	}
	if err == nil {
		err = c.run(p, parsed)
	}
	return p.report(name, err)
}

// commandName splits args into the command's name and what is left. Without a name the server is meant.
func commandName(args []string) (string, []string) {
	if len(args) == 0 {
		return "server", nil
	}
	switch first := args[0]; {
	case first == "-h" || first == "-help" || first == "--help":
		return "help", args[1:]
	case first == "-version" || first == "--version":
		return "version", args[1:]
	case len(first) > 0 && first[0] == '-':
		return "server", args
	case first == "cluster" && len(args) > 1 && (len(args[1]) == 0 || args[1][0] != '-'):
		return first + " " + args[1], args[2:]
	}
	return args[0], args[1:]
}

// report writes err for a person and returns the exit code that stands for it.
func (p *process) report(command string, err error) int {
	if err == nil {
		return exitOK
	}
	if message := err.Error(); message != "" {
		writeError(p.stderr, command, message)
	}
	return exitCode(err)
}

func writeError(w io.Writer, command, message string) {
	if command != "" {
		command = " " + command
	}
	fmt.Fprintf(w, "ticketing%s: %s\n", command, message)
}
