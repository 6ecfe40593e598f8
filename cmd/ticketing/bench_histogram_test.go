package main

import (
	"testing"
	"time"
)

func TestHistogramBucketsHoldTheirValues(t *testing.T) {
	last := -1
	for v := int64(0); v < 1<<maxValueBits; v += 1 + v/300 {
		i := bucketOf(v)
		low, width := bucketRange(i)
		if int64(low) > v || int64(low+width) <= v {
			t.Fatalf("%d is in bucket %d, which covers %d..%d", v, i, low, low+width-1)
		}
		if width > 1 && float64(width)/float64(low) > 0.008 {
			t.Fatalf("bucket %d of %d is %d wide", i, low, width)
		}
		if i != last && i != last+1 {
			t.Fatalf("bucket %d follows %d", i, last)
		}
		last = i
	}
	if bucketOf(1<<62) != bucketCount-1 {
		t.Errorf("the longest value is in bucket %d of %d", bucketOf(1<<62), bucketCount)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for us := int64(1); us <= 1000; us++ {
		h.record(us * 1000)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond} {
		if got := h.quantile(q); got < want*99/100 || got > want*101/100 {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
}
