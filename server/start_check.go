package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// checkStart decides what a start at now would decide from the credentials, the seat and the state directory, without creating,
// locking or writing anything. It returns the start's plan, as far as it got, and the error with which the start would fail. Whether
// the ports are free and the directory unused is not checked: a process that is about to be restarted uses both.
func (c *Config) checkStart(now time.Time) (plan startDecision, err error) {
	var state *stateFile
	if c.StateDir != "" {
		if state, err = openStateReadOnly(c.StateDir); err != nil {
			return plan, err
		}
		defer state.close()
	}
	plan, _, err = planStart(c, state, now.UnixMilli())
	if err != nil || plan.mode != startAlone {
		return plan, err
	}
	var last stateRecord
	if state != nil {
		if last, err = state.read(); err != nil {
			return plan, err
		}
	}
	_, err = tokenBase(now.UnixMilli(), c.TokenFloor, last.reserved)
	return plan, err
}

// openStateReadOnly opens the state file in dir for reading, without locking the directory.
func openStateReadOnly(dir string) (*stateFile, error) {
	disk, err := openStateDirReadOnly(dir)
	if err != nil {
		return nil, newStateError(dir, "open", err)
	}
	return &stateFile{dir: dir, disk: disk}, nil
}

// openStateDirReadOnly opens dir, or the one in which a start would create it. It refuses what a start could not open or write to.
func openStateDirReadOnly(dir string) (stateDisk, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		above, err := openReadOnly(filepath.Dir(filepath.Clean(dir)))
		return missingStateDir{above}, err
	}
	return openReadOnly(dir)
}

func openReadOnly(dir string) (*stateDir, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return nil, &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return openRoot(dir)
}

// missingStateDir is a state directory that a start would create. It is empty; everything else is asked of the directory above it.
type missingStateDir struct{ *stateDir }

func (missingStateDir) Read(string) ([]byte, error) { return nil, fs.ErrNotExist }
