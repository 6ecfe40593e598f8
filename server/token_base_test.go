package server

import "testing"

func TestTokenBase(t *testing.T) {
	for name, test := range map[string]struct {
		unixMillis      int64
		floor, reserved uint64
		want            uint64
		fails           bool
	}{
		"the clock decides":               {tokenEpochMillis + 3, 0, 0, 3 << 14, false},
		"the first instant of 2026":       {tokenEpochMillis, 0, 0, 0, false},
		"the floor is higher":             {tokenEpochMillis + 3, 1 << 30, 5, 1 << 30, false},
		"the reservation is higher":       {tokenEpochMillis + 3, 5, 1 << 31, 1 << 31, false},
		"before 2026":                     {tokenEpochMillis - 1, 0, 0, 0, true},
		"before 2026, with a reservation": {0, 0, 1 << 40, 0, true},
		"before 2026, with a floor":       {0, 7, 0, 7, false},
		"before 2026, both":               {-5, 7, 1 << 40, 1 << 40, false},
		"a clock far in the future":       {tokenEpochMillis + 1<<48, 0, 0, 0, true},
		"a floor that is too high":        {tokenEpochMillis, maxTokenBase + 1, 0, 0, true},
		"a reservation that is too high":  {tokenEpochMillis, 0, maxTokenBase + 1, 0, true},
		"the highest":                     {tokenEpochMillis, maxTokenBase, 0, maxTokenBase, false},
	} {
		got, err := tokenBase(test.unixMillis, test.floor, test.reserved)
		if got != test.want || (err != nil) != test.fails || test.fails && ExitCode(err) != exitConfig {
			t.Errorf("%s: %d, %v; want %d", name, got, err, test.want)
		}
	}
}
