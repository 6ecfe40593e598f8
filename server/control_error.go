package server

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ticketing.internal/raft"
	"ticketing.internal/tlsconf"
	"ticketing.internal/wire"
)

// Errors of a ControlClient, beside those of its configuration.
var (
	// ErrClusterUnreachable says that no node could be asked.
	ErrClusterUnreachable = errors.New("no node of the cluster can be reached: look at the peer addresses (--peer, TICKETING_PEERS), and whether nodes run")
	// ErrNoLeader says that nodes answered, but none of them leads and serves.
	ErrNoLeader = errors.New("no leader that serves was found")
	// ErrNodesUseTLS says that a node speaks TLS, and this side was given none.
	ErrNodesUseTLS = errors.New("the node uses TLS, and this command does not: set TICKETING_PEER_TLS_CERT, TICKETING_PEER_TLS_KEY and TICKETING_PEER_TLS_CA")
	// ErrPeerCertificate says that this side or a node refused the other's certificate.
	ErrPeerCertificate = errors.New("a certificate was refused: this command and the nodes need certificates of one CA, valid now")
	// ErrClusterSecret says that a node does not know the cluster secret, or has refused it.
	ErrClusterSecret = errors.New("the cluster secret does not match: compare TICKETING_CLUSTER_SECRET with the nodes'")
	// ErrOutcomeUnknown says that a request may or may not take effect.
	ErrOutcomeUnknown = errors.New("it is not known whether the request took effect: look at `ticketing cluster status`")
	// ErrControlRejected says that the leader rejected a request, which had no effect.
	ErrControlRejected = errors.New("rejected")
	// ErrUnknownSeat says that a request names a seat that the cluster does not have. It had no effect.
	ErrUnknownSeat = errors.New("the cluster has no such seat")
)

// rejection is an ErrControlRejected.
type rejection struct {
	why    string
	reason raft.Reason // 0 if the leader gives none
}

func (r *rejection) Error() string { return ErrControlRejected.Error() + ": " + r.why }
func (r *rejection) Unwrap() error { return ErrControlRejected }

// notLeading is what a node says that does not lead and serve.
type notLeading struct{ addr, why string }

func (n *notLeading) Error() string { return n.addr + ": " + n.why }
func (n *notLeading) Unwrap() error { return ErrNoLeader }

// silence is the error of a node that did not answer in time.
type silence struct {
	waited time.Duration
	sent   bool // the request had left
}

func (s *silence) Error() string {
	waited := s.waited.Round(10 * time.Millisecond)
	if s.sent {
		return fmt.Sprintf("no answer came back within %v", waited)
	}
	return fmt.Sprintf("no answer within %v: is this the peer port of a node that runs, and can it be reached from here?", waited)
}

func (s *silence) Unwrap() error {
	if s.sent {
		return errRequestSent
	}
	return nil
}

// worst returns all problems of a round, one of each node, below the one that is most worth to be told: a wrong secret or TLS on one
// side, then that there is no leader.
func worst(problems []error) error {
	all := errors.Join(problems...)
	switch {
	case errors.Is(all, ErrClusterSecret), errors.Is(all, ErrNodesUseTLS):
		return all
	case errors.Is(all, ErrPeerCertificate):
		return fmt.Errorf("%w\n%w", ErrPeerCertificate, all)
	case errors.Is(all, ErrNoLeader):
		return leaderless(problems)
	}
	return fmt.Errorf("%w\n%w", ErrClusterUnreachable, all)
}

// leaderless says how many nodes answered. What to do without a majority is its advice only if one of them says that it is out of reach,
// and all answered: what a node says that is cut off stands below, in its own name.
func leaderless(problems []error) error {
	var answers []*notLeading
	stranded := false
	for _, p := range problems {
		var n *notLeading
		if errors.As(p, &n) {
			answers = append(answers, n)
			stranded = stranded || strings.Contains(n.why, majorityAdvice)
		}
	}
	found := fmt.Sprintf("%d of %d nodes answered, and none leads", len(answers), len(problems))
	if len(answers) == 1 {
		found = fmt.Sprintf("1 of %d nodes answered, and it does not lead", len(problems))
	}
	switch {
	case !stranded:
	case len(answers) < len(problems):
		found += "; ask the others from where they can be reached before you give the cluster up"
	default:
		found += "; " + majorityAdvice
		for _, n := range answers {
			n.why = strings.TrimSuffix(n.why, "; "+majorityAdvice)
		}
	}
	return fmt.Errorf("%w: %s\n%w", ErrNoLeader, found, errors.Join(problems...))
}

// reasonOf puts a reply that is no success into words. What the node itself waits for says most.
func reasonOf(r *wire.ControlReply) string {
	var status struct {
		WhyNotReady string `json:"why_not_ready"`
	}
	if r.Code == wire.ControlNotLeader && r.Leader != "" {
		return "the leader is at " + r.Leader
	}
	if json.Unmarshal(r.Data, &status) == nil && status.WhyNotReady != "" {
		return status.WhyNotReady
	}
	switch {
	case r.Text != "":
		return strings.TrimPrefix(r.Text, "raft: ")
	case r.Reason != 0:
		return raft.Reason(r.Reason).Error()
	}
	return "nobody leads"
}

// controlError sorts an error of asking the node at addr. changes says whether the request would change anything.
func controlError(addr string, err error, changes bool) error {
	var unproved *unprovedRefusal
	var plain tls.RecordHeaderError
	var fault wire.PeerFault
	var theirs *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errPeerSecret), errors.As(err, &unproved) && unproved.reason == raft.RefuseSecret:
		return fmt.Errorf("%s: %w", addr, ErrClusterSecret)
	case unproved != nil && unproved.reason == raft.RefuseTLS:
		return fmt.Errorf("%s: %w", addr, ErrNodesUseTLS)
	case errors.Is(err, errRequestSent) && changes:
		return fmt.Errorf("%s: %w (%w)", addr, ErrOutcomeUnknown, err)
	case errors.As(err, &theirs):
		return &refusedCertificate{fmt.Errorf("%s: %w: compare TICKETING_PEER_TLS_CA with the node's, and look at the dates of its certificate", addr, err)}
	case tlsconf.IsAlert(err):
		return &refusedCertificate{fmt.Errorf("%s: %w: the node refuses the certificate in TICKETING_PEER_TLS_CERT; take one of the nodes' CA that is valid now", addr, err)}
	case errors.As(err, &plain), errors.As(err, &fault), errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w: give the peer port, and TICKETING_PEER_TLS_* if and only if the nodes have them", addr, err)
	}
	return fmt.Errorf("%s: %w", addr, err)
}

// refusedCertificate is an ErrPeerCertificate.
type refusedCertificate struct{ error }

func (r *refusedCertificate) Unwrap() []error { return []error{ErrPeerCertificate, r.error} }
