package raft

import "fmt"

// ControlKind says what a Control entry asks for.
type ControlKind uint8

// The kinds of Control entry, with the fields of Control that each uses beside WallMillis.
const (
	ControlBootstrap   ControlKind = 1 // Initial, TokenBase, AfterLoss
	ControlServiceOpen ControlKind = 2 // none
	ControlPrepare     ControlKind = 3 // Seat, PeerAddr, ExpiresMillis
	ControlAdmit       ControlKind = 4 // Seat, Newcomer, Credential, PeerAddr, ClientAddr
	ControlRejoin      ControlKind = 5 // Seat, Replaces, Newcomer (NodeID 0: issued at apply), PeerAddr, ClientAddr
	ControlJoint       ControlKind = 6 // Configuration
	ControlFinal       ControlKind = 7 // Configuration
	ControlAbort       ControlKind = 8 // Newcomer.NodeID (0: whichever is under way), Cause
	ControlBurn        ControlKind = 9 // none: the domain did not open before its credential ended
)

// String returns the kind's name.
func (k ControlKind) String() string {
	switch k {
	case ControlBootstrap:
		return "bootstrap"
	case ControlServiceOpen:
		return "service open"
	case ControlPrepare:
		return "prepare"
	case ControlAdmit:
		return "admit"
	case ControlRejoin:
		return "rejoin"
	case ControlJoint:
		return "joint"
	case ControlFinal:
		return "final"
	case ControlAbort:
		return "abort"
	case ControlBurn:
		return "burn"
	}
	return fmt.Sprintf("control %d", uint8(k))
}

// CredentialID identifies a bootstrap or join credential: the first 16 bytes of its MAC.
type CredentialID [16]byte

// AbortCause says why a replacement was given up.
type AbortCause uint8

// The causes of an abort.
const (
	AbortOperator AbortCause = 1 // ticketing cluster abort
	AbortExpired  AbortCause = 2 // the join credential ended unused
	AbortSilent   AbortCause = 3 // the learner was silent for 60 s
	AbortSlow     AbortCause = 4 // the learner did not catch up in 10 min
)

// Control is a request about the cluster itself. As an entry it is applied to the Registry on every member with the
// same Outcome. The comments at the kinds say which fields count.
type Control struct {
	Kind ControlKind
	// WallMillis is the leader's wall clock when it proposed, Unix milliseconds: apply reads no clock, and what
	// expires is judged by this. The leader fills it in.
	WallMillis int64

	Seat          Seat
	Replaces      Member // the seat's voter as the requester knows it
	Newcomer      Member
	Credential    CredentialID
	PeerAddr      string
	ClientAddr    string
	ExpiresMillis int64 // Unix milliseconds
	Cause         AbortCause

	Configuration Configuration

	Initial   *InitialConfig
	TokenBase uint64
	AfterLoss bool

	// Marker is not part of the entry: the incarnations in the rejoining process's marker, by which the leader
	// fills in Replaces (Node.ProposeControl).
	Marker []Member
}

// Result classifies an Outcome.
type Result uint8

// The results of Control entries (docs/protocol-peer.md, Entries).
const (
	ResultNone                Result = 0 // not a Control entry
	ResultBootstrapRecorded   Result = 1
	ResultReplacementPrepared Result = 2
	ResultAdmissionAccepted   Result = 3
	ResultControlApplied      Result = 4
	ResultControlRejected     Result = 5
)

// Outcome is what a Control did, the same on every member.
type Outcome struct {
	Result Result
	Reason Reason // why it was rejected, else 0
	Seat   Seat
	// Member is the newcomer: its NodeID after prepare, the pair after admission.
	Member Member
	// Retired is the member that the entry retired, if any (final, abort, a rejoin over one's own learner).
	Retired Member
	// ExpiresMillis is the end of the prepared credential, Unix milliseconds.
	ExpiresMillis int64
	// PeerAddr is the address that the newcomer is bound to.
	PeerAddr string
}

