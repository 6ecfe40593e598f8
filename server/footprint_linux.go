package server

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// footprint is where the executable is mapped. When a page of it is touched, the kernel maps the neighbouring pages too and counts
// them as resident. After a start, and whenever rarely used code has run, that is several times what the server needs.
type footprint []mapping

type mapping struct{ from, to uintptr }

// readFootprint finds the mappings. It is best effort: without them the server is only a few MB larger.
func readFootprint() (f footprint) {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if from, to, ok := readOnlyMapping(lines.Text(), path); ok {
			f = append(f, mapping{from, to})
		}
	}
	return f
}

// drop gives back the pages that are mapped now. A page that is still needed is mapped again from the page cache when it is touched.
func (f footprint) drop() {
	for _, m := range f {
		unix.RawSyscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// readOnlyMapping parses a line of /proc/self/maps: "from-to perms offset device inode path".
func readOnlyMapping(line, path string) (from, to uintptr, ok bool) {
	f := strings.Fields(line)
	if len(f) != 6 || f[5] != path || strings.Contains(f[1], "w") {
		return 0, 0, false
	}
	low, high, _ := strings.Cut(f[0], "-")
	a, errA := strconv.ParseUint(low, 16, 64)
	b, errB := strconv.ParseUint(high, 16, 64)
	return uintptr(a), uintptr(b), errA == nil && errB == nil && b > a
}
