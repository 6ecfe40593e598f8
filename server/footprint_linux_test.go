package server

import "testing"

func TestReadOnlyMapping(t *testing.T) {
	const path = "/usr/bin/ticketing"
	for _, test := range []struct {
		line     string
		from, to uintptr
		ok       bool
	}{
		{"00400000-007e9000 r-xp 00000000 fe:00 131 /usr/bin/ticketing", 0x400000, 0x7e9000, true},
		{"007e9000-00c05000 r--p 003e9000 fe:00 131 /usr/bin/ticketing", 0x7e9000, 0xc05000, true},
		{"00c05000-00c55000 rw-p 00805000 fe:00 131 /usr/bin/ticketing", 0, 0, false},
		{"7f0000000000-7f0000021000 r--p 00000000 fe:00 7 /lib/libc.so", 0, 0, false},
		{"7ffd00000000-7ffd00021000 r-xp 00000000 00:00 0 [vdso]", 0, 0, false},
		{"7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0", 0, 0, false},
		{"", 0, 0, false},
	} {
		from, to, ok := readOnlyMapping(test.line, path)
		if ok != test.ok || ok && (from != test.from || to != test.to) {
			t.Errorf("%q: %#x-%#x, %v", test.line, from, to, ok)
		}
	}
}
