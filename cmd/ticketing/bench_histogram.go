package main

import (
	"math/bits"
	"time"
)

// The histogram's resolution: 2^7 buckets for each power of two, so that a bucket is at most 0.8 % wide.
// Values reach 2^40 ns (18 minutes); longer ones count as that.
const (
	subBucketBits = 7
	maxValueBits  = 40
	bucketCount   = (maxValueBits - subBucketBits + 1) << subBucketBits
)

// histogram counts durations in nanoseconds in buckets that grow with the value, as HDR histograms do.
type histogram struct {
	counts  [bucketCount]uint64
	total   uint64
	longest int64
}

// record counts one duration of ns nanoseconds.
func (h *histogram) record(ns int64) {
	h.counts[bucketOf(ns)]++
	h.total++
	if ns > h.longest {
		h.longest = ns
	}
}

func (h *histogram) reset() { *h = histogram{} }

// quantile returns the duration that the share q (0..1) of all recorded ones does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	rank := q * float64(h.total)
	seen := 0.0
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		if seen+float64(n) >= rank {
			low, width := bucketRange(i)
			return min(low+time.Duration(float64(width)*(rank-seen)/float64(n)), time.Duration(h.longest))
		}
		seen += float64(n)
	}
	return time.Duration(h.longest)
}

func bucketOf(ns int64) int {
	v := uint64(min(max(ns, 0), 1<<maxValueBits-1))
	if v < 1<<subBucketBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBucketBits - 1
	return (shift+1)<<subBucketBits + int(v>>shift) - 1<<subBucketBits
}

// bucketRange returns the least duration of bucket i and how many nanoseconds it covers.
func bucketRange(i int) (low, width time.Duration) {
	if i < 1<<subBucketBits {
		return time.Duration(i), 1
	}
	shift := i>>subBucketBits - 1
	return time.Duration(1<<subBucketBits+i&(1<<subBucketBits-1)) << shift, 1 << shift
}
