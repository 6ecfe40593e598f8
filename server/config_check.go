package server

import (
	"fmt"
	"net"

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
	if c.TLSCert == "" || c.TLSKey == "" {
		return
	}
	if _, err := tlsconf.NewServer(tlsconf.ServerFiles{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA}); err != nil {
		problems.add("TICKETING_TLS_CERT=%q, TICKETING_TLS_KEY=%q, TICKETING_TLS_CLIENT_CA=%q: %v", c.TLSCert, c.TLSKey, c.TLSClientCA, err)
	}
}

func (k *ClusterConfig) check(problems *ConfigError) {
	if k.Heartbeat > k.ElectionTimeout/3 {
		problems.add("TICKETING_HEARTBEAT=%q and TICKETING_ELECTION_TIMEOUT=%q: a heartbeat of at most a third of the timeout is allowed",
			k.Heartbeat, k.ElectionTimeout)
	}
	tls := (k.TLSCert != "") == (k.TLSKey != "") && (k.TLSKey != "") == (k.TLSCA != "")
	if !tls {
		problems.add("TICKETING_PEER_TLS_CERT=%q, TICKETING_PEER_TLS_KEY=%q and TICKETING_PEER_TLS_CA=%q: all or none are allowed",
			k.TLSCert, k.TLSKey, k.TLSCA)
	}
	if k.Bootstrap != "" && k.Join != "" {
		problems.add("TICKETING_BOOTSTRAP and TICKETING_JOIN: one of them is allowed")
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
