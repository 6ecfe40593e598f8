package server

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ticketing.internal/auth"
	"ticketing.internal/raft"
)

// startMode is what a process does when it starts.
type startMode uint8

const (
	startAlone     startMode = iota + 1 // a standalone server
	startBootstrap                      // takes part in the bootstrap of a new domain
	startJoin                           // joins as the replacement that a credential names
	startRejoin                         // asks to be its own replacement
)

func (m startMode) String() string {
	switch m {
	case startAlone:
		return "standalone"
	case startBootstrap:
		return "bootstrap"
	case startJoin:
		return "join"
	case startRejoin:
		return "rejoin"
	}
	return "none"
}

// startDecision is what a process does when it starts, and what it knows for that. For a standalone server only mode and notes are set.
type startDecision struct {
	mode     startMode
	domain   raft.Domain
	seat     raft.Seat
	peerAddr string // at which the other nodes reach this one
	// lookAt are peer addresses at which the cluster may be found, at least one, each once, without this node's own.
	lookAt []string
	// credential identifies the bootstrap or join credential; credentialEnd (Unix ms) is its end, of a rejoin the marker's.
	credential    raft.CredentialID
	credentialEnd int64
	bootstrap     *auth.BootstrapCredential // of a bootstrap
	join          *auth.JoinCredential      // of a join
	// elseRejoin tells a join what to do if its credential turns out to be consumed by another incarnation: true, rejoin; false, end.
	// Without a marker of the domain there is nothing to rejoin as.
	elseRejoin bool
	// marker is what the directory holds, or nil. It is of another domain than this start's if otherDomain is set.
	marker      *marker
	otherDomain bool
	tokenMark   uint64 // the marker's, 0 without one
	// notes are for the log, a line each.
	notes []string
}

// nodeError ends a node whose identity is used up, or that cannot get one: a restart will not help. It says what to do.
type nodeError struct{ text string }

func (e *nodeError) Error() string { return e.text }

// nodeErrorf returns a nodeError.
func nodeErrorf(format string, args ...any) error { return &nodeError{fmt.Sprintf(format, args...)} }

// startFacts is all that decides what a process does when it starts.
type startFacts struct {
	config    *Config // valid
	kept      keptState
	ramDisk   string // the RAM file system that the state directory lies on, or ""
	given     startCredentials
	nowMillis int64 // Unix ms
}

// startCredentials are those of the environment; nil: not given. An error says why one cannot be used.
type startCredentials struct {
	bootstrap    *auth.BootstrapCredential
	bootstrapID  raft.CredentialID
	bootstrapErr error
	join         *auth.JoinCredential
	joinID       raft.CredentialID
	joinErr      error
}

// readCredentials reads those of the environment. Without a cluster secret, which a valid node has, it reads none.
func readCredentials(k *ClusterConfig) (given startCredentials) {
	secrets, err := k.secrets()
	if err != nil {
		return given
	}
	if k.Bootstrap != "" {
		c, id, err := auth.ParseBootstrap(secrets, string(k.Bootstrap))
		given.bootstrap, given.bootstrapID, given.bootstrapErr = c, raft.CredentialID(id), err
	}
	if k.Join != "" {
		c, id, err := auth.ParseJoin(secrets, string(k.Join))
		given.join, given.joinID, given.joinErr = c, raft.CredentialID(id), err
	}
	return given
}

// planStart decides what a process with cfg does when it starts, by what state (nil without a state directory) holds. The marker is
// nil for a standalone server. Errors say what to do, and ExitCode knows their exit codes.
func planStart(cfg *Config, state *stateFile, nowMillis int64) (d startDecision, m *markerFile, err error) {
	facts := startFacts{config: cfg, given: readCredentials(&cfg.Cluster), nowMillis: nowMillis}
	if state != nil {
		if facts.kept, err = state.inspect(); err != nil {
			return d, nil, err
		}
		if facts.ramDisk, err = state.ramDisk(); err != nil {
			return d, nil, err
		}
	}
	if d, err = facts.decide(); err != nil || d.mode == startAlone {
		return d, nil, err
	}
	return d, newMarkerFile(state, facts.kept.marker), nil
}

