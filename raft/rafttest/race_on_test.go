//go:build race

package rafttest

// underRace is true where runs take ten times as long: fewer of them are made.
const underRace = true
