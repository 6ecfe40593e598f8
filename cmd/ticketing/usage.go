package main

import "time"

// usage is processor time that was used up to some moment.
type usage struct {
	own     time.Duration // by this process
	server  time.Duration // by the servers that it started
	machine time.Duration // by everything
}

// others returns how many processors other processes kept busy between two readings.
func (u usage) others(before usage, elapsed time.Duration) float64 {
	ours := u.own - before.own + u.server - before.server
	return max(0, cores(u.machine-before.machine-ours, elapsed))
}

func cores(used, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return used.Seconds() / elapsed.Seconds()
}
