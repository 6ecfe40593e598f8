//go:build linux

package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// mountTmpfs gives the test a file system of its own.
func mountTmpfs(t *testing.T, options string) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a tmpfs")
	}
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestStateOnAFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "size=64k")
	f := openTestState(t, dir)
	before := exampleState()
	if err := f.write(before, 1); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	after := before
	after.horizon++
	if err := f.write(after, 2); !errors.Is(err, unix.ENOSPC) || ExitCode(err) != exitFailed {
		t.Errorf("writing to a full disk: exit code %d, %v", ExitCode(err), err)
	}
	if r, err := f.read(); err != nil || r != before {
		t.Errorf("the file then holds %+v, %v", r, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := f.write(after, 3); err != nil {
		t.Errorf("writing once there is room: %v", err)
	}
	if r, _ := f.read(); r != after {
		t.Errorf("the file then holds %+v", r)
	}
}

func TestStateOnAReadOnlyDisk(t *testing.T) {
	dir := mountTmpfs(t, "size=64k")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skipf("needs to mount read-only: %v", err)
	}
	f := openTestState(t, dir)
	if err := f.write(exampleState(), 1); !errors.Is(err, unix.EROFS) || ExitCode(err) != exitConfig {
		t.Errorf("writing: exit code %d, %v", ExitCode(err), err)
	}
	if _, err := openStateFile(filepath.Join(dir, "below")); !errors.Is(err, unix.EROFS) || ExitCode(err) != exitConfig {
		t.Errorf("making a directory: exit code %d, %v", ExitCode(err), err)
	}
}

func TestStateInAReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs a user other than root, whom permissions stop")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	f := openTestState(t, dir)
	if err := f.write(exampleState(), 1); !errors.Is(err, unix.EACCES) || ExitCode(err) != exitConfig {
		t.Errorf("writing: exit code %d, %v", ExitCode(err), err)
	}
}