// decide chooses what a process becomes by what earlier lives have left in the state directory and by what it is given. An expired
// credential counts as not given, and two credentials are an error.
//
//	marker             given               becomes
//	none               bootstrap           a first node; if it turns out that the others run: exit 78
//	none               join                the replacement that the credential names
//	this domain's      a join not used     that new member; the marker is updated
//	this domain's      else, or nothing    a replacement of itself; with TICKETING_REJOIN=off exit 78
//	another domain's   bootstrap or join   as with none; the marker is overwritten when the new domain has answered
//	none               node variables      exit 78: one of the two credentials is missing
//	standalone state   node variables      exit 78
//	none               nothing             a standalone server
func (f *startFacts) decide() (d startDecision, err error) {
	c, m := f.config, f.kept.marker
	names := c.nodeVariables()
	switch {
	case f.kept.alone && len(names) > 0:
		return d, nodeErrorf("TICKETING_STATE_DIR=%q holds the state of a standalone server, and %s would make this a node of a cluster: "+
			"give the node a directory of its own, or take these variables away", c.StateDir, strings.Join(names, ", "))
	case m == nil && len(names) == 0:
		return startDecision{mode: startAlone}, nil
	}
	if err := f.checkNode(); err != nil {
		return d, err
	}
	d.marker = m
	if m != nil {
		d.tokenMark = m.tokenMark
	}
	d.notes = f.ignored()
	bootstrap, join, err := f.usable(&d)
	switch {
	case err != nil:
		return d, err
	case join != nil:
		err = f.joins(&d, join)
	case bootstrap != nil && (m == nil || m.domain != raft.Domain(bootstrap.Domain)):
		err = f.bootstraps(&d, bootstrap)
	case m == nil:
		err = f.choices(d.notes)
	default:
		if bootstrap != nil {
			d.notes = append(d.notes, "TICKETING_BOOTSTRAP is of the domain in which this node had a life already: it counts as not given")
		}
		err = f.rejoins(&d)
	}
	if err != nil {
		return d, err
	}
	if s := c.Cluster.Seat; s != 0 && s != int(d.seat) {
		d.notes = append(d.notes, fmt.Sprintf("TICKETING_SEAT=%d counts at a bootstrap only: the %s says that this node's seat is %d; take the variable away, "+
			"or give the node what belongs to seat %d", s, f.source(&d), d.seat, s))
	}
	if given := c.Cluster.PeerAdvertise; given != "" && given != d.peerAddr {
		return d, nodeErrorf("TICKETING_PEER_ADVERTISE=%q: the %s says that the other nodes reach this one at %q; take the variable away, or %s",
			given, f.source(&d), d.peerAddr, d.otherAddress(given))
	}
	if c.Cluster.PeerAdvertise == "" && elsewhere(c.Cluster.PeerListen, d.peerAddr) {
		d.notes = append(d.notes, fmt.Sprintf("TICKETING_PEER_LISTEN=%q: the %s says that the other nodes reach this one at %q, where it does not listen: "+
			"they will not find it; listen there, or %s. If that address is forwarded to this one, TICKETING_PEER_ADVERTISE=%s says so and ends this warning",
			c.Cluster.PeerListen, f.source(&d), d.peerAddr, d.otherAddress("HOST:PORT"), d.peerAddr))
	}
	d.lookAt = slices.DeleteFunc(d.lookAt, func(a string) bool { return a == d.peerAddr })
	if len(d.lookAt) == 0 {
		return d, nodeErrorf("TICKETING_PEERS: required here, for neither a marker nor the credential says where the members are: "+
			"the peer address of one of them at least%s", inBrackets(d.notes))
	}
	return d, nil
}

// elsewhere reports whether addr is surely another address than the one listened on: another port, or another IP address. What a
// name stands for is not looked up, and port 0 is chosen later.
func elsewhere(listen, addr string) bool {
	host, port, err := splitAddress(listen)
	other, otherPort, otherErr := splitAddress(addr)
	if err != nil || otherErr != nil || port == 0 {
		return false
	}
	if port != otherPort {
		return true
	}
	ip, err := netip.ParseAddr(host)
	otherIP, otherErr := netip.ParseAddr(other)
	return err == nil && otherErr == nil && !ip.IsUnspecified() && ip.Unmap() != otherIP.Unmap()
}

