package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// threeNodes returns a function that prepares deploy/three-nodes around the binary under test.
func threeNodes(t *testing.T) func(folder string, offset int) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("deploy/three-nodes needs bash")
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "deploy", "three-nodes"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for link, target := range map[string]string{"deploy/three-nodes": script, "bin/ticketing": os.Getenv(binaryVariable)} {
		link = filepath.Join(root, link)
		if err := os.Mkdir(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	return func(folder string, offset int) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), 2*testTime)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, filepath.Join(root, "deploy", "three-nodes"), folder, fmt.Sprint(offset))
		cmd.Env = cleanEnviron()
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends its nodes
		cmd.WaitDelay = testTime
		return cmd
	}
}

// freeOffset returns an OFFSET of deploy/three-nodes at which all nine ports are free. They are below those that connections are given.
func freeOffset(t *testing.T) int {
	t.Helper()
	for range 100 {
		offset, free := 15000+rand.IntN(10000), true
		for _, first := range []int{5225, 5325, 5425} {
			for port := first; port < first+3; port++ {
				l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+offset))
				if err != nil {
					free = false
					continue
				}
				l.Close()
			}
		}
		if free {
			return offset
		}
	}
	t.Fatal("no nine ports are free")
	return 0
}

func TestThreeNodesLeaveAnotherClusterAlone(t *testing.T) {
	t.Parallel()
	script := threeNodes(t)
	folder, elsewhere, offset := t.TempDir(), filepath.Join(t.TempDir(), "other"), freeOffset(t)
	var said syncBuffer
	first := script(folder, offset)
	first.Stdout, first.Stderr = &said, &said
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Wait() })
	eventually(t, "the nodes to be ready", func() bool { return strings.Contains(said.String(), "Three nodes are ready") })
	files := func() (contents []byte) {
		for _, name := range []string{"secret", "env", "bootstrap", "pid", "node1/pid", "node2/pid", "node3/pid"} {
			content, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Error(err)
			}
			contents = append(contents, content...)
		}
		return contents
	}
	before := files()

	for _, test := range []struct {
		name, folder string
		offset       int
		want         string
	}{
		{"the same folder", folder, freeOffset(t), folder + " is in use by process "},
		{"the same ports", elsewhere, offset, fmt.Sprintf("something listens on 127.0.0.1:%d already", 5225+offset)},
		{"one port", elsewhere, offset + 2, fmt.Sprintf("something listens on 127.0.0.1:%d already", 5227+offset)},
	} {
		out, err := script(test.folder, test.offset).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), test.want) {
			t.Errorf("%s: %v, want %q in:\n%s", test.name, err, test.want, out)
		}
	}
	if !bytes.Equal(files(), before) {
		t.Error("a start that was refused has changed the folder of the cluster that runs")
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a start that was refused has made its folder")
	}
}

// A port that is bound but does not listen is found by the node alone.
func TestThreeNodesEndWithTheirFirst(t *testing.T) {
	t.Parallel()
	script, offset := threeNodes(t), freeOffset(t)
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: 5226 + offset, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	out, err := script(t.TempDir(), offset).CombinedOutput()
	for _, want := range []string{"the node of seat 2 ", "has ended with 1: ", "address already in use", "all nodes have ended"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if err == nil || time.Since(begun) > testTime {
		t.Errorf("it ended with %v after %v", err, time.Since(begun))
	}
}
