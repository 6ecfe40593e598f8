package server

import (
	"fmt"
	"io"
	"text/tabwriter"
	"unsafe"

	"ticketing.internal/raft"
	"ticketing.internal/wire"
)

// What one of each costs at worst, in bytes of the process; buffers in the kernel are not counted. TestMemoryConstants and
// TestMemoryOfTLSConnections measure them. An idle connection was measured at 740 B in plaintext.
const (
	processBytes       = 12 << 20
	keyBytes           = 240 // with the longest key
	waiterBytes        = 88
	legacyGrantBytes   = 400 // what a v0 connection remembers of a key that it holds, with the longest key
	legacyWaiterBytes  = 600 // and of one that it waits for
	connectionBytes    = 1 << 10
	tlsConnectionBytes = 80 << 10
	snapshotLockBytes  = 208 // 161 with the longest key, and the room that a growing buffer leaves

	// unsentBytes is what an unsent byte costs: a buffer may be twice as large as what is in it, and so may the list of the marks
	// that a frame has beside it.
	unsentBytes = 2 + 2*int64(unsafe.Sizeof(sentMark{}))/wire.HeaderSize

	// A peer costs what waits for it, as much again that is being written, and what is read from the connections of both
	// directions: a buffer doubles until the longest frame has room.
	peerBytes = 2*peerUrgentBytes + peerBulkBytes + 2*peerReadBytes
	// peerReadBytes is what a connection between nodes reads with at worst.
	peerReadBytes = 2 * wire.MaxPeerBody
	// peerPlaceBytes is for a connection that has not proved the cluster secret, or asks for something: its first buffer, and two
	// goroutines.
	peerPlaceBytes = smallFrameBuffer + 16<<10
)

// memoryItem is what one limit allows.
type memoryItem struct {
	what  string
	count int64
	each  int64 // bytes
}

// memoryAtWorst is what each limit can cost when it is reached.
func (c *Config) memoryAtWorst() []memoryItem {
	keys, waiters, connections := int64(c.MaxKeys), int64(c.MaxWaiters), int64(c.MaxConnections)
	items := []memoryItem{
		{"the process itself", 1, processBytes},
		{"held keys", keys, keyBytes},
		{"waiters", waiters, waiterBytes},
	}
	if c.Legacy {
		items = append(items,
			memoryItem{"grants remembered for v0", legacyGrantsPerKey * keys, legacyGrantBytes},
			memoryItem{"waiters, remembered for v0", waiters, legacyWaiterBytes})
	}
	items = append(items, memoryItem{"connections", connections, connectionBytes})
	if c.TLSCert != "" {
		items = append(items, memoryItem{"TLS of connections", connections, tlsConnectionBytes - connectionBytes})
	}
	items = append(items, memoryItem{"bytes of unsent replies", c.MaxBuffered, unsentBytes})
	if len(c.nodeVariables()) == 0 {
		return items
	}
	const others = raft.MaxVoters // of which one is this node, and a newcomer comes beside them
	places := int64(peerPlacesInAll + mostRequestConns + mostStrangers)
	items = append(items,
		memoryItem{"releases that wait", waiters, waiterBytes},
		memoryItem{"bytes of the Raft log", int64(raft.Config{LogBytes: int(c.Cluster.LogMemory)}.MostLogBytes()), 1},
		memoryItem{"locks in a snapshot", keys, snapshotLockBytes},
		memoryItem{"other nodes", others, peerBytes},
		memoryItem{"others on the peer port", places, peerPlaceBytes})
	if c.Cluster.TLSCert != "" {
		items = append(items, memoryItem{"TLS on the peer port", places + 2*others, tlsConnectionBytes})
	}
	return items
}

// describeMemory writes what each limit can cost when it is reached, and the sum.
func (c *Config) describeMemory(w io.Writer) {
	fmt.Fprintln(w, "memory at worst, with every limit reached:")
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var sum int64
	for _, item := range c.memoryAtWorst() {
		sum += item.count * item.each
		fmt.Fprintf(tabs, "%s\t%d x %d B =\t%s\t\n", item.what, item.count, item.each, formatMebibytes(item.count*item.each))
	}
	fmt.Fprintf(tabs, "in all\t\t%s\t\n", formatMebibytes(sum))
	fmt.Fprintf(tabs, "with garbage, before it is collected (GOGC=100)\t\t%s\t\n", formatMebibytes(2*sum))
	tabs.Flush()
}

func formatMebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/mebibyte) }
