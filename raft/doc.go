// Package raft is consensus for a cluster whose members keep everything in memory: Raft as a pure, deterministic state
// machine. Its inputs are ticks, messages, proposals and hints; its only output is Ready. It has no goroutine, clock,
// socket, log or global, and all of its randomness comes from one injected generator, so that whole clusters run in one
// goroutine from a seed (package rafttest).
//
// # The driver in ten lines
//
//	n, err := raft.New(cfg)
//	for {
//		n.Tick(wall) / n.Step(&msg) / n.Propose(cmd) / ...    // any number of inputs
//		for n.HasReady() {
//			rd := n.Ready()             // no input from here to Advance
//			react(rd.State)             // a step-down first of all
//			encode(rd.Messages)         // they alias the core's memory
//			settle(rd.Installed)        // proposals whose fate is unknown
//			apply(rd.Committed, rd.Lost)
//			n.Advance()
//		}
//	}
package raft
