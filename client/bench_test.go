//go:build linux || darwin

package client_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ticketing.internal/client"
)

// benchBroker returns a Broker of a server in a process of its own, or of the one whose host:port is in
// TICKETING_BENCH_ADDR and whose token is in TICKETING_TOKEN.
func benchBroker(b *testing.B) *client.Broker {
	addr := os.Getenv("TICKETING_BENCH_ADDR")
	if addr == "" {
		return startServer(b).broker()
	}
	broker, err := client.New(client.Config{Addrs: []string{addr}, Token: os.Getenv("TICKETING_TOKEN")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { broker.Close() })
	if err := broker.WaitReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	return broker
}

// BenchmarkPair is acquire and release of a key of one's own.
func BenchmarkPair(b *testing.B) {
	for _, goroutines := range []int{1, 64, 4096} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			broker := benchBroker(b)
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for i := range goroutines {
				all.Go(func() {
					key := fmt.Sprintf("bench-%08d", i)
					for left.Add(-1) >= 0 {
						pair(b, broker, key)
					}
				})
			}
			all.Wait()
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

func pair(b *testing.B, broker *client.Broker, key string) {
	ticket, err := broker.Acquire(context.Background(), key, time.Second, 10*time.Second)
	if err != nil {
		b.Error(err)
		return
	}
	if err := ticket.Release(context.Background()); err != nil {
		b.Error(err)
	}
}

// BenchmarkLatency is the time of one request of one goroutine, beside that of a bare echo of the same bytes, whose
// other end is a process too.
func BenchmarkLatency(b *testing.B) {
	b.Run("acquire", func(b *testing.B) {
		broker := benchBroker(b)
		took := make([]time.Duration, 0, b.N)
		for b.Loop() {
			began := time.Now()
			ticket, err := broker.Acquire(context.Background(), "bench-latency-00", 0, 10*time.Second)
			took = append(took, time.Since(began))
			if err != nil {
				b.Fatal(err)
			}
			if err := ticket.Release(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		reportMedian(b, took)
	})
	b.Run("echo", func(b *testing.B) {
		conn := dialEcho(b)
		frame := make([]byte, 40)
		took := make([]time.Duration, 0, b.N)
		for b.Loop() {
			for range 2 {
				began := time.Now()
				if _, err := conn.Write(frame); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, frame); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
		}
		reportMedian(b, took)
	})
}

func reportMedian(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
}

// dialEcho starts this test's binary as an echo process.
func dialEcho(b *testing.B) net.Conn {
	cmd := exec.Command(os.Args[0], "-test.run=^TestEchoProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "TICKETING_BENCH_ECHO=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Wait() })
	var seen strings.Builder
	buf := make([]byte, 256)
	for {
		n, err := out.Read(buf)
		if err != nil {
			b.Fatalf("the echo process says %q: %v", seen.String(), err)
		}
		seen.Write(buf[:n])
		_, rest, _ := strings.Cut(seen.String(), "listening ")
		if addr, _, whole := strings.Cut(rest, "\n"); whole {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { conn.Close() })
			return conn
		}
	}
}

// TestEchoProcess is the other end of the echo; by itself it does nothing.
func TestEchoProcess(t *testing.T) {
	if os.Getenv("TICKETING_BENCH_ECHO") == "" {
		t.Skip("runs as a process of BenchmarkLatency only")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fmt.Fprintf(os.Stdout, "listening %s\n", l.Addr())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // as plain reads and writes
}
