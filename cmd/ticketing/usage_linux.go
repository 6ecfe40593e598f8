package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of processor times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const clockTick = time.Second / 100

// readUsage reads what this process, the processes that it started and the whole machine have used so far.
func readUsage(children ...*child) usage {
	u := usage{own: processorTime(os.Getpid()), machine: machineTime()}
	for _, c := range children {
		if c != nil {
			u.server += processorTime(c.pid())
		}
	}
	return u
}

// processorTime is user and system time of a process, 0 if it is not there.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the command in parentheses, which may hold spaces; utime and stime are 14 and 15.
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	return sumTicks(fields[11:13])
}

// machineTime is the time in which the processors did something: user, nice, system, irq, softirq.
func machineTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(first)
	if len(f) < 8 {
		return 0
	}
	return sumTicks(append(f[1:4:4], f[6:8]...))
}

func sumTicks(fields []string) time.Duration {
	var sum time.Duration
	for _, f := range fields {
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n) * clockTick
	}
	return sum
}

// residentBytes returns the resident memory of a process, now and at its peak.
func residentBytes(pid int) (now, peak int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		kib, _ := strconv.ParseInt(f[0], 10, 64)
		switch name {
		case "VmRSS":
			now = kib << 10
		case "VmHWM":
			peak = kib << 10
		}
	}
	return now, peak
}

// machineName names processors and kernel.
func machineName() string {
	model := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	var u unix.Utsname
	unix.Uname(&u)
	return fmt.Sprintf("%d x %s, Linux %s, %s", runtime.NumCPU(), model, unix.ByteSliceToString(u.Release[:]), runtime.Version())
}
