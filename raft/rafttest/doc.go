// Package rafttest runs whole clusters of package raft with the real lock table in one goroutine, from one seed.
//
// A run has two phases. In the first anything may happen: messages are lost, doubled, reordered and delayed, links are
// cut in one direction, processes crash (and lose all their state), stop, and run on wrong clocks, voters are replaced
// dead or alive, operators and clients get in each other's way. Every step is checked. In the second phase faults end,
// all that is left of a quorum is healed, and progress is demanded: a leader that serves, equal states, every request
// answered.
//
//	seed ─ options (swarm) ─┐
//	     └ schedule ────────┴─ sim: queue of events ─ network ─ process (driver of raft.Node and lock.Manager)
//	                                                               └ trace, Ready, replies ─ checker
//
// Where to read on:
//
//	run.go        one run from beginning to end        options.go   what a seed draws once
//	schedule.go   actions, and when they happen        directed.go  schedules that aim at one weakness
//	actions.go    what each action does                queue.go     the only order of events
//	network.go    links and packets                    conn.go      handshakes, refusals, connection loss
//	host.go       machines, markers, processes         driver.go    the loop around raft.Node
//	proposals.go  lock.Manager's way into the log      operator.go  control requests, joining, rejoining
//	workload.go   clients                              heal.go      the second phase
//	check*.go     the invariants                       model.go     the naive lock table and registry
//	shrink.go     a shorter schedule, same failure     mutants.go   rules switched off, to prove the checkers
//
// Every random decision comes from a stream named after its purpose, so that one draw more in one place does not shift
// the others; and the schedule is a list, so that a failure can be shrunk by leaving actions out.
package rafttest
