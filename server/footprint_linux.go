package server

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropStartPages gives back the pages of the executable that were mapped so far, most of which only the start has used: the
// kernel maps the neighbours of each page that is touched, and counts them all as resident. What is needed is mapped again
// from the page cache. It is best effort: where it fails, the server is only a few MB larger.
func dropStartPages() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		from, to, ok := readOnlyMapping(lines.Text(), path)
		if ok {
			unix.RawSyscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
		}
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
