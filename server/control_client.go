package server

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// Errors of a ControlClient, beside those of its configuration.
var (
	// ErrClusterUnreachable says that no node could be asked.
	ErrClusterUnreachable = errors.New("no node of the cluster can be reached: look at the peer addresses (--peer, TICKETING_PEERS), and whether nodes run")
	// ErrNoLeader says that nodes answered, but none of them leads and serves.
	ErrNoLeader = errors.New("the cluster has no leader that serves: " + majorityAdvice)
	// ErrNodesUseTLS says that a node speaks TLS, and this side was given none.
	ErrNodesUseTLS = errors.New("the node uses TLS, and this command does not: set TICKETING_PEER_TLS_CERT, TICKETING_PEER_TLS_KEY and TICKETING_PEER_TLS_CA")
	// ErrClusterSecret says that a node does not know the cluster secret, or has refused it.
	ErrClusterSecret = errors.New("the cluster secret does not match: compare TICKETING_CLUSTER_SECRET with the nodes'")
	// ErrOutcomeUnknown says that a request may or may not take effect.
	ErrOutcomeUnknown = errors.New("it is not known whether the request took effect: look at `ticketing cluster status`")
	// ErrControlRejected says that the leader rejected a request, which had no effect.
	ErrControlRejected = errors.New("rejected")
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
}

// CheckPeerAddress reports what is wrong with addr, as the address at which other nodes or a command reach a peer port.
func CheckPeerAddress(addr string) error {
	host, port, err := splitAddress(addr)
	switch {
	case err != nil || port == 0 || isWildcard(host):
		return errors.New("want host:port, as the other nodes reach it")
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
	c := &ControlClient{peers: slices.Clone(cfg.Peers)}
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
			return nil, err
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
	reply, err := c.requester.ask(ctx, peer, &wire.ControlRequest{Kind: wire.ControlStatus})
	if err != nil {
		return nil, controlError(peer, err)
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
		if leaderless != nil && ctx.Err() != nil && errors.Is(err, ErrClusterUnreachable) {
			return nil, leaderless // ctx has cut this round short: it knows less
		}
		if err == nil || !errors.Is(err, ErrNoLeader) {
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

// round asks each node once, and the leader that they name first.
func (c *ControlClient) round(ctx context.Context, request *wire.ControlRequest) (*wire.ControlReply, error) {
	queue := slices.Clone(c.peers)
	asked := map[string]bool{}
	var problems []error
	for redirects := 0; len(queue) > 0; {
		addr := queue[0]
		queue = queue[1:]
		if asked[addr] {
			continue
		}
		asked[addr] = true
		reply, err := c.askNext(ctx, addr, len(queue), request)
		if err != nil {
			err = controlError(addr, err)
			if errors.Is(err, ErrOutcomeUnknown) && request.Kind != wire.ControlStatus && request.Kind != wire.ControlCanStop {
				return nil, err
			}
			problems = append(problems, err)
			continue
		}
		switch reply.Code {
		case wire.ControlDone:
			return reply, nil
		case wire.ControlRejected:
			return nil, &rejection{reasonOf(reply)}
		case wire.ControlUnknown:
			return nil, fmt.Errorf("%s: %w", addr, ErrOutcomeUnknown)
		}
		if request.Kind == wire.ControlCanStop && request.Seat == 0 {
			request.Seat = reply.Seat // the leader must know who was asked
		}
		problems = append(problems, &notLeading{addr, reasonOf(reply)})
		if reply.Leader != "" && redirects < mostRedirects {
			redirects++
			queue = append([]string{reply.Leader}, queue...)
		}
	}
	return nil, worst(problems)
}

// askNext asks the node at addr, which others come after: one that is silent must not take their time as well.
func (c *ControlClient) askNext(ctx context.Context, addr string, others int, request *wire.ControlRequest) (*wire.ControlReply, error) {
	r := c.requester
	if deadline, ok := ctx.Deadline(); ok {
		r.limits.handshake = min(r.limits.handshake, untilDeadline(deadline)/time.Duration(others+1))
	}
	return r.ask(ctx, addr, request)
}

// isAlert reports whether the other side has ended a TLS session with an alert.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// rejection is an ErrControlRejected.
type rejection struct{ why string }

func (r *rejection) Error() string { return ErrControlRejected.Error() + ": " + r.why }
func (r *rejection) Unwrap() error { return ErrControlRejected }

// notLeading is what a node says that does not lead and serve.
type notLeading struct{ addr, why string }

func (n *notLeading) Error() string { return n.addr + ": " + n.why }
func (n *notLeading) Unwrap() error { return ErrNoLeader }

// worst returns all problems of a round as the one that is most worth to be told: a wrong secret or TLS on one side, then that there
// is no leader.
func worst(problems []error) error {
	all := errors.Join(problems...)
	switch {
	case errors.Is(all, ErrClusterSecret), errors.Is(all, ErrNodesUseTLS):
		return all
	case errors.Is(all, ErrNoLeader):
		return fmt.Errorf("%w\n%w", ErrNoLeader, all)
	}
	return fmt.Errorf("%w\n%w", ErrClusterUnreachable, all)
}

// reasonOf puts a reply that is no success into words.
func reasonOf(r *wire.ControlReply) string {
	switch {
	case r.Text != "":
		return strings.TrimPrefix(r.Text, "raft: ")
	case r.Reason != 0:
		return raft.Reason(r.Reason).Error()
	case r.Leader != "":
		return "the leader is at " + r.Leader
	}
	return "nobody leads"
}

// controlError sorts an error of asking the node at addr.
func controlError(addr string, err error) error {
	var unproved *unprovedRefusal
	var plain tls.RecordHeaderError
	var fault wire.PeerFault
	var theirs *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errPeerSecret), errors.As(err, &unproved) && unproved.reason == raft.RefuseSecret:
		return fmt.Errorf("%s: %w", addr, ErrClusterSecret)
	case unproved != nil && unproved.reason == raft.RefuseTLS:
		return fmt.Errorf("%s: %w", addr, ErrNodesUseTLS)
	case errors.Is(err, errRequestSent):
		return fmt.Errorf("%s: %w (%w)", addr, ErrOutcomeUnknown, err)
	case errors.As(err, &theirs):
		return fmt.Errorf("%s: %w: compare TICKETING_PEER_TLS_CA with the node's, and look at the dates of its certificate", addr, err)
	case isAlert(err):
		return fmt.Errorf("%s: %w: the node refuses the certificate in TICKETING_PEER_TLS_CERT; take one of the nodes' CA that is valid now", addr, err)
	case errors.As(err, &plain), errors.As(err, &fault), errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w: give the peer port, and TICKETING_PEER_TLS_* if and only if the nodes have them", addr, err)
	}
	return fmt.Errorf("%s: %w", addr, err)
}
