package raft

// MessageKind is the frame type of a message between nodes (docs/protocol-peer.md, Messages).
type MessageKind uint8

// The messages that Step takes.
const (
	MsgPreVote              MessageKind = 10
	MsgPreVoteReply         MessageKind = 11
	MsgRequestVote          MessageKind = 12
	MsgRequestVoteReply     MessageKind = 13
	MsgAppendEntries        MessageKind = 14
	MsgAppendEntriesReply   MessageKind = 15
	MsgInstallSnapshot      MessageKind = 16
	MsgInstallSnapshotReply MessageKind = 17
	MsgTimeoutNow           MessageKind = 18
)

// String returns the name of the Raft paper.
func (k MessageKind) String() string {
	switch k {
	case MsgPreVote:
		return "PreVote"
	case MsgPreVoteReply:
		return "PreVoteReply"
	case MsgRequestVote:
		return "RequestVote"
	case MsgRequestVoteReply:
		return "RequestVoteReply"
	case MsgAppendEntries:
		return "AppendEntries"
	case MsgAppendEntriesReply:
		return "AppendEntriesReply"
	case MsgInstallSnapshot:
		return "InstallSnapshot"
	case MsgInstallSnapshotReply:
		return "InstallSnapshotReply"
	case MsgTimeoutNow:
		return "TimeoutNow"
	}
	return "unknown"
}

// Message is one Raft message. It is flat so that a batch of them costs no allocation; the comment of each field
// names the kinds that use it. From and To are not in the body: a connection is bound to both at its handshake.
type Message struct {
	Kind MessageKind
	From Member
	To   Member
	// Term is the sender's, except: in PreVote the one that it would stand in, and in a granted PreVoteReply the
	// one of the request.
	Term uint64

	// Index and LogTerm name a log position.
	//	PreVote, RequestVote   the sender's last entry
	//	AppendEntries          the entry before Entries
	//	AppendEntriesReply     success: the last index known to match (LogTerm 0).
	//	                       Rejected: the Index of the request; LogTerm is the term at Hint
	//	InstallSnapshot, reply the last entry that the snapshot includes
	Index   uint64
	LogTerm uint64

	// Reject is set in a reply that refuses.
	Reject bool
	// Hint is, in a rejected AppendEntriesReply, an index at or below which the logs may agree.
	Hint uint64
	// NeedSnapshot is, in a rejected AppendEntriesReply, set by a member that has no state to append to.
	NeedSnapshot bool

	// Commit is, in AppendEntries, the leader's commit index.
	Commit uint64
	// Entries are, in AppendEntries, consecutive from Index+1.
	Entries []Entry

	// TransferTerm is, in RequestVote, the term of the leader that sent TimeoutNow; 0 without a transfer.
	TransferTerm uint64
	// Target is, in TimeoutNow and in the RequestVote that follows it, the member that shall lead.
	Target Member

	// Attempt, Offset, Last, Raft and Data are of InstallSnapshot; its reply carries Attempt, and in Offset the
	// bytes of Data received in all, in Last that the snapshot is installed (or was not needed).
	Attempt uint32
	Offset  uint64
	Last    bool
	Raft    []byte // an encoded SnapshotState, in the chunk at offset 0 alone
	Data    []byte // the application's bytes from Offset on
}
