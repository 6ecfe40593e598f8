package server

import (
	"bufio"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func openTestState(t *testing.T, dir string) *stateFile {
	t.Helper()
	f, err := openStateFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.close() })
	return f
}

func TestStateFileKeepsTheLastRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made by the server")
	f := openTestState(t, dir)
	if r, err := f.read(); err != nil || r != (stateRecord{}) {
		t.Fatalf("a new directory holds %+v, %v", r, err)
	}
	last := exampleState()
	for order := range uint64(3) {
		last.horizon++
		if err := f.write(last, order+1); err != nil {
			t.Fatal(err)
		}
	}
	f.close()
	again := openTestState(t, dir)
	if r, err := again.read(); err != nil || r != last {
		t.Errorf("read %+v, %v; want %+v", r, err, last)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
	if info, _ := os.Stat(filepath.Join(dir, stateName)); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// A write that was overtaken by a newer one must not bring the older record back.
func TestStateFileSkipsOvertakenRecords(t *testing.T) {
	f := openTestState(t, t.TempDir())
	newer := exampleState()
	newer.horizon *= 2
	for _, w := range []stateWrite{{record: newer, order: 8, store: f}, {record: exampleState(), order: 7, store: f}} {
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := f.read(); r != newer {
		t.Errorf("read %+v; want the newer record", r)
	}
}

func TestStateFileThatCannotBeRead(t *testing.T) {
	whole := appendState(nil, exampleState())
	for name, content := range map[string][]byte{
		"empty": {}, "torn": whole[:30], "flipped": append(slices.Clone(whole[:59]), whole[59]^1), "foreign": []byte("some other file of 31 characters"),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stateName), content, 0o600); err != nil {
			t.Fatal(err)
		}
		f := openTestState(t, dir)
		_, err := f.read()
		if ExitCode(err) != exitConfig || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "TICKETING_TOKEN_FLOOR") {
			t.Errorf("%s: exit code %d, %v", name, ExitCode(err), err)
		}
	}
}

func TestStateDirectoryThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		dir, says string
		code      int
	}{
		"a file":               {file, "it must be a directory", exitConfig},
		"nothing above it":     {filepath.Join(dir, "no", "such"), "the directory above it must exist", exitFailed},
		"a directory of /proc": {"/proc/self/ticketing", "", exitFailed},
	} {
		_, err := openStateFile(test.dir)
		if ExitCode(err) != test.code || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "TICKETING_STATE_DIR") {
			t.Errorf("%s: exit code %d, %v", name, ExitCode(err), err)
		}
	}
}

func TestStateDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	first := openTestState(t, dir)
	_, err := openStateFile(dir)
	if !errors.Is(err, errStateLocked) || ExitCode(err) != exitConfig {
		t.Errorf("a second opening: exit code %d, %v", ExitCode(err), err)
	}
	first.close()
	openTestState(t, dir)
}

// holderDir names the directory that the test binary, started again as another process, holds.
const holderDir = "TEST_STATE_HOLDER_DIR"

func TestStateDirectoryIsLockedForOtherProcesses(t *testing.T) {
	if dir, ok := os.LookupEnv(holderDir); ok {
		openTestState(t, dir)
		os.Stdout.WriteString("held\n")
		bufio.NewReader(os.Stdin).ReadString('\n') // until the other test goes away
		return
	}
	dir := t.TempDir()
	holder := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	holder.Env = append(os.Environ(), holderDir+"="+dir)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	if _, err := openStateFile(dir); !errors.Is(err, errStateLocked) {
		t.Errorf("while another process holds it: %v", err)
	}
	// A process that is killed gives the lock back.
	holder.Process.Kill()
	holder.Wait()
	stdin.Close()
	openTestState(t, dir)
}

// memoryDisk is a stateDisk whose n-th operation fails, in the worst way that its contract allows.
type memoryDisk struct {
	files  map[string][]byte
	failAt int
	ops    []string
}