// otherAddress says how the node's seat gets another peer address. Before the bootstrap there is no cluster to ask for a replacement.
func (d *startDecision) otherAddress(addr string) string {
	if d.mode == startBootstrap {
		return "make another credential, for all first nodes (ticketing cluster init --seat " + fmt.Sprint(d.seat) + "=" + addr + " ...)"
	}
	return fmt.Sprintf("replace the seat under its new address (ticketing cluster replace --seat %d --peer-addr %s)", d.seat, addr)
}

// source is where the node's address is known from.
func (f *startFacts) source(d *startDecision) string {
	if d.mode == startRejoin {
		return "marker"
	}
	return "credential"
}

// checkNode says what a node of a cluster lacks, all at once.
func (f *startFacts) checkNode() error {
	problems := &ConfigError{}
	f.config.checkNode(problems)
	if f.ramDisk != "" && !f.config.AllowVolatileStateDir {
		problems.add("TICKETING_STATE_DIR=%q lies on a RAM file system (%s), and a node that forgets its marker could live twice: a directory on a "+
			"disk is allowed, or, for tests, TICKETING_ALLOW_VOLATILE_STATE_DIR=yes", f.config.StateDir, f.ramDisk)
	}
	if len(problems.Problems) > 0 && f.kept.marker != nil && len(f.config.nodeVariables()) == 0 {
		problems.add("TICKETING_STATE_DIR=%q holds the marker of a node of a cluster (seat %d): a standalone server needs a directory of its own",
			f.config.StateDir, f.kept.marker.seat)
	}
	return problems.orNil()
}

// ignored are notes about variables that mean nothing to a node.
func (f *startFacts) ignored() (notes []string) {
	if f.config.TokenFloor != 0 {
		notes = append(notes, fmt.Sprintf("TICKETING_TOKEN_FLOOR=%d has no effect on a node: that of a cluster is given to ticketing cluster init --token-floor",
			f.config.TokenFloor))
	}
	return notes
}

// usable returns the credential that counts as given, if there is one: at most one of the two is not nil.
func (f *startFacts) usable(d *startDecision) (bootstrap *auth.BootstrapCredential, join *auth.JoinCredential, err error) {
	bootstrap, join = f.given.bootstrap, f.given.join
	for _, c := range []struct {
		name string
		err  error
	}{{"TICKETING_BOOTSTRAP", f.given.bootstrapErr}, {"TICKETING_JOIN", f.given.joinErr}} {
		if c.err == nil {
			continue
		}
		// A credential that stayed behind in the environment when the secret changed must not keep a known node from its reboot.
		if f.kept.marker == nil {
			return nil, nil, nodeErrorf("%s: %v", c.name, c.err)
		}
		d.notes = append(d.notes, fmt.Sprintf("%s counts as not given: %v", c.name, c.err))
	}
	if bootstrap != nil && bootstrap.Expired(f.nowMillis) {
		d.notes = append(d.notes, f.expired("TICKETING_BOOTSTRAP", bootstrap.NotAfterMillis))
		bootstrap = nil
	}
	if join != nil && join.Expired(f.nowMillis) {
		d.notes = append(d.notes, f.expired("TICKETING_JOIN", join.NotAfterMillis))
		join = nil
	}
	if bootstrap != nil && join != nil {
		return nil, nil, nodeErrorf("TICKETING_BOOTSTRAP and TICKETING_JOIN are both given: a node takes part in a bootstrap or joins a cluster that " +
			"runs; take one of them away")
	}
	if join != nil && f.consumed(join) {
		d.notes = append(d.notes, "TICKETING_JOIN was used by an earlier process of this node: it counts as not given")
		join = nil
	}
	return bootstrap, join, nil
}

func (f *startFacts) expired(name string, end int64) string {
	return fmt.Sprintf("%s ended at %s (the clock says %s): it counts as not given", name, formatMillis(end), formatMillis(f.nowMillis))
}

