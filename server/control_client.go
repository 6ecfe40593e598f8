package server

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// ControlConfig says how to reach a cluster.
type ControlConfig struct {
	Peers                  []string // peer addresses, host:port; one that answers is enough
	Secrets                [][]byte // cluster secrets, at least 16 bytes each; the first is shown
	TLSCert, TLSKey, TLSCA string   // PEM files, where peers use TLS: all or none
}

// ControlClient asks a cluster about itself and has it changed, over the peer ports. It follows the leader. It is safe for
// concurrent use, and keeps no connection.
type ControlClient struct {
	peers     []string
	requester peerRequester
	clock     *clock
}

// CheckPeerAddress reports what is wrong with addr, as the address at which other nodes or a command reach a peer port.
func CheckPeerAddress(addr string) error {
	host, port, err := splitAddress(addr)
	switch {
	case err != nil || port == 0:
		return errors.New("want host:port, with a port from 1 to 65535")
	case isWildcard(host):
		return errors.New("want host:port with a host that leads to the node from elsewhere: this one stands for any")
	case len(addr) > wire.MaxText:
		return fmt.Errorf("an address has at most %d bytes", wire.MaxText)
	}
	return nil
}

// Prepared is a replacement that the cluster has prepared.
type Prepared struct {
	Domain     string    `json:"domain"` // hex
	Seat       int       `json:"seat"`
	NodeID     uint32    `json:"node_id"`
	PeerAddr   string    `json:"peer_addr"`
	Expires    time.Time `json:"expires"`
	Credential string    `json:"credential"` // a secret: what TICKETING_JOIN of the new process is set to
}

// NewControlClient checks cfg and reads its files.
func NewControlClient(cfg ControlConfig) (*ControlClient, error) {
	if len(cfg.Peers) == 0 {
		return nil, errors.New("no peer address is given; use --peer or TICKETING_PEERS")
	}
	for _, addr := range cfg.Peers {
		if err := CheckPeerAddress(addr); err != nil {
			return nil, fmt.Errorf("peer address %q: %w", addr, err)
		}
	}
	secrets, err := auth.NewClusterSecrets(cfg.Secrets...)
	if err != nil {
		return nil, err
	}
	c := &ControlClient{peers: slices.Clone(cfg.Peers), clock: newClock()}
	c.requester = peerRequester{
		secrets: secrets, role: wire.PeerRoleControl, limits: peerLimits{}.withDefaults(),
		identity: func(raft.Member) peerIdentity { return peerIdentity{} },
	}
	switch set := []bool{cfg.TLSCert != "", cfg.TLSKey != "", cfg.TLSCA != ""}; {
	case !slices.Contains(set, true):
	case slices.Contains(set, false):
		return nil, errors.New("TLS between nodes needs TICKETING_PEER_TLS_CERT, TICKETING_PEER_TLS_KEY and TICKETING_PEER_TLS_CA: give all or none")
	default:
		files := tlsconf.ServerFiles{Cert: cfg.TLSCert, Key: cfg.TLSKey, ClientCA: cfg.TLSCA}
		if c.requester.tls, err = tlsconf.NewServer(files); err != nil {
			return nil, fmt.Errorf("TICKETING_PEER_TLS_CERT=%q, TICKETING_PEER_TLS_KEY=%q, TICKETING_PEER_TLS_CA=%q: %w", cfg.TLSCert, cfg.TLSKey, cfg.TLSCA, err)
		}
	}
	return c, nil
}

// Status returns what the leader knows of the cluster, as JSON with the fields of /status. ctx bounds it, as all that follow.
func (c *ControlClient) Status(ctx context.Context) ([]byte, error) {
	reply, err := c.do(ctx, &wire.ControlRequest{Kind: wire.ControlStatus})
	if err != nil {
		return nil, err
	}
	return reply.Data, nil
}

// NodeStatus returns what the node at one peer address knows, whether it leads or not, as Status does.
func (c *ControlClient) NodeStatus(ctx context.Context, peer string) ([]byte, error) {
	reply, err := c.askNext(ctx, peer, 0, &wire.ControlRequest{Kind: wire.ControlStatus})
	if err != nil {
		return nil, err
	}
	return reply.Data, nil
}

// Prepare has the next NodeID issued to a process at peerAddr that will replace the one in seat. valid is how long the join
// credential holds.
func (c *ControlClient) Prepare(ctx context.Context, seat int, peerAddr string, valid time.Duration) (*Prepared, error) {
	request := &wire.ControlRequest{Kind: wire.ControlPrepare, Seat: uint8(seat), PeerAddr: peerAddr, ValidMillis: uint64(valid.Milliseconds())}
	if seat < 1 || seat > 5 || valid < leastValid || valid > mostValid {
		return nil, fmt.Errorf("seat %d, valid for %v: a seat is 1 to 5, and a credential holds for %v to %v", seat, valid, leastValid, mostValid)
	}
	if err := CheckPeerAddress(peerAddr); err != nil {
		return nil, fmt.Errorf("peer address %q: %w", peerAddr, err)
	}
	reply, err := c.do(ctx, request)
	if err != nil {
		return nil, err
	}
	credential := auth.JoinCredential{
		Domain: reply.Domain, Seat: reply.Seat, NodeID: reply.Member.NodeID, PeerAddr: reply.PeerAddr, NotAfterMillis: reply.ExpiresMillis,
	}
	text, err := credential.Mint(c.requester.secrets)
	if err != nil {
		return nil, fmt.Errorf("the cluster prepared what makes no credential: %w", err)
	}
	return &Prepared{
		Domain: hex.EncodeToString(reply.Domain[:]), Seat: int(reply.Seat), NodeID: reply.Member.NodeID, PeerAddr: reply.PeerAddr,
		Expires: time.UnixMilli(reply.ExpiresMillis).UTC(), Credential: text,
	}, nil
}