var errDisk = errors.New("the disk says no")

func (d *memoryDisk) op(name string) bool {
	d.ops = append(d.ops, name)
	return len(d.ops) == d.failAt
}

func (d *memoryDisk) Read(name string) ([]byte, error) {
	b, ok := d.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

func (d *memoryDisk) Write(name string, content []byte) error {
	if d.op("write " + name) {
		d.files[name] = content[:len(content)/2]
		return errDisk
	}
	d.files[name] = slices.Clone(content)
	return nil
}

func (d *memoryDisk) Rename(oldName, newName string) error {
	if d.op("rename " + oldName + " " + newName) {
		return errDisk
	}
	d.files[newName] = d.files[oldName]
	delete(d.files, oldName)
	return nil
}

func (d *memoryDisk) SyncDir() error {
	if d.op("sync") {
		return errDisk
	}
	return nil
}

func (d *memoryDisk) RAMDisk() (string, error) { return "", nil }

func (d *memoryDisk) Close() error { return nil }

func TestStateWriteThatFailsHalfway(t *testing.T) {
	before, after := exampleState(), exampleState()
	after.horizon++
	for failAt := 1; failAt <= 3; failAt++ {
		disk := &memoryDisk{files: map[string][]byte{stateName: appendState(nil, before)}, failAt: failAt}
		f := &stateFile{dir: "dir", disk: disk}
		if err := f.write(after, 1); !errors.Is(err, errDisk) {
			t.Errorf("operation %d fails, and write returns %v", failAt, err)
		}
		if r, err := f.read(); err != nil || r != before && r != after {
			t.Errorf("operation %d failed, and the file holds %+v, %v", failAt, r, err)
		}
		// The next write mends it, with the same record too.
		if err := f.write(after, 1); err != nil {
			t.Errorf("the write after a failed operation %d: %v", failAt, err)
		}
		if r, _ := f.read(); r != after {
			t.Errorf("then the file holds %+v", r)
		}
		if names := slices.Sorted(maps.Keys(disk.files)); !slices.Equal(names, []string{stateName}) {
			t.Errorf("left behind: %q", names)
		}
	}
}

func TestStateWriteOrder(t *testing.T) {
	disk := &memoryDisk{files: map[string][]byte{}}
	if err := (&stateFile{disk: disk}).write(exampleState(), 1); err != nil {
		t.Fatal(err)
	}
	want := []string{"write " + stateNewName, "rename " + stateNewName + " " + stateName, "sync"}
	if !slices.Equal(disk.ops, want) {
		t.Errorf("operations %q, want %q", disk.ops, want)
	}
}

// Whoever removes the directory of a running server, or puts another in its place, must not make it write elsewhere.
func TestStateDirectoryThatIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f := openTestState(t, dir)
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.write(exampleState(), 1); err != nil {
		t.Errorf("writing to the directory that was moved: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 0 {
		t.Errorf("written to the directory that was put in its place: %q", names)
	}
	if err := os.RemoveAll(dir + ".moved"); err != nil {
		t.Fatal(err)
	}
	if err := f.write(exampleState(), 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing to the directory that was removed: %v", err)
	}
}

func TestStateErrorsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		err  error
		says string
		code int
	}{
		{unix.EROFS, "must be able to write", exitConfig},
		{unix.EACCES, "must be able to write", exitConfig},
		{unix.ENOSPC, "make room", exitFailed},
		{unix.EDQUOT, "make room", exitFailed},
		{errStateMode, "a directory of its own", exitConfig},
		{errStateVersion, "start the version that wrote it", exitConfig},
		{unix.EIO, "input/output error", exitFailed},
	} {
		err := newStateError("/var/lib/ticketing", "open", &fs.PathError{Op: "open", Path: "x", Err: test.err})
		if !strings.Contains(err.Error(), test.says) || ExitCode(err) != test.code {
			t.Errorf("%v: exit code %d, %v", test.err, ExitCode(err), err)
		}
	}
}
