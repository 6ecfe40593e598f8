package server

import (
	"fmt"
	"net"
	"slices"

	"ticketing.internal/tlsconf"
)

// Validate reports everything that is wrong with c in one *ConfigError.
func (c *Config) Validate() error {
	problems := &ConfigError{}
	c.checkAll(problems)
	return problems.orNil()
}

func (c *Config) checkAll(problems *ConfigError) {
	for _, v := range c.variables() {
		err := v.value.check()
		if err == nil {
			continue
		}
		if _, secret := v.value.(secretValue); secret {
			problems.add("%s: %v", v.name, err)
		} else {
			problems.add("%s=%q: %v", v.name, v.value, err)
		}
	}
	c.checkAddresses(problems)
	c.checkSecrets(problems)
	c.checkTLS(problems)
	c.Cluster.check(problems)
	if len(c.nodeVariables()) > 0 {
		c.checkNode(problems)
	}
}

// maxAdvertise is what the protocol has room for, in bytes.
const maxAdvertise = 255

func (c *Config) checkAddresses(problems *ConfigError) {
	if c.Listen == "" {
		problems.add("TICKETING_LISTEN: host:port is required")
	}
	if len(c.Advertise) > maxAdvertise {
		problems.add("TICKETING_ADVERTISE=%q: at most %d bytes are allowed", c.Advertise, maxAdvertise)
	}
	if _, port, err := splitAddress(c.Listen); err == nil && port != 0 && c.Listen == c.AdminListen {
		problems.add("TICKETING_LISTEN=%q and TICKETING_ADMIN_LISTEN=%q: two different addresses are allowed", c.Listen, c.AdminListen)
	}
}

func (c *Config) checkSecrets(problems *ConfigError) {
	if exposed(c.Listen) {
		if len(c.Tokens) == 0 && !c.AllowEmptyToken {
			problems.add("TICKETING_TOKEN: required, for TICKETING_LISTEN=%q is reached from outside: a secret of at least %d bytes "+
				"(ticketing gen-token makes one), or TICKETING_ALLOW_EMPTY_TOKEN=yes, is allowed", c.Listen, minSecret)
		}
		for i, t := range c.Tokens {
			if t != "" && len(t) < minSecret {
				problems.add("TICKETING_TOKEN: secret %d of %d is too short for TICKETING_LISTEN=%q, which is reached from outside: "+
					"at least %d bytes are allowed (ticketing gen-token makes one)", i+1, len(c.Tokens), c.Listen, minSecret)
			}
		}
	}
	if exposed(c.AdminListen) && c.AdminToken == "" {
		problems.add("TICKETING_ADMIN_TOKEN: required, for TICKETING_ADMIN_LISTEN=%q is reached from outside", c.AdminListen)
	}
}

// exposed reports whether address is reached from other machines.
func exposed(address string) bool {
	host, _, err := splitAddress(address)
	return err == nil && !isLoopback(host)
}

func (c *Config) checkTLS(problems *ConfigError) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		problems.add("TICKETING_TLS_CERT=%q and TICKETING_TLS_KEY=%q: both or neither are allowed", c.TLSCert, c.TLSKey)
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		problems.add("TICKETING_TLS_CLIENT_CA=%q: allowed with TICKETING_TLS_CERT and TICKETING_TLS_KEY only", c.TLSClientCA)
	}
}

// checkCertificates reads what checkTLS knows by name only. The server reads it again when it starts.
func (c *Config) checkCertificates(problems *ConfigError) {
	checkPair(problems, "TICKETING_TLS_CERT=%q, TICKETING_TLS_KEY=%q, TICKETING_TLS_CLIENT_CA=%q: %v", c.clientFiles())
	checkPair(problems, "TICKETING_PEER_TLS_CERT=%q, TICKETING_PEER_TLS_KEY=%q, TICKETING_PEER_TLS_CA=%q: %v", c.Cluster.peerFiles())
}

// checkPair reads one port's certificate. says has a place for each file and one for the problem.
func checkPair(problems *ConfigError, says string, files tlsconf.ServerFiles) {
	if files.Cert == "" || files.Key == "" {
		return
	}
	if _, err := tlsconf.NewServer(files); err != nil {
		problems.add(says, files.Cert, files.Key, files.ClientCA, err)
	}
}

func (k *ClusterConfig) check(problems *ConfigError) {
	if k.Heartbeat > k.ElectionTimeout/3 {
		problems.add("TICKETING_HEARTBEAT=%q and TICKETING_ELECTION_TIMEOUT=%q: a heartbeat of at most a third of the timeout is allowed",
			k.Heartbeat, k.ElectionTimeout)
	}
	if (k.TLSCert == "") != (k.TLSKey == "") || (k.TLSKey == "") != (k.TLSCA == "") {
		problems.add("TICKETING_PEER_TLS_CERT=%q, TICKETING_PEER_TLS_KEY=%q and TICKETING_PEER_TLS_CA=%q: all or none are allowed",
			k.TLSCert, k.TLSKey, k.TLSCA)
	}
}

