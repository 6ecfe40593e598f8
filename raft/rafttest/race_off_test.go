//go:build !race

package rafttest

const underRace = false
