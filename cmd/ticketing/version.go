package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker (-X main.version=...); empty in a plain go build.
var version, commit string

// build says what this binary is.
type build struct {
	Version   string   `json:"version"`
	Commit    string   `json:"commit"`
	Go        string   `json:"go"`
	Platform  string   `json:"platform"`
	Protocols []string `json:"protocols"`
}

// thisBuild prefers the linker's stamps; without them it reads what the go command recorded.
func thisBuild() build {
	b := build{version, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, []string{"v1", "v0"}}
	info, ok := debug.ReadBuildInfo()
	if b.Version == "" {
		b.Version = "devel"
		if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if b.Commit == "" {
		b.Commit = "unknown"
		if ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					b.Commit = s.Value
				}
			}
		}
	}
	return b
}

func versionCommand() *command {
	c := &command{
		name:    "version",
		summary: "version, commit, Go version and protocol versions",
		exits:   []string{"0 done"},
		example: "ticketing version",
		flags:   newFlags("version"),
	}
	asJSON := c.flags.Bool("json", false, "print JSON")
	c.run = func(p *process, args arguments) error {
		if err := noArguments(args); err != nil {
			return err
		}
		b := thisBuild()
		if *asJSON {
			return writeJSON(p.stdout, b)
		}
		_, err := fmt.Fprintf(p.stdout, "ticketing %s\ncommit     %s\ngo         %s %s\nprotocols  v1, v0\n", b.Version, b.Commit, b.Go, b.Platform)
		return err
	}
	return c
}