// checkNode reports what a node of a cluster needs beyond that. Whether its credential and its state directory say how it begins is
// known at the start only.
func (c *Config) checkNode(problems *ConfigError) {
	k := &c.Cluster
	misread := func(name string) bool { return slices.Contains(k.given, name) } // what was given and is not there was reported
	if c.StateDir == "" {
		problems.add("TICKETING_STATE_DIR: required in a cluster: a directory on a disk that outlives the process and the machine's reboot")
	}
	if k.PeerListen == "" && !misread("TICKETING_PEER_LISTEN") {
		problems.add("TICKETING_PEER_LISTEN: required in a cluster: host:port, such as :5325")
	} else if _, port, err := splitAddress(k.PeerListen); err == nil && port != 0 {
		for _, other := range []struct{ name, address string }{{"TICKETING_LISTEN", c.Listen}, {"TICKETING_ADMIN_LISTEN", c.AdminListen}} {
			if k.PeerListen == other.address {
				problems.add("TICKETING_PEER_LISTEN=%q and %s=%q: two different addresses are allowed", k.PeerListen, other.name, other.address)
			}
		}
	}
	if len(k.Secrets) == 0 && !misread("TICKETING_CLUSTER_SECRET") {
		problems.add("TICKETING_CLUSTER_SECRET: required in a cluster: a secret of at least %d bytes, the same on each node "+
			"(ticketing gen-token makes one)", minSecret)
	}
	if c.StateDir == "" || k.PeerListen == "" || len(k.Secrets) == 0 {
		c.checkBeginning(problems)
	}
	if slices.ContainsFunc(k.Secrets, func(s Secret) bool { return slices.Contains(c.Tokens, s) }) {
		problems.add("TICKETING_CLUSTER_SECRET and TICKETING_TOKEN: two different secrets are allowed: whoever may take locks may not lead the cluster")
	}
	if host, _, err := splitAddress(c.Listen); err == nil && isWildcard(host) && c.Advertise == "" {
		problems.add("TICKETING_ADVERTISE: required in a cluster with TICKETING_LISTEN=%q: the host:port at which clients reach this node", c.Listen)
	}
}

// checkBeginning names the ways into a cluster to somebody who has not got far: whether the directory holds a marker is not known yet.
func (c *Config) checkBeginning(problems *ConfigError) {
	names := c.nodeVariables()
	switch {
	case len(names) == 0 || slices.Contains(names, "TICKETING_BOOTSTRAP") || slices.Contains(names, "TICKETING_JOIN"):
	case c.StateDir == "":
		problems.add("%s", startChoices(names))
	default:
		problems.add("%s; only with the marker of an earlier life in TICKETING_STATE_DIR it needs none", startChoices(names))
	}
}

// Warnings are what an operator should know about a valid configuration, one line each, to be logged at the start.
func (c *Config) Warnings() (lines []string) {
	plain := c.TLSCert == ""
	for _, port := range []struct{ name, address string }{
		{"TICKETING_LISTEN", c.Listen}, {"TICKETING_ADMIN_LISTEN", c.AdminListen},
	} {
		if plain && exposed(port.address) {
			lines = append(lines, fmt.Sprintf("%s=%s is plaintext and reached from outside: what passes can be read and altered on the path; "+
				"set TICKETING_TLS_CERT and TICKETING_TLS_KEY", port.name, port.address))
		}
	}
	if c.Cluster.TLSCert == "" && exposed(c.Cluster.PeerListen) {
		lines = append(lines, fmt.Sprintf("TICKETING_PEER_LISTEN=%s is plaintext and reached from outside: what the nodes tell each other can be read and "+
			"altered on the path; set TICKETING_PEER_TLS_CERT, TICKETING_PEER_TLS_KEY and TICKETING_PEER_TLS_CA", c.Cluster.PeerListen))
	}
	if exposed(c.Listen) && c.Legacy {
		lines = append(lines, "v0, the line protocol, is reached from outside: its clients cannot tell this server from another, and even "+
			"through TLS a login can be relayed; set TICKETING_LEGACY=off unless published clients need it")
	}
	if exposed(c.Listen) && len(c.Tokens) == 0 {
		lines = append(lines, "there is no TICKETING_TOKEN: whoever reaches "+c.Listen+" can take and release locks")
	}
	for i, t := range c.Tokens {
		if len(t) < minSecret {
			lines = append(lines, fmt.Sprintf("TICKETING_TOKEN: secret %d of %d is shorter than %d bytes and can be guessed from one recorded login",
				i+1, len(c.Tokens), minSecret))
		}
	}
	if c.AdminToken != "" && len(c.AdminToken) < minSecret {
		lines = append(lines, fmt.Sprintf("TICKETING_ADMIN_TOKEN is shorter than %d bytes", minSecret))
	}
	if c.StateDir == "" {
		lines = append(lines, "there is no TICKETING_STATE_DIR: a restart forgets who holds what, so that a key can be granted again while its lease "+
			"still runs, and fencing tokens grow across restarts only as long as the clock is right")
	}
	return lines
}

// hostOf is the host of an address that has been checked.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}
