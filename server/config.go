package server

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ticketing.internal/auth"
)

// Config is what a server is started with. Each field belongs to the variable that its comment names; DefaultConfig gives the
// defaults, ConfigFromEnv reads an environment, Validate says what is wrong.
type Config struct {
	Listen    string // TICKETING_LISTEN: host:port for clients; port 0 takes a free one
	Advertise string // TICKETING_ADVERTISE: host:port that clients are told, at most 255 bytes; empty: Listen

	Tokens          []Secret // TICKETING_TOKEN: each is accepted; none: the empty secret is
	AllowEmptyToken bool     // TICKETING_ALLOW_EMPTY_TOKEN

	TLSCert     string // TICKETING_TLS_CERT: PEM file; with TLSKey or not at all
	TLSKey      string // TICKETING_TLS_KEY: PEM file
	TLSClientCA string // TICKETING_TLS_CLIENT_CA: PEM file; clients must show a certificate of it
	Legacy      bool   // TICKETING_LEGACY: the v0 line protocol is served

	AdminListen string // TICKETING_ADMIN_LISTEN: host:port; empty: off
	AdminToken  Secret // TICKETING_ADMIN_TOKEN; empty: none is asked for, and no token is shown

	StateDir              string // TICKETING_STATE_DIR; empty: nothing is kept
	AllowVolatileStateDir bool   // TICKETING_ALLOW_VOLATILE_STATE_DIR
	TokenFloor            uint64 // TICKETING_TOKEN_FLOOR: the first token is above it; at most 2^62

	MaxConnections   int   // TICKETING_MAX_CONNECTIONS
	MaxKeys          int   // TICKETING_MAX_KEYS: held at once
	MaxWaiters       int   // TICKETING_MAX_WAITERS: in all queues
	MaxWaitersPerKey int   // TICKETING_MAX_WAITERS_PER_KEY
	MaxInFlight      int   // TICKETING_MAX_IN_FLIGHT: acquires of one connection
	MaxBuffered      int64 // TICKETING_MAX_BUFFERED: bytes of unsent replies of all connections

	IdleTimeout  time.Duration // TICKETING_IDLE_TIMEOUT: silence after which a v1 connection is closed
	DrainTimeout time.Duration // TICKETING_DRAIN_TIMEOUT: how long a stop waits for holders at most

	LogLevel  string // TICKETING_LOG_LEVEL: debug, info, warn, error
	LogFormat string // TICKETING_LOG_FORMAT: text, json

	Cluster ClusterConfig

	Version string // what /status calls this build; not of the environment

	// What the service manager passes.
	NotifySocket string        // NOTIFY_SOCKET; empty: nobody is notified
	Watchdog     time.Duration // WATCHDOG_USEC; 0: no signs of life are asked for

	// Where the secrets came from; empty: from the environment itself. They are read again on SIGHUP.
	tokenFile, adminTokenFile string
}

// ClusterConfig is what makes a server a node of a cluster.
type ClusterConfig struct {
	Seat            int      // TICKETING_SEAT: 1 to 5; 0: not given
	PeerListen      string   // TICKETING_PEER_LISTEN: host:port
	PeerAdvertise   string   // TICKETING_PEER_ADVERTISE: host:port
	Peers           []string // TICKETING_PEERS: host:port
	Secrets         []Secret // TICKETING_CLUSTER_SECRET: the first makes proofs, all verify
	TLSCert         string   // TICKETING_PEER_TLS_CERT: PEM file; this and the next two: all or none
	TLSKey          string   // TICKETING_PEER_TLS_KEY: PEM file
	TLSCA           string   // TICKETING_PEER_TLS_CA: PEM file
	Bootstrap       Secret   // TICKETING_BOOTSTRAP: tkb1...
	Join            Secret   // TICKETING_JOIN: tkj1...
	Rejoin          bool     // TICKETING_REJOIN: auto
	Heartbeat       time.Duration
	ElectionTimeout time.Duration // the minimum; the maximum is twice it
	LogMemory       int64         // TICKETING_LOG_MEMORY: bytes

	secretFile, bootstrapFile, joinFile string

	given []string // names of the variables of a cluster that the environment had, also with their defaults
}

// secrets derives the keys of the cluster secret.
func (k *ClusterConfig) secrets() (*auth.ClusterSecrets, error) {
	list := make([][]byte, len(k.Secrets))
	for i, s := range k.Secrets {
		list[i] = []byte(s)
	}
	return auth.NewClusterSecrets(list...)
}

// DefaultConfig is the configuration of an empty environment: a standalone server on loopback.
func DefaultConfig() Config {
	return Config{
		Listen:           "127.0.0.1:5225",
		Legacy:           true,
		AdminListen:      "127.0.0.1:5425",
		MaxConnections:   20_000,
		MaxKeys:          1_000_000,
		MaxWaiters:       1_000_000,
		MaxWaitersPerKey: 100_000,
		MaxInFlight:      65_536,
		MaxBuffered:      256 << 20,
		IdleTimeout:      20 * time.Second,
		DrainTimeout:     5 * time.Second,
		LogLevel:         "info",
		LogFormat:        "text",
		Cluster: ClusterConfig{
			Rejoin:          true,
			Heartbeat:       100 * time.Millisecond,
			ElectionTimeout: 500 * time.Millisecond,
			LogMemory:       4 << 20,
		},
	}
}

// AdvertisedAddr is the address that clients are told to use.
func (c *Config) AdvertisedAddr() string {
	if c.Advertise != "" {
		return c.Advertise
	}
	return c.Listen
}

// clientTokens are the secrets that clients may prove, at least one.
func (c *Config) clientTokens() [][]byte {
	if len(c.Tokens) == 0 {
		return [][]byte{{}}
	}
	tokens := make([][]byte, len(c.Tokens))
	for i, t := range c.Tokens {
		tokens[i] = []byte(t)
	}
	return tokens
}

// Secret is a string that does not show itself: whatever prints it prints (secret).
type Secret string

const maskedSecret = "(secret)"

var (
	_ fmt.Formatter          = Secret("")
	_ encoding.TextMarshaler = Secret("")
)

// Format writes the mask for every verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, maskedSecret) }

// MarshalText returns the mask, for encoders such as those of the log.
func (s Secret) MarshalText() ([]byte, error) { return []byte(maskedSecret), nil }

// ConfigError is a configuration that cannot be started, with everything that is wrong with it. A restart will not help.
type ConfigError struct {
	Problems []string // each names the variable, its value (secrets never) and what is allowed
}

func (e *ConfigError) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0]
	}
	return fmt.Sprintf("configuration: %d problems:\n  %s", len(e.Problems), strings.Join(e.Problems, "\n  "))
}

// add notes a problem.
func (e *ConfigError) add(format string, args ...any) {
	e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
}

// orNil is e as an error, nil if it has no problem.
func (e *ConfigError) orNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}

// Exit codes of the server.
const (
	exitDone   = 0
	exitFailed = 1  // a start that failed; another try may succeed
	exitConfig = 78 // EX_CONFIG: a restart will not help
)

// ExitCode is the exit code of a server that ended with err: 0 for nil, 78 where a restart will not help (configuration, state
// directory, a node's identity), else 1.
func ExitCode(err error) int {
	var configuration *ConfigError
	var state *stateError
	var node *nodeError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &configuration), errors.As(err, &state) && state.lasting, errors.As(err, &node):
		return exitConfig
	}
	return exitFailed
}
