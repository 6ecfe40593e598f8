package server

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Names in the state directory. The second is the first while it is being written.
const (
	stateName    = "ticketing.state"
	stateNewName = "ticketing.state.new"
)

// stateFile is the state file of this process, in a directory that no other process uses as long as it is open. The one file says
// whether a standalone server or a node of a cluster lived here, so that a directory can never serve both.
type stateFile struct {
	dir  string
	disk stateDisk

	mu      sync.Mutex
	written uint64 // order of the newest record written
}

// stateDisk is what the state file needs of a file system. Names are relative to the state directory.
type stateDisk interface {
	// Read returns the content of a file; an error that is fs.ErrNotExist if there is none.
	Read(name string) ([]byte, error)
	// Write makes a file with this content and returns when it is on the disk. On an error the file may hold anything.
	Write(name string, content []byte) error
	// Rename replaces newName by oldName: whoever reads newName finds the old content or the new, never a mixture.
	Rename(oldName, newName string) error
	// SyncDir returns when the directory, and so a rename, is on the disk.
	SyncDir() error
	// RAMDisk returns the name of the file system if it keeps everything in memory, else "".
	RAMDisk() (string, error)
	// Close lets other processes use the directory.
	Close() error
}

// stateError says what is wrong with the state directory.
type stateError struct {
	dir    string
	doing  string
	err    error
	advice string
	// lasting is set when a restart will not help.
	lasting bool
}

func (e *stateError) Error() string {
	text := fmt.Sprintf("TICKETING_STATE_DIR=%q: %s: %v", e.dir, e.doing, e.err)
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *stateError) Unwrap() error { return e.err }

var errStateLocked = errors.New("another process uses the directory")

// openStateFile makes dir if there is none and locks it for the life of this process.
func openStateFile(dir string) (*stateFile, error) {
	disk, err := openStateDir(dir)
	if err != nil {
		return nil, newStateError(dir, "open", err)
	}
	return &stateFile{dir: dir, disk: disk}, nil
}

// keptState is what earlier processes left in a state directory: nothing, the record of a standalone server, or the marker of a
// node of a cluster.
type keptState struct {
	alone  bool
	marker *marker
}

// inspect returns what earlier processes left here.
func (f *stateFile) inspect() (k keptState, err error) {
	b, err := f.load()
	if err != nil || b == nil {
		return k, err
	}
	mode, _, err := openState(b)
	switch {
	case err != nil:
	case mode == stateModeAlone:
		k.alone = true
	default:
		k.marker, err = decodeMarker(b)
	}
	if err != nil {
		return keptState{}, newStateError(f.dir, "read "+stateName, err)
	}
	return k, nil
}

// read returns the record that an earlier standalone server left, the zero record in a directory that never had one.
func (f *stateFile) read() (r stateRecord, err error) {
	b, err := f.load()
	if err != nil || b == nil {
		return r, err
	}
	if r, err = decodeState(b); err != nil {
		return r, newStateError(f.dir, "read "+stateName, err)
	}
	return r, nil
}

// load returns the file's content, nil if there is none.
func (f *stateFile) load() ([]byte, error) {
	b, err := f.disk.Read(stateName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, newStateError(f.dir, "read "+stateName, err)
	}
	return b, nil
}

// write puts r on the disk, as replace does. order numbers the records in the order in which they were made. A record older than one
// that is already written is skipped, for the newer one covers it.
func (f *stateFile) write(r stateRecord, order uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if order <= f.written {
		return nil
	}
	if err := f.replace(appendState(nil, r)); err != nil {
		return err
	}
	f.written = order
	return nil
}

// replace puts content on the disk. Whatever happens meanwhile, a later read finds either the old content or the new, whole. The
// caller makes sure that there is one replace at a time.
func (f *stateFile) replace(content []byte) error {
	if err := f.disk.Write(stateNewName, content); err != nil {
		return newStateError(f.dir, "write "+stateNewName, err)
	}
	if err := f.disk.Rename(stateNewName, stateName); err != nil {
		return newStateError(f.dir, "replace "+stateName, err)
	}
	if err := f.disk.SyncDir(); err != nil {
		return newStateError(f.dir, "sync the directory", err)
	}
	return nil
}

// ramDisk returns the name of the RAM file system that the directory is on, "" if it is on none.
func (f *stateFile) ramDisk() (string, error) {
	kind, err := f.disk.RAMDisk()
	if err != nil {
		return "", newStateError(f.dir, "ask for the file system", err)
	}
	return kind, nil
}

// close lets another process use the directory.
func (f *stateFile) close() error { return f.disk.Close() }

// newStateError adds what an operator can do about err.
func newStateError(dir, doing string, err error) error {
	e := &stateError{dir: dir, doing: doing, err: err, lasting: true}
	switch {
	case errors.Is(err, errStateLocked):
		e.advice = "stop it, or give this server a directory of its own"
	case errors.Is(err, errStateDamaged), errors.Is(err, errStateForeign):
		e.advice = fmt.Sprintf("what it said is lost. Of a standalone server: wait until no lease of it can run (250 s after its end), "+
			"remove %s, and start with TICKETING_TOKEN_FLOOR at the largest token that was granted. Of a node of a cluster: remove it, run "+
			"ticketing cluster replace on a member, and start with the TICKETING_JOIN that it prints", filepath.Join(dir, stateName))
	case errors.Is(err, errStateVersion):
		e.advice = "start the version that wrote it, or give this server a directory of its own"
	case errors.Is(err, errStateMode):
		e.advice = "a standalone server needs a directory of its own"
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		e.advice = "the server must be able to write there"
	case errors.Is(err, unix.ENOTDIR):
		e.advice = "it must be a directory"
	case errors.Is(err, fs.ErrNotExist) && doing == "open":
		e.advice = "the directory above it must exist"
		e.lasting = false // its disk may not be mounted yet
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.advice = "the server needs a few hundred bytes there; make room"
		e.lasting = false
	default:
		e.lasting = false
	}
	return e
}
