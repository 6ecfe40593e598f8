package rafttest

// Shrink leaves out actions of a failing seed's schedule for as long as the same rule is broken (delta debugging), and
// returns the indices of those that are left.
func Shrink(seed uint64, c RunConfig, rule string) []int {
	c.Log = nil
	kept := c.Only
	if kept == nil {
		kept = []int{}
		for i := range drawSchedule(seed, drawOptions(seed)) {
			kept = append(kept, i)
		}
	}
	for size := max(1, len(kept)/2); len(kept) > 0; {
		shorter, found := leaveOut(seed, c, rule, kept, size)
		kept = shorter
		switch {
		case found:
			size = min(size, max(1, len(kept)/2))
		case size == 1:
			return kept
		default:
			size /= 2
		}
	}
	return kept
}

// leaveOut tries to do without size neighbouring actions, at each place.
func leaveOut(seed uint64, c RunConfig, rule string, kept []int, size int) (shorter []int, found bool) {
	for at := 0; at < len(kept); {
		c.Only = append(append([]int{}, kept[:at]...), kept[min(at+size, len(kept)):]...)
		if r := Run(seed, c); r.Failure != nil && r.Failure.Rule == rule {
			kept, found = c.Only, true
			continue
		}
		at += size
	}
	return kept, found
}
