package rafttest

import (
	"ticketing.internal/raft"
)

// appended checks one entry put into a log: it follows the last, and whatever has the same index and term anywhere else
// holds the same, and the same before it (log matching).
func (c *checker) appended(r *record, e *raft.Event) {
	if r.refill && e.Index <= r.last() && e.Index > r.base {
		c.cut(r, e.Index) // the log was dropped when the snapshot was installed
	}
	r.refill = false
	if e.Index != r.last()+1 {
		c.s.fail("log is contiguous", "%v appends %d behind %d", r.p, e.Index, r.last())
	}
	before := c.hashBefore(r, e.Index)
	data := hashWord(hashBytes(fnvOffset, e.Entry.Data), uint64(e.Entry.Kind))
	hash := hashWord(hashWord(before, e.LogTerm), data)
	v := c.variant(e.Index, e.LogTerm)
	if v.hash == 0 {
		*v = newVariant(e, hash, data)
	}
	if v.hash != hash {
		c.s.fail("log matching", "%v has another entry %d of term %d, or another before it, than some node had", r.p, e.Index, e.LogTerm)
	}
	if r.role == raft.RoleLeader && e.LogTerm == r.term && r.firstOf == 0 {
		r.firstOf = e.Index
	}
	r.log = append(r.log, logEntry{e.LogTerm, hash})
	r.events++
	c.push(r, e.Index, v)
}

// newVariant describes an entry that is seen for the first time.
func newVariant(e *raft.Event, hash, data uint64) variant {
	v := variant{term: e.LogTerm, hash: hash, data: data, kind: e.Entry.Kind}
	if v.kind != raft.EntryControl {
		return v
	}
	if control, err := raft.DecodeControl(e.Entry.Data); err == nil {
		v.control = control.Kind
		if v.control == raft.ControlJoint || v.control == raft.ControlFinal {
			v.config = &control.Configuration
		}
	}
	return v
}

// hashBefore returns the hash of everything before index in a log.
func (c *checker) hashBefore(r *record, index uint64) uint64 {
	if index-1 > r.base {
		return r.log[index-r.base-2].hash
	}
	return c.committed[r.base].hash
}

// variant returns the row of (index, term), making an empty one.
func (c *checker) variant(index, term uint64) *variant {
	for uint64(len(c.entries)) <= index {
		c.entries = append(c.entries, nil)
	}
	row := c.entries[index]
	for i := range row {
		if row[i].term == term {
			return &row[i]
		}
	}
	c.entries[index] = append(row, variant{term: term})
	return &c.entries[index][len(row)]
}

// truncated checks a removal: never by a leader, never of what is committed. A member whose term is over may remove what a
// later term has committed without it: a leader of its own term, late to be heard, has another entry there. It was not counted,
// and whoever leads from then on has what is committed.
func (c *checker) truncated(r *record, e *raft.Event) {
	if e.Detail != "" {
		return // the whole log makes room for a snapshot: snapshotInstalled follows
	}
	c.s.cover[CoverTruncated]++
	if r.role == raft.RoleLeader && e.Term == r.term && r.firstOf > 0 {
		c.s.fail("leader append-only", "%v leads term %d and removes entries from %d on", r.p, r.term, e.Index)
	}
	if e.Index <= r.commit {
		c.s.fail("committed stays", "%v removes %d, committed there is %d", r.p, e.Index, r.commit)
	}
	if e.Index < uint64(len(c.committed)) {
		at := c.committed[e.Index]
		if had, ok := r.at(e.Index); ok && had.hash == at.hash && e.Term >= at.by {
			c.s.fail("committed stays", "%v removes %d in term %d, which is committed since term %d", r.p, e.Index, e.Term, at.by)
		}
	}
	c.cut(r, e.Index)
}

// cut removes the entries from index on, and the configurations among them.
func (c *checker) cut(r *record, index uint64) {
	r.log = r.log[:index-r.base-1]
	for len(r.configs) > 1 && r.configs[len(r.configs)-1].index >= index {
		r.configs = r.configs[:len(r.configs)-1]
		c.s.cover[CoverConfigTruncated]++
	}
}