// Reason says why a Control was rejected. It is an error value.
type Reason uint8

// The reasons. Retry says which of them pass by themselves.
const (
	ReasonMalformed          Reason = 1  // the entry does not decode, or a field is out of range
	ReasonBootstrapTwice     Reason = 2  // a Bootstrap entry is applied already
	ReasonNotBootstrapped    Reason = 3  // no Bootstrap entry is applied yet
	ReasonNotOpen            Reason = 4  // ServiceOpen is not applied yet
	ReasonAlreadyOpen        Reason = 5  // ServiceOpen is applied already
	ReasonBurned             Reason = 6  // the domain never opened and never will
	ReasonUnknownSeat        Reason = 7  // no such seat
	ReasonUnderWay           Reason = 8  // a replacement is under way
	ReasonNoReplacement      Reason = 9  // no replacement is under way, or another one
	ReasonAddressInUse       Reason = 10 // the address belongs to another member
	ReasonAddressMismatch    Reason = 11 // not the address that the registry holds for it
	ReasonCredentialExpired  Reason = 12 // the credential's time is over
	ReasonCredentialConsumed Reason = 13 // another incarnation has used the credential
	ReasonSeatTaken          Reason = 14 // the seat's voter is none of the requester's incarnations
	ReasonReplacedMeanwhile  Reason = 15 // the pair to replace is no longer the seat's voter
	ReasonTooSoon            Reason = 16 // the seat was replaced a short while ago
	ReasonStillHeard         Reason = 17 // the leader still hears from the member to be replaced
	ReasonJointAppended      Reason = 18 // the joint entry is in the log: the change goes forward only
	ReasonConfiguration      Reason = 19 // the configuration does not follow from the one in force
	ReasonNotLearner         Reason = 20 // the newcomer is not admitted
	ReasonNotLate            Reason = 21 // the credential has not ended yet
	ReasonIncarnationKnown   Reason = 22 // the incarnation had a life in the domain before
)

var reasonTexts = [...]string{
	ReasonMalformed:          "malformed request",
	ReasonBootstrapTwice:     "the domain is bootstrapped already",
	ReasonNotBootstrapped:    "the domain is not bootstrapped yet",
	ReasonNotOpen:            "the domain is not open yet",
	ReasonAlreadyOpen:        "the domain is open already",
	ReasonBurned:             "the domain did not open in time and never will: make a new one",
	ReasonUnknownSeat:        "unknown seat",
	ReasonUnderWay:           "a replacement is under way",
	ReasonNoReplacement:      "no such replacement is under way",
	ReasonAddressInUse:       "the address belongs to another member",
	ReasonAddressMismatch:    "not the address that the registry holds for the seat",
	ReasonCredentialExpired:  "the credential has expired",
	ReasonCredentialConsumed: "the credential was used by another process",
	ReasonSeatTaken:          "seat taken by another process",
	ReasonReplacedMeanwhile:  "the member was replaced meanwhile",
	ReasonTooSoon:            "the seat was replaced a short while ago: wait",
	ReasonStillHeard:         "the member to be replaced is still alive",
	ReasonJointAppended:      "the joint configuration is in the log: the replacement goes forward only",
	ReasonConfiguration:      "the configuration does not follow from the one in force",
	ReasonNotLearner:         "the newcomer is not admitted",
	ReasonNotLate:            "the credential has not ended yet",
	ReasonIncarnationKnown:   "this incarnation had a life in the domain before",
}

// Error returns the reason in words.
func (r Reason) Error() string {
	if int(r) < len(reasonTexts) && reasonTexts[r] != "" {
		return reasonTexts[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Retry reports whether the same request may succeed later without anybody's help.
func (r Reason) Retry() bool {
	switch r {
	case ReasonNotBootstrapped, ReasonNotOpen, ReasonUnderWay, ReasonTooSoon, ReasonStillHeard:
		return true
	}
	return false
}
