package main

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"
)

// A Redis lock that is correct compares before it deletes, for the lock may be another's by then.
const redisRelease = `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

var errNoRedis = errors.New("redis-server is not installed")

// measureRedis runs the plan against a Redis that is started for it: with plain DEL, then with the script.
func (b *bench) measureRedis(ctx context.Context, pl plan) ([]result, error) {
	redis, err := b.startRedis()
	if err != nil {
		return nil, err
	}
	defer redis.stop()
	var results []result
	for _, release := range []string{"", fmt.Sprintf("%x", sha1.Sum([]byte(redisRelease)))} {
		name := "Redis, SET NX PX + DEL"
		if release != "" {
			name = "Redis, SET NX PX + compare-and-delete"
		}
		m := &meter{}
		prefix := runPrefix()
		traffics := make([]traffic, pl.connections)
		for i := range traffics {
			traffics[i] = newRedisConn(m, release, prefix, i*pl.inFlight, pl)
		}
		got, err := b.drive(ctx, m, traffics, pl.inFlight, target{addrs: []string{redis.addr}, child: redis, bare: true}, phases{pl.warmup, pl.duration, nil})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r := newResult(name, pl, pl.connections*pl.inFlight, got)
		r.Server = processResult(redis, got)
		results = append(results, r)
	}
	return results, nil
}

// startRedis starts a Redis without persistence, bound to the server's processors.
func (b *bench) startRedis() (*child, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, withExit(exitNegative, errNoRedis)
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	cmd.SysProcAttr = dieWithParent()
	c := &child{cmd: cmd, addr: addr, exited: make(chan struct{})}
	if err := c.start(b.serverCPUs); err != nil {
		return nil, err
	}
	conn, err := c.dialWhenReady()
	if err != nil {
		c.stop()
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	answer := make([]byte, 64)
	fmt.Fprintf(conn, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(redisRelease), redisRelease)
	if n, err := conn.Read(answer); err != nil || answer[0] != '$' {
		c.stop()
		return nil, withExit(exitNegative, fmt.Errorf("loading the script into Redis: %q %v", answer[:n], err))
	}
	return c, nil
}

// redisSlot is one request in flight.
type redisSlot struct {
	acquire, release []byte
	sentAt           int64
	releasing        bool
}

// redisConn is one connection's requests. Redis replies in order, so that a queue of slots matches them.
type redisConn struct {
	meter *meter
	slots []redisSlot
	queue []int // a ring of the slots in flight
	head  int
	count int
	out   []byte
	rest  []byte
}

func newRedisConn(m *meter, script, prefix string, first int, pl plan) *redisConn {
	c := &redisConn{meter: m, slots: make([]redisSlot, pl.inFlight), queue: make([]int, pl.inFlight)}
	for i := range c.slots {
		key := fmt.Sprintf("%s%0*d", prefix, pl.keySize-len(prefix), first+i)
		c.slots[i].acquire = redisCommand("SET", key, key, "NX", "PX", fmt.Sprint(pl.lease.Milliseconds()))
		c.slots[i].release = redisCommand("DEL", key)
		if script != "" {
			c.slots[i].release = redisCommand("EVALSHA", script, "1", key, key)
		}
	}
	return c
}

func redisCommand(words ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

func (c *redisConn) output() *[]byte { return &c.out }

func (c *redisConn) start(now int64) {
	for i := range c.slots {
		c.meter.inFlight++
		c.send(i, c.slots[i].acquire, now)
	}
}

func (c *redisConn) send(i int, command []byte, now int64) {
	c.out = append(c.out, command...)
	c.slots[i].sentAt = now
	c.queue[(c.head+c.count)%len(c.queue)] = i
	c.count++
}

func (c *redisConn) receive(in []byte, now int64) error {
	if len(c.rest) > 0 {
		in = append(c.rest, in...)
		c.rest = nil
	}
	for {
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			c.rest = append([]byte(nil), in...)
			return nil
		}
		if err := c.reply(in[:end-1], now); err != nil {
			return err
		}
		in = in[end+1:]
	}
}

func (c *redisConn) reply(line []byte, now int64) error {
	if c.count == 0 {
		return fmt.Errorf("unasked reply %q of Redis", line)
	}
	i := c.queue[c.head]
	c.head = (c.head + 1) % len(c.queue)
	c.count--
	s := &c.slots[i]
	switch answer := string(line); {
	case answer == "+OK" && !s.releasing:
		c.meter.count.granted++
		c.meter.latency.record(now - s.sentAt)
		s.releasing = true
		c.send(i, s.release, now)
		return nil
	case answer == ":1" && s.releasing:
		c.meter.count.released++
		c.meter.latency.record(now - s.sentAt)
	case answer == "$-1" && !s.releasing:
		c.meter.count.timedOut++
	case answer == ":0" && s.releasing:
		c.meter.count.notHeld++
	default:
		return fmt.Errorf("reply %q of Redis does not answer the request (releasing: %v)", line, s.releasing)
	}
	s.releasing = false
	if c.meter.stopping {
		c.meter.inFlight--
		return nil
	}
	c.send(i, s.acquire, now)
	return nil
}