// Abort gives up the replacement under way. It returns what happened in words.
func (c *ControlClient) Abort(ctx context.Context) (string, error) {
	return c.text(ctx, &wire.ControlRequest{Kind: wire.ControlAbort})
}

// Transfer hands leadership to the voter of seat, or to the most up-to-date one if seat is 0. It returns what happened in words.
func (c *ControlClient) Transfer(ctx context.Context, seat int) (string, error) {
	return c.text(ctx, &wire.ControlRequest{Kind: wire.ControlTransfer, Seat: uint8(seat)})
}

// CanStop asks whether the node of seat may stop now without taking the majority along; seat 0 is the first node of Peers that
// answers. why says which seat that is, or why it may not.
func (c *ControlClient) CanStop(ctx context.Context, seat int) (yes bool, why string, err error) {
	why, err = c.text(ctx, &wire.ControlRequest{Kind: wire.ControlCanStop, Seat: uint8(seat)})
	var no *rejection
	if errors.As(err, &no) {
		return false, no.why, nil
	}
	return err == nil, why, err
}

func (c *ControlClient) text(ctx context.Context, request *wire.ControlRequest) (string, error) {
	reply, err := c.do(ctx, request)
	if err != nil {
		return "", err
	}
	return reply.Text, nil
}

const (
	// controlRetry is how long to wait before nodes without a leader are asked again.
	controlRetry = 250 * time.Millisecond
	// mostRedirects bounds how often one round is sent from a node to another as the leader.
	mostRedirects = 5
)

// do has the leader do what request asks. While there is none it asks again until ctx is over.
func (c *ControlClient) do(ctx context.Context, request *wire.ControlRequest) (*wire.ControlReply, error) {
	var leaderless error // what the last whole round has found
	for {
		reply, err := c.round(ctx, request)
		var no *rejection
		switch {
		case errors.As(err, &no) && no.reason == raft.ReasonUnknownSeat:
			return nil, c.unknownSeat(ctx, request.Seat)
		case leaderless != nil && ctx.Err() != nil && (errors.Is(err, ErrClusterUnreachable) || errors.Is(err, ErrNoLeader)):
			return nil, leaderless // ctx has cut this round short: it knows less
		case err == nil || !errors.Is(err, ErrNoLeader):
			return reply, err
		}
		leaderless = err
		timer := time.NewTimer(controlRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
	}
}

// unknownSeat returns the error about a seat that the cluster does not have. It names those that it has, if the leader says so.
func (c *ControlClient) unknownSeat(ctx context.Context, seat uint8) error {
	var status struct{ Members []struct{ Seat int } }
	if data, err := c.Status(ctx); err == nil && json.Unmarshal(data, &status) == nil && len(status.Members) > 0 {
		var seats []string
		for _, m := range status.Members {
			seats = append(seats, strconv.Itoa(m.Seat))
		}
		slices.Sort(seats)
		return fmt.Errorf("seat %d: %w; its seats are %s", seat, ErrUnknownSeat, strings.Join(slices.Compact(seats), ", "))
	}
	return fmt.Errorf("seat %d: %w", seat, ErrUnknownSeat)
}

// round asks each node once, and the leader that they name first.
func (c *ControlClient) round(ctx context.Context, request *wire.ControlRequest) (*wire.ControlReply, error) {
	queue := slices.Clone(c.peers)
	asked := map[string]bool{}
	var problems []error // one of each node
	for redirects := 0; len(queue) > 0; {
		addr := queue[0]
		queue = queue[1:]
		if asked[addr] {
			continue
		}
		asked[addr] = true
		reply, err := c.askNext(ctx, addr, len(queue), request)
		if errors.Is(err, ErrOutcomeUnknown) {
			return nil, err
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		switch reply.Code {
		case wire.ControlDone:
			return reply, nil
		case wire.ControlRejected:
			return nil, &rejection{reasonOf(reply), raft.Reason(reply.Reason)}
		case wire.ControlUnknown:
			return nil, fmt.Errorf("%s: %w", addr, ErrOutcomeUnknown)
		}
		if request.Kind == wire.ControlCanStop && request.Seat == 0 {
			request.Seat = reply.Seat // the leader must know who was asked
		}
		if reply.Leader != "" && redirects < mostRedirects {
			redirects++
			queue = append([]string{reply.Leader}, queue...)
		} else if reply.Leader == "" && request.Kind != wire.ControlStatus {
			// Only its status says what the node waits for.
			if status, err := c.askNext(ctx, addr, len(queue), &wire.ControlRequest{Kind: wire.ControlStatus}); err == nil {
				reply.Data = status.Data
			}
		}
		problems = append(problems, &notLeading{addr, reasonOf(reply)})
	}
	return nil, worst(problems)
}

// askNext asks the node at addr, which others come after: one that is silent must not take their time as well.
func (c *ControlClient) askNext(ctx context.Context, addr string, others int, request *wire.ControlRequest) (*wire.ControlReply, error) {
	r := c.requester
	if deadline, ok := ctx.Deadline(); ok {
		r.limits.handshake = min(r.limits.handshake, untilDeadline(deadline)/time.Duration(others+1))
	}
	began := c.clock.mono()
	reply, err := r.ask(ctx, addr, request)
	if err == nil {
		return reply, nil
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() || errors.Is(err, net.ErrClosed) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = &silence{time.Duration(c.clock.mono() - began), errors.Is(err, errRequestSent)}
	}
	return nil, controlError(addr, err, request.Kind != wire.ControlStatus && request.Kind != wire.ControlCanStop)
}
