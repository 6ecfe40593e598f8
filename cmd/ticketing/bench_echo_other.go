//go:build !linux

package main

import "errors"

// runEchoServer needs epoll.
func runEchoServer(*process, []string) error {
	return withExit(exitUsage, errors.New("the echo server runs on Linux only: leave --echo away"))
}
