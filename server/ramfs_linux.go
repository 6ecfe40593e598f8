package server

import (
	"os"

	"golang.org/x/sys/unix"
)

// ramDisk names the RAM file system that f lies on, "" if it lies on none. What an overlay lies on is not seen.
func ramDisk(f *os.File) (string, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return "", err
	}
	// The type of the field differs by architecture; the number has 32 bits on all of them.
	switch uint32(s.Type) {
	case unix.TMPFS_MAGIC:
		return "tmpfs", nil
	case unix.RAMFS_MAGIC:
		return "ramfs", nil
	}
	return "", nil
}