// consumed reports whether the marker knows that the credential was used here.
func (f *startFacts) consumed(c *auth.JoinCredential) bool {
	m := f.kept.marker
	return m != nil && m.domain == raft.Domain(c.Domain) && m.hasNodeID(raft.NodeID(c.NodeID))
}

func (f *startFacts) bootstraps(d *startDecision, c *auth.BootstrapCredential) error {
	seat := f.config.Cluster.Seat
	switch {
	case seat == 0:
		return nodeErrorf("TICKETING_SEAT: required with TICKETING_BOOTSTRAP: a number from 1 to %d, another on each node", len(c.Seats))
	case seat > len(c.Seats):
		return nodeErrorf("TICKETING_SEAT=%q: the credential in TICKETING_BOOTSTRAP has the seats 1 to %d", fmt.Sprint(seat), len(c.Seats))
	case c.Early(f.nowMillis):
		// It will be valid when the clock gets there: a later start can succeed.
		return fmt.Errorf("TICKETING_BOOTSTRAP is not valid before %s, and the clock says %s: set the clock of this machine, or of the one that ran "+
			"ticketing cluster init", formatMillis(c.NotBeforeMillis), formatMillis(f.nowMillis))
	}
	d.mode, d.bootstrap, d.domain = startBootstrap, c, raft.Domain(c.Domain)
	d.seat, d.peerAddr = raft.Seat(seat), c.Seats[seat-1].PeerAddr
	d.credential, d.credentialEnd = f.given.bootstrapID, c.NotAfterMillis
	d.otherDomain = f.kept.marker != nil
	for _, s := range c.Seats {
		d.lookAt = append(d.lookAt, s.PeerAddr)
	}
	d.lookAt = mergeAddresses(d.lookAt, f.config.Cluster.Peers)
	return nil
}

func (f *startFacts) joins(d *startDecision, c *auth.JoinCredential) error {
	m := f.kept.marker
	d.mode, d.join, d.domain = startJoin, c, raft.Domain(c.Domain)
	d.seat, d.peerAddr = raft.Seat(c.Seat), c.PeerAddr
	d.credential, d.credentialEnd = f.given.joinID, c.NotAfterMillis
	d.lookAt = mergeAddresses(f.config.Cluster.Peers, nil)
	if m != nil {
		d.otherDomain = m.domain != d.domain
	}
	if m != nil && !d.otherDomain {
		d.elseRejoin = f.config.Cluster.Rejoin
		d.lookAt = mergeAddresses(d.lookAt, m.peers)
	}
	return nil
}

func (f *startFacts) rejoins(d *startDecision) error {
	m := f.kept.marker
	if !f.config.Cluster.Rejoin {
		return nodeErrorf("this node had a life in seat %d of a cluster (TICKETING_STATE_DIR=%q), and TICKETING_REJOIN=off: set it to auto, or run "+
			"ticketing cluster replace --seat %d --peer-addr %s, and start with the TICKETING_JOIN that it prints%s",
			m.seat, f.config.StateDir, m.seat, m.peerAddr, inBrackets(d.notes))
	}
	d.mode, d.domain, d.seat, d.peerAddr, d.credentialEnd = startRejoin, m.domain, m.seat, m.peerAddr, m.credentialEnd
	d.lookAt = mergeAddresses(m.peers, f.config.Cluster.Peers)
	return nil
}

// choices is the refusal of a node that nothing says how to begin.
func (f *startFacts) choices(notes []string) error {
	return nodeErrorf("%s; TICKETING_STATE_DIR=%q holds no marker of an earlier life%s", startChoices(f.config.nodeVariables()), f.config.StateDir, inBrackets(notes))
}

// startChoices names the two ways into a cluster; names are the variables that made this a node.
func startChoices(names []string) string {
	return fmt.Sprintf("%s: set, so this is a node of a cluster, and it needs a credential: TICKETING_BOOTSTRAP, for one of the first nodes of a new "+
		"cluster (ticketing cluster init prints it), or TICKETING_JOIN, for a replacement in one that runs (ticketing cluster replace prints it)",
		strings.Join(names, ", "))
}

func inBrackets(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

func formatMillis(unixMillis int64) string {
	return time.UnixMilli(unixMillis).UTC().Format(time.RFC3339)
}
