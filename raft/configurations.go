package raft

import "slices"

// configurations are those in the log, oldest first, on top of one at or below its base. A configuration takes effect
// when its entry is appended and is rolled back when the entry is truncated.
type configurations struct {
	stack []configurationAt
}

type configurationAt struct {
	index uint64
	conf  Configuration
}

// current returns the configuration in force and the index of its entry.
func (c *configurations) current() configurationAt { return c.stack[len(c.stack)-1] }

// at returns the configuration in force at index.
func (c *configurations) at(index uint64) configurationAt {
	for i := len(c.stack) - 1; i > 0; i-- {
		if c.stack[i].index <= index {
			return c.stack[i]
		}
	}
	return c.stack[0]
}

func (c *configurations) push(index uint64, conf Configuration) {
	c.stack = append(c.stack, configurationAt{index: index, conf: conf})
}

// truncate removes those whose entries are at index or after it, and reports whether there were any.
func (c *configurations) truncate(index uint64) bool {
	before := len(c.stack)
	for len(c.stack) > 1 && c.current().index >= index {
		c.stack = c.stack[:len(c.stack)-1]
	}
	return len(c.stack) < before
}

// compact forgets those that cannot be asked for any more: before the one in force at index, which is applied.
func (c *configurations) compact(index uint64) {
	drop := 0
	for drop+1 < len(c.stack) && c.stack[drop+1].index <= index {
		drop++
	}
	c.stack = slices.Delete(c.stack, 0, drop)
}

// install makes a snapshot's configuration the only one: the log is empty.
func (c *configurations) install(at configurationAt) { c.stack = append(c.stack[:0], at) }
