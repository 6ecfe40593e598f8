//go:build linux || darwin

package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/server"
	"ticketing.internal/wire"
)

// exampleServer runs a server in this process and returns a Broker of it, with what ends the two.
func exampleServer() (broker *client.Broker, end func()) {
	config, err := server.ConfigFromEnv([]string{"TICKETING_LISTEN=127.0.0.1:0", "TICKETING_ADMIN_LISTEN=off"})
	if err != nil {
		panic(err)
	}
	s, err := server.New(config, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(context.Background())
	}()
	broker, err = client.New(client.Config{Addrs: []string{s.Addr().String()}})
	if err != nil {
		panic(err)
	}
	return broker, func() {
		broker.Close()
		s.Kill()
		<-ended
	}
}

// A critical section: acquire, work, release. The work ends when the lease does.
func Example() {
	// In a program: client.New(client.Config{Addrs: ..., Token: ...}), once, and broker.Close at its end.
	broker, end := exampleServer()
	defer end()
	ctx := context.Background()

	ticket, err := broker.Acquire(ctx, "order-1234", 5*time.Second, 30*time.Second)
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	defer ticket.Release(ctx)

	work := func(ctx context.Context) error { return ctx.Err() }
	fmt.Println("worked on", ticket.Key(), "with", work(ticket.Context()))
	// Output: worked on order-1234 with <nil>
}

// The same with a function: the release cannot be forgotten, and a lock that was lost on the way is an error.
func ExampleBroker_Do() {
	broker, end := exampleServer()
	defer end()

	counter := 0
	var workers sync.WaitGroup
	for range 50 {
		workers.Go(func() {
			err := broker.Do(context.Background(), "counter", time.Minute, 10*time.Second,
				func(ctx context.Context, t *client.Ticket) error {
					counter++ // nobody else is in here
					return nil
				})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	workers.Wait()
	fmt.Println(counter)
	// Output: 50
}

// A job that every machine starts at the same time and that must run once: whoever gets the key runs it, the others
// leave. The lock is not released but left to its lease, which outlasts the differences between the machines' clocks.
func ExampleBroker_TryAcquire() {
	broker, end := exampleServer()
	defer end()

	report := func(machine string) {
		ticket, err := broker.TryAcquire(context.Background(), "report-2026-07-01", 4*time.Minute)
		switch {
		case errors.Is(err, client.ErrTimeout):
			fmt.Println("another machine does it")
			return
		case err != nil:
			fmt.Println("cannot tell, so not here:", err) // ErrIndeterminate: perhaps it is ours, and nobody will run it
			return
		}
		_ = ticket.Context() // ends with the lease: hand it to the work
		fmt.Println("the report is written")
	}
	for _, machine := range []string{"a", "b", "c"} {
		report(machine)
	}
	// Output:
	// the report is written
	// another machine does it
	// another machine does it
}

// A sale: 100 buyers, 3 seats, one buyer at a time in the order in which they came.
func ExampleBroker_Acquire() {
	broker, end := exampleServer()
	defer end()

	free := []string{"12A", "12B", "12C"}
	sold := make(chan string, 100)
	buy := func(ctx context.Context) error {
		ticket, err := broker.Acquire(ctx, "flight-77", time.Minute, 10*time.Second)
		if err != nil {
			return err
		}
		defer ticket.Release(ctx)
		if len(free) == 0 {
			return errors.New("sold out")
		}
		sold <- free[0]
		free = free[1:]
		return nil
	}
	var buyers sync.WaitGroup
	for range 100 {
		buyers.Go(func() { buy(context.Background()) })
	}
	buyers.Wait()
	close(sold)
	for seat := range sold {
		fmt.Println(seat)
	}
	// Output:
	// 12A
	// 12B
	// 12C
}

// Fencing: the resource refuses what comes from a holder whose lease has ended without his noticing. Package
// client/fence does this for a database.
func ExampleTicket_Token() {
	broker, end := exampleServer()
	defer end()
	ctx := context.Background()

	var highest uint64 // the resource keeps it, beside what it guards
	write := func(token uint64, what string) {
		if token < highest {
			fmt.Println("refused:", what)
			return
		}
		highest = token
		fmt.Println("written:", what)
	}

	paused, err := broker.Acquire(ctx, "file", 0, time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The process is paused for longer than its lease, and another takes over.
	next, err := broker.Acquire(ctx, "file", 10*time.Second, 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	write(next.Token(), "by the present holder")
	write(paused.Token(), "by the one that was paused")
	// Output:
	// written: by the present holder
	// refused: by the one that was paused
}

// Each error, and what to do about it.
func ExampleBusyError() {
	broker, end := exampleServer()
	defer end()
	ctx := context.Background()

	decide := func(err error) string {
		var busy *client.BusyError
		var unknown *client.IndeterminateError
		switch {
		case err == nil:
			return "work, then release"
		case errors.Is(err, client.ErrTimeout):
			return "somebody else has it: leave, or try again later"
		case errors.As(err, &busy) && busy.Code == wire.BusyTooManyWaiters:
			return "the queue is full: shed load"
		case errors.As(err, &busy):
			return fmt.Sprint("not granted, try again in ", max(busy.RetryAfter, time.Second))
		case errors.As(err, &unknown):
			return fmt.Sprint("perhaps it is ours: stay out, and try again after ", unknown.Until)
		case errors.Is(err, client.ErrInvalid):
			return "a mistake in the program"
		case errors.Is(err, client.ErrClosed):
			return "the program is ending"
		default: // the end of ctx, before anything was sent
			return "given up"
		}
	}

	ticket, err := broker.TryAcquire(ctx, "k", 10*time.Second)
	fmt.Println(decide(err))
	_, err = broker.TryAcquire(ctx, "k", 10*time.Second)
	fmt.Println(decide(err))
	_, err = broker.TryAcquire(ctx, "k", time.Hour)
	fmt.Println(decide(err))

	fmt.Println(ticket.Release(ctx))
	fmt.Println(ticket.Release(ctx))
	broker.Close()
	_, err = broker.TryAcquire(ctx, "k", 10*time.Second)
	fmt.Println(decide(err))
	// Output:
	// work, then release
	// somebody else has it: leave, or try again later
	// a mistake in the program
	// <nil>
	// release "k": not held: the lease ended or the lock was released before
	// the program is ending
}
