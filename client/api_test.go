package client_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"ticketing.internal/client"
	"ticketing.internal/wire"
)

// The API is what its specification shows. It is enough that this compiles.
var (
	_ func(client.Config) (*client.Broker, error) = client.New
	_ func() (client.Config, error)               = client.FromEnv

	_ interface {
		WaitReady(context.Context) error
		Acquire(ctx context.Context, key string, wait, lease time.Duration) (*client.Ticket, error)
		TryAcquire(ctx context.Context, key string, lease time.Duration) (*client.Ticket, error)
		Do(ctx context.Context, key string, wait, lease time.Duration, f func(context.Context, *client.Ticket) error) error
		Release(ctx context.Context, key string, owner, token uint64) error
		Stats() client.Stats
		Close() error
	} = (*client.Broker)(nil)

	_ interface {
		Key() string
		Token() uint64
		Owner() uint64
		Deadline() time.Time
		Context() context.Context
		Release(context.Context) error
	} = (*client.Ticket)(nil)

	_ = []error{
		client.ErrTimeout, client.ErrBusy, client.ErrIndeterminate, client.ErrNotHeld, client.ErrUnconfirmed,
		client.ErrClosed, client.ErrInvalid, client.ErrAuth, client.ErrLeaseEnded, client.ErrReleased,
		&client.BusyError{Code: wire.BusyNoLeader, RetryAfter: time.Second},
		&client.IndeterminateError{Owner: uint64(1), Key: "k", Until: time.Time{}},
	}

	_ = client.Config{
		Addrs: []string(nil), Token: "", Name: "", TLS: (*tls.Config)(nil), Domain: "",
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) { return nil, nil },
		Logger: (*slog.Logger)(nil),
		Hooks: client.Hooks{
			Dial:       func(addr string) {},
			Connect:    func(addr string, took time.Duration) {},
			Disconnect: func(addr string, err error) {},
			Request:    func(op wire.Op) {},
			Reply:      func(op wire.Op, err error, took time.Duration) {},
			Redirect:   func(from, leader string, term uint64) {},
		},
	}
)
