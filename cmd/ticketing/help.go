package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// command is one subcommand: how it is called, and what help says of it.
type command struct {
	name    string
	args    string // behind the name in the usage line
	summary string // one line
	details string // paragraphs, without a trailing newline
	environ []string
	exits   []string
	example string
	flags   *flag.FlagSet
	run     func(*process, arguments) error
}

// commands returns new commands, with their flags at the defaults, in the order in which help lists them.
func commands() []*command {
	list := []*command{
		serverCommand(), lockCommand(), acquireCommand(), releaseCommand(), statusCommand(), keysCommand(),
	}
	list = append(list, clusterCommands()...)
	return append(list, benchCommand(), genTokenCommand(), versionCommand(), helpCommand())
}

// later reports whether the command belongs to a later version.
func later(name string) bool { return name == "demo" }

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}

func findCommand(list []*command, name string) *command {
	for _, c := range list {
		if c.name == name {
			return c
		}
	}
	return nil
}

func helpCommand() *command {
	return &command{
		name:    "help",
		args:    "[COMMAND]",
		summary: "what a command does, its flags, environment and exit codes",
		example: "ticketing help lock",
		exits:   []string{"0 done", "64 usage"},
		flags:   newFlags("help"),
		run:     runHelp,
	}
}

func runHelp(p *process, args arguments) error {
	names := args.all()
	if len(names) == 0 {
		overview(p.stdout)
		return nil
	}
	if names[0] == "cluster" && len(names) == 1 {
		for _, c := range clusterCommands() {
			c.describe(p.stdout)
			fmt.Fprintln(p.stdout)
		}
		return nil
	}
	if names[0] == "cluster" {
		names = []string{names[0] + " " + names[1]}
	}
	for _, name := range names {
		c := findCommand(commands(), name)
		if c == nil {
			return usageError("unknown command %q%s: ticketing help lists them", name, hint(name, commandNames(), ""))
		}
		c.describe(p.stdout)
	}
	return nil
}

func overview(w io.Writer) {
	fmt.Fprint(w, "ticketing: distributed locks with leases, FIFO queues and fencing tokens\n\n",
		"Usage: ticketing [COMMAND] [FLAGS] [ARGUMENTS]\n\nWithout a command the server runs.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(t, "  %s\t%s\n", c.name, c.summary)
	}
	t.Flush()
	fmt.Fprint(w, "\nticketing help COMMAND shows flags, environment, exit codes and an example.\n")
}

// describe writes the help page of the command.
func (c *command) describe(w io.Writer) {
	fmt.Fprintf(w, "Usage: ticketing %s\n\n", strings.TrimSpace(c.name+" "+c.args))
	fmt.Fprintf(w, "%s.\n", strings.ToUpper(c.summary[:1])+c.summary[1:])
	if c.details != "" {
		fmt.Fprintf(w, "\n%s\n", c.details)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(flagNames(c.flags)) > 0 {
		fmt.Fprint(w, "\nFlags:\n")
	}
	c.flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		switch f.DefValue {
		case "", "0", "0s", "false":
		default:
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(t, "  --%s\t%s\n", strings.TrimSpace(f.Name+" "+value), usage)
	})
	t.Flush()
	section(w, "Environment", c.environ)
	section(w, "Exit codes", c.exits)
	fmt.Fprintf(w, "\nExample:\n  %s\n", strings.ReplaceAll(c.example, "\n", "\n  "))
}

// section writes lines of "word explanation" under a title.
func section(w io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s:\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		fmt.Fprintf(t, "  %s\t%s\n", word, rest)
	}
	t.Flush()
}

// hiddenCommands are started by other commands, as processes of their own. Help does not list them.
func hiddenCommands() map[string]func(*process, []string) error {
	return map[string]func(*process, []string) error{"bench-echo": runEchoServer, "lock-guard": runGuard, "lock-launch": runLaunch}
}
