package server

import (
	"fmt"
	"time"
)

const (
	tokenEpochMillis = 1_767_225_600_000 // 2026-01-01 UTC
	tokenShift       = 14                // 16,384 tokens for each ms since then
	maxTokenBase     = 1 << 62           // leaves every later token within a signed 64-bit column
)

// MaxTokenFloor is the highest token that an operator can have a domain start above.
const MaxTokenFloor = maxTokenBase

// tokenBase returns the token above which a domain starts: derived from the wall clock (Unix ms), but not below the operator's floor
// or what an earlier process reserved. The error is a *ConfigError.
func tokenBase(unixMillis int64, floor, reserved uint64) (uint64, error) {
	since := unixMillis - tokenEpochMillis
	switch {
	case since < 0 && floor == 0:
		return 0, &ConfigError{Problems: []string{fmt.Sprintf("the clock says %s, which is before 2026: tokens start by the clock; "+
			"set it, or give TICKETING_TOKEN_FLOOR (cluster init: --token-floor) above every token granted so far", time.UnixMilli(unixMillis).UTC().Format(time.RFC3339))}}
	case since >= maxTokenBase>>tokenShift, floor > maxTokenBase, reserved > maxTokenBase:
		return 0, &ConfigError{Problems: []string{fmt.Sprintf("tokens would start above 2^62: by the clock (%s), by TICKETING_TOKEN_FLOOR (%d) "+
			"or by the state file (%d)", time.UnixMilli(unixMillis).UTC().Format(time.RFC3339), floor, reserved)}}
	}
	return max(uint64(max(since, 0))<<tokenShift, floor, reserved), nil
}
