// Package fencetest tests package fence on a real PostgreSQL. It is a module of its own, so that nobody who uses the
// client downloads a driver. README.md of the folder above says how to run it.
package fencetest