// commits checks a commit index: it grows, it is within the log, the entries there are those committed everywhere, and
// whoever is counted for it has them. A leader counts for entries of its own term only.
func (c *checker) commits(r *record, e *raft.Event) {
	if e.Index <= r.commit {
		c.s.fail("commit index grows", "%v commits %d after %d", r.p, e.Index, r.commit)
	}
	at, ok := r.at(e.Index)
	if !ok {
		c.s.fail("commit within the log", "%v commits %d, its log ends at %d", r.p, e.Index, r.last())
	}
	if len(e.Quorum) > 0 {
		c.checkQuorum(r, e, "commit")
		c.checkCounted(r, e, at)
		c.extend(r, e.Index)
	}
	if e.Index >= uint64(len(c.committed)) {
		c.s.fail("commit by a leader first", "%v commits %d, no leader has committed more than %d", r.p, e.Index, len(c.committed)-1)
	}
	if c.committed[e.Index].hash != at.hash {
		c.s.fail("state machine safety", "%v commits another entry %d (of term %d) than was committed (of term %d)", r.p, e.Index, at.term, c.committed[e.Index].term)
	}
	r.commit = e.Index
}

// checkCounted checks that all who were counted for a commit hold the entry.
func (c *checker) checkCounted(r *record, e *raft.Event, at logEntry) {
	if at.term != e.Term {
		c.s.fail("own term by count", "%v, leader of term %d, commits entry %d of term %d by counting", r.p, e.Term, e.Index, at.term)
	}
	for _, m := range e.Quorum {
		if other := c.records[m]; other == nil || !other.holds(e.Index, at.hash) {
			c.s.fail("counted have it", "%v commits %d and counts %v, which does not hold it", r.p, e.Index, m)
		}
	}
}

// extend makes everything in r's log up to index committed.
func (c *checker) extend(r *record, index uint64) {
	for i := uint64(len(c.committed)); i <= index; i++ {
		at, ok := r.at(i)
		if !ok {
			c.s.fail("commit within the log", "%v commits %d and does not hold %d", r.p, index, i)
		}
		c.committed = append(c.committed, commit{hash: at.hash, term: at.term, by: r.term})
		v := c.variant(i, at.term)
		if v.config != nil {
			c.configs = append(c.configs, configAt{i, *v.config})
		}
		c.controlCommitted(r, i, v)
	}
}

// snapshotInstalled checks an installed snapshot: it never lowers what is committed, and holds the configuration in force.
func (c *checker) snapshotInstalled(r *record, e *raft.Event) {
	c.s.cover[CoverSnapshotInstalled]++
	c.s.triggered(whenSnapshotInstalled, r.p)
	if e.Index <= r.commit {
		c.s.fail("commit index grows", "%v installs a snapshot of %d over %d", r.p, e.Index, r.commit)
	}
	if e.Index >= uint64(len(c.committed)) {
		c.s.fail("snapshots are committed", "%v installs a snapshot of %d, committed is %d", r.p, e.Index, len(c.committed)-1)
	}
	at := c.committed[e.Index]
	if at.term != e.LogTerm {
		c.s.fail("snapshots are committed", "%v installs a snapshot of %d in term %d; committed there is term %d", r.p, e.Index, e.LogTerm, at.term)
	}
	want := c.committedAt(e.Index)
	if !want.config.Equal(e.Configuration) {
		c.s.fail("snapshot configuration", "%v installs %v at %d; in force is %v", r.p, e.Configuration, e.Index, want.config)
	}
	if want.config.Joint() {
		c.s.cover[CoverSnapshotInJoint]++
	}
	c.rebase(r, e.Index, at.hash, want)
	r.commit, r.applied, r.refill = e.Index, e.Index, true
}

// rebase lets a log begin after index. A suffix that continues the snapshot stays.
func (c *checker) rebase(r *record, index, hash uint64, config configAt) {
	var rest []logEntry
	kept := []configAt{config}
	if had, ok := r.at(index); ok && had.hash == hash {
		rest = append(rest, r.log[index-r.base:]...)
		for _, k := range r.configs {
			if k.index > index {
				kept = append(kept, k)
			}
		}
	}
	r.base, r.log, r.configs = index, rest, kept
}

// installed checks what the node tells its driver of the snapshot.
func (c *checker) installed(p *process, i *raft.Installed) {
	if r := c.records[p.member]; r.applied != i.Index {
		c.s.fail("snapshots are committed", "%v: the snapshot told is %d, the installed one %d", p, i.Index, r.applied)
	}
}
