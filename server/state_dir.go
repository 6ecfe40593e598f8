package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// stateDir is stateDisk on a real directory. Everything goes through the directory that was opened and locked: if another one is put
// in its place, nothing is written there.
type stateDir struct {
	root *os.Root
	self *os.File // the directory itself; holds the lock
}

func openStateDir(dir string) (*stateDir, error) {
	if err := makeStateDir(dir); err != nil {
		return nil, err
	}
	d, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.self.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errStateLocked
		}
		return nil, fmt.Errorf("lock the directory: %w", err)
	}
	return d, nil
}

// openRoot opens dir without the lock.
func openRoot(dir string) (*stateDir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	self, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &stateDir{root: root, self: self}, nil
}

// makeStateDir creates dir, if there is none, so that it survives a crash. Directories above it are not created: a missing one is
// more often a disk that is not mounted.
func makeStateDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		return err
	}
	if err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync()
}

func (d *stateDir) Read(name string) ([]byte, error) {
	return d.root.ReadFile(name)
}

func (d *stateDir) Write(name string, content []byte) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d *stateDir) Rename(oldName, newName string) error { return d.root.Rename(oldName, newName) }

func (d *stateDir) SyncDir() error { return d.self.Sync() }

func (d *stateDir) RAMDisk() (string, error) { return ramDisk(d.self) }

func (d *stateDir) Close() error { return errors.Join(d.self.Close(), d.root.Close()) }
