package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// allowedProcessors are those that this thread may run on.
func allowedProcessors() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var cpus []int
	for i := range maxProcessors {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// pinProcess binds every thread of this process, and those that they start, to the processors.
func pinProcess(cpus []int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		if err := pinThread(tid, cpus); err != nil && err != unix.ESRCH {
			return fmt.Errorf("binding to processors %v: %w", cpus, err)
		}
	}
	return nil
}

// pinThread binds one thread, 0 being the caller's.
func pinThread(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	return unix.SchedSetaffinity(tid, &set)
}

// pinnedStart runs start on processors cpus, so that the process that it starts is bound to them. The caller has
// locked its goroutine to its thread.
func pinnedStart(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return os.NewSyscallError("sched_getaffinity", err)
	}
	if err := pinThread(0, cpus); err != nil {
		return fmt.Errorf("binding to processors %v: %w", cpus, err)
	}
	defer unix.SchedSetaffinity(0, &before)
	return start()
}
