package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// checkStart judges what a start at now would decide by the credentials, the seat and the state directory, of which nothing is made,
// locked or written. The plan is the start's as far as it got, and so is the error. Whether the ports are free, and whether another
// process uses the directory, is not asked: the process that is to be restarted uses both.
func (c *Config) checkStart(now time.Time) (plan startDecision, err error) {
	var state *stateFile
	if c.StateDir != "" {
		if state, err = lookAtState(c.StateDir); err != nil {
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

// lookAtState opens the state file in dir for reading alone.
func lookAtState(dir string) (*stateFile, error) {
	disk, err := lookAtStateDir(dir)
	if err != nil {
		return nil, newStateError(dir, "open", err)
	}
	return &stateFile{dir: dir, disk: disk}, nil
}

// lookAtStateDir refuses a directory that a start could not open or write to.
func lookAtStateDir(dir string) (stateDisk, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		above, err := openToLook(filepath.Dir(filepath.Clean(dir)))
		return unmadeStateDir{above}, err
	}
	return openToLook(dir)
}

func openToLook(dir string) (*stateDir, error) {
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

// unmadeStateDir is a state directory that the start will make in the one that is there.
type unmadeStateDir struct{ *stateDir }

func (unmadeStateDir) Read(string) ([]byte, error) { return nil, fs.ErrNotExist }
