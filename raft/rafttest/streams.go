package rafttest

import "math/rand/v2"

// stream returns the generator for one purpose of a seed.
func stream(seed uint64, purpose string) *rand.Rand {
	name := hashString(purpose)
	return rand.New(rand.NewPCG(mix(seed^name), mix(seed+name)))
}

// mix is the finalizer of splitmix64: neighbouring seeds become unrelated.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

const fnvOffset, fnvPrime = 14695981039346656037, 1099511628211

func hashString(s string) uint64 { return hashBytes(fnvOffset, []byte(s)) }

// hashBytes continues h over b: FNV-1a, eight bytes a step where there are as many.
func hashBytes(h uint64, b []byte) uint64 {
	for len(b) >= 8 {
		word := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		h, b = hashWord(h, word), b[8:]
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

func hashWord(h, word uint64) uint64 { return mix(h ^ word*fnvPrime) }

// chance reports true n times in a thousand.
func chance(r *rand.Rand, perMille int) bool { return r.IntN(1000) < perMille }

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }
