package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ticketing.internal/server"
)

func serverCommand() *command {
	c := &command{
		name:    "server",
		args:    "[--check]",
		summary: "run the server; this is what ticketing without a command does",
		details: `Without any variable it is a standalone server on 127.0.0.1:5225 with an empty token. It takes no other flags:
everything is in the environment, and a variable that begins with TICKETING_ and is not known stops the start.

SIGTERM or SIGINT: no new connection or lock; ends when clients have released what they hold, or after
TICKETING_DRAIN_TIMEOUT. A second one ends at once. SIGHUP: reads certificates and secret files again.`,
		environ: []string{
			"TICKETING_LISTEN client address (default 127.0.0.1:5225)",
			"TICKETING_TOKEN client secret, or several with commas between them (or TICKETING_TOKEN_FILE)",
			"TICKETING_TLS_CERT PEM file; with TICKETING_TLS_KEY",
			"TICKETING_ADMIN_LISTEN address of the admin endpoint (default 127.0.0.1:5425), or off",
			"TICKETING_STATE_DIR folder for what must outlive a restart",
			"TICKETING_LOG_LEVEL debug, info, warn or error (default info)",
			"TICKETING_PEER_LISTEN peer address of a node of a cluster; with TICKETING_CLUSTER_SECRET, TICKETING_BOOTSTRAP and TICKETING_SEAT, or TICKETING_JOIN",
			"... docs/operations.md has them all, also the others of a cluster; --check prints what is in effect",
		},
		exits: []string{"0 stopped as asked; with --check: a start would go ahead, if its ports are free", "1 the start failed, for instance a port is in use",
			"64 usage", "78 configuration, state directory: a restart will not help"},
		example: "TICKETING_LISTEN=10.0.0.1:5225 TICKETING_TOKEN_FILE=/etc/ticketing/token ticketing server",
		flags:   newFlags("server"),
	}
	check := c.flags.Bool("check", false, "print the configuration in effect and the worst-case memory, and do not start")
	c.run = func(p *process, args arguments) error {
		if len(args.all()) > 0 {
			return usageError("unknown command or argument %q: the server is configured by its environment", args.all()[0])
		}
		config, err := server.ConfigFromEnv(p.environ)
		if err != nil {
			return withExit(exitConfig, err)
		}
		config.Version = thisBuild().Version
		if *check {
			if err := config.Describe(p.stdout, time.Now()); err != nil {
				return withExit(server.ExitCode(err), err)
			}
			return nil
		}
		return serve(p, config)
	}
	return c
}

// serve runs the server until a signal ends it.
func serve(p *process, config server.Config) error {
	// If nobody reads the log any more, that must not end the server.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	log := server.NewLogger(p.stderr, config.LogLevel, config.LogFormat)
	s, err := server.New(config, log)
	if err != nil {
		return withExit(server.ExitCode(err), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	for stops := 0; ; {
		select {
		case err := <-ended:
			if err != nil {
				return withExit(server.ExitCode(err), err)
			}
			return nil
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP:
				if err := s.Reload(); err != nil {
					log.Error("reload: what could not be read stays as it was", "error", err)
				} else {
					log.Info("reloaded certificates and secrets")
				}
			case stops == 0:
				stops++
				s.Stop()
			case stops == 1:
				stops++
				s.Kill()
			default: // not even that worked
				return exitWith(exitNegative)
			}
		}
	}
}
