package server

import (
	"slices"
	"strings"
	"time"
)

// variable is one variable of the server's environment, bound to a field of a Config.
type variable struct {
	name    string
	value   value
	cluster bool // given, it makes the server a node of a cluster, even with its default
}

// minSecret is the shortest secret, in bytes, that may be met outside of loopback.
const minSecret = 16

// variables is the environment of the server (docs/operations.md), in its order.
func (c *Config) variables() []variable {
	k := &c.Cluster
	return []variable{
		{name: "TICKETING_LISTEN", value: addressValue{field: &c.Listen}},
		{name: "TICKETING_ADVERTISE", value: addressValue{field: &c.Advertise, dial: true}},
		{name: "TICKETING_TOKEN", value: secretValue{list: &c.Tokens, file: &c.tokenFile}},
		{name: "TICKETING_ALLOW_EMPTY_TOKEN", value: switchValue{&c.AllowEmptyToken, "yes", "no"}},
		{name: "TICKETING_TLS_CERT", value: pathValue{&c.TLSCert}},
		{name: "TICKETING_TLS_KEY", value: pathValue{&c.TLSKey}},
		{name: "TICKETING_TLS_CLIENT_CA", value: pathValue{&c.TLSClientCA}},
		{name: "TICKETING_LEGACY", value: switchValue{&c.Legacy, "on", "off"}},
		{name: "TICKETING_ADMIN_LISTEN", value: addressValue{field: &c.AdminListen, off: true}},
		{name: "TICKETING_ADMIN_TOKEN", value: secretValue{one: &c.AdminToken, file: &c.adminTokenFile}},
		{name: "TICKETING_STATE_DIR", value: pathValue{&c.StateDir}},
		{name: "TICKETING_ALLOW_VOLATILE_STATE_DIR", value: switchValue{&c.AllowVolatileStateDir, "yes", "no"}},
		{name: "TICKETING_TOKEN_FLOOR", value: numberValue[uint64]{&c.TokenFloor, 0, maxTokenBase}},

		{name: "TICKETING_SEAT", value: seatValue{&k.Seat}, cluster: true},
		{name: "TICKETING_PEER_LISTEN", value: addressValue{field: &k.PeerListen}, cluster: true},
		{name: "TICKETING_PEER_ADVERTISE", value: addressValue{field: &k.PeerAdvertise, dial: true}, cluster: true},
		{name: "TICKETING_PEERS", value: addressesValue{&k.Peers}, cluster: true},
		{name: "TICKETING_CLUSTER_SECRET", value: secretValue{list: &k.Secrets, file: &k.secretFile, min: minSecret}, cluster: true},
		{name: "TICKETING_PEER_TLS_CERT", value: pathValue{&k.TLSCert}, cluster: true},
		{name: "TICKETING_PEER_TLS_KEY", value: pathValue{&k.TLSKey}, cluster: true},
		{name: "TICKETING_PEER_TLS_CA", value: pathValue{&k.TLSCA}, cluster: true},
		{name: "TICKETING_BOOTSTRAP", value: secretValue{one: &k.Bootstrap, file: &k.bootstrapFile, prefix: "tkb1."}, cluster: true},
		{name: "TICKETING_JOIN", value: secretValue{one: &k.Join, file: &k.joinFile, prefix: "tkj1."}, cluster: true},
		{name: "TICKETING_REJOIN", value: switchValue{&k.Rejoin, "auto", "off"}, cluster: true},
		{name: "TICKETING_HEARTBEAT", value: durationValue{&k.Heartbeat, 10 * time.Millisecond, 10 * time.Second}, cluster: true},
		{name: "TICKETING_ELECTION_TIMEOUT", value: durationValue{&k.ElectionTimeout, 30 * time.Millisecond, time.Minute}, cluster: true},
		{name: "TICKETING_LOG_MEMORY", value: sizeValue{&k.LogMemory, 64 * kibibyte, gibibyte}, cluster: true},

		{name: "TICKETING_MAX_CONNECTIONS", value: numberValue[int]{&c.MaxConnections, 1, 1_000_000}},
		{name: "TICKETING_MAX_KEYS", value: numberValue[int]{&c.MaxKeys, 1, 100_000_000}},
		{name: "TICKETING_MAX_WAITERS", value: numberValue[int]{&c.MaxWaiters, 1, 100_000_000}},
		{name: "TICKETING_MAX_WAITERS_PER_KEY", value: numberValue[int]{&c.MaxWaitersPerKey, 1, 100_000_000}},
		{name: "TICKETING_MAX_IN_FLIGHT", value: numberValue[int]{&c.MaxInFlight, 1, 1_048_576}},
		{name: "TICKETING_MAX_BUFFERED", value: sizeValue{&c.MaxBuffered, mebibyte, 1024 * gibibyte}},
		{name: "TICKETING_IDLE_TIMEOUT", value: durationValue{&c.IdleTimeout, time.Second, time.Hour}},
		{name: "TICKETING_DRAIN_TIMEOUT", value: durationValue{&c.DrainTimeout, 0, time.Hour}},
		{name: "TICKETING_LOG_LEVEL", value: wordValue{&c.LogLevel, []string{"debug", "info", "warn", "error"}}},
		{name: "TICKETING_LOG_FORMAT", value: wordValue{&c.LogFormat, []string{"text", "json"}}},
	}
}

// nodeVariables returns the names of the variables that make this a node of a cluster: those of a cluster that the environment has, or
// that do not have their default.
func (c *Config) nodeVariables() (names []string) {
	defaults := DefaultConfig()
	usual := defaults.variables()
	for i, v := range c.variables() {
		if v.cluster && (slices.Contains(c.Cluster.given, v.name) || v.value.String() != usual[i].value.String()) {
			names = append(names, v.name)
		}
	}
	return names
}

// clientVariables are read by the client commands; one environment can serve both. Those that the server reads too are not listed.
func clientVariables() []string {
	return []string{
		"TICKETING_ADDRS", "TICKETING_TLS_CA", "TICKETING_TLS_INSECURE", "TICKETING_TLS_CLIENT_CERT", "TICKETING_TLS_CLIENT_KEY",
		"TICKETING_NAME", "TICKETING_ADMIN_ADDRS", "TICKETING_LOCK_KEY", "TICKETING_LOCK_TOKEN", "TICKETING_LOCK_DEADLINE",
	}
}

// hint guesses what an unknown variable was meant to be.
func hint(unknown string, known []string) string {
	if unknown == "TICKETING_PORT" || strings.HasPrefix(unknown, "TICKETING_PORT_") || strings.HasPrefix(unknown, "TICKETING_SERVICE_") {
		return "Kubernetes sets it for a service of that name: set enableServiceLinks: false in the pod"
	}
	if name, ok := strings.CutSuffix(unknown, "_FILE"); ok && slices.Contains(known, name) {
		return name + " is no secret, and only secrets are read from files"
	}
	best := slices.MinFunc(known, func(a, b string) int { return distance(unknown, a) - distance(unknown, b) })
	return "the nearest that is known is " + best
}

// distance is how many letters to insert, delete or replace to make b of a (Levenshtein).
func distance(a, b string) int {
	const longest = 64 // names are shorter; what is longer is far from all of them anyway
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
