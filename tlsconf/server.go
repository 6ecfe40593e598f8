package tlsconf

import (
	"bytes"
	"crypto/tls"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// reloadInterval is how often handshakes look at the files at most.
const reloadInterval = time.Second

// ServerFiles names the PEM files of a server.
type ServerFiles struct {
	Cert     string // the server's certificate, then the intermediates
	Key      string
	ClientCA string // if not empty, clients must show a certificate from one of these
}

// Reloader is a server's TLS configuration that follows its files. It is safe for concurrent use.
type Reloader struct {
	// Set before the first handshake, immutable after.

	// Now is the clock by which the files are looked at once a second; nil: they are looked at in each handshake.
	Now func() time.Time
	// OnError is told once of each trouble that a look at the files finds; the configuration before stays in force.
	// It may be nil, and must not call the Reloader.
	OnError func(error)
	// OnDates is told what Dates says, if anything, by Reload and TellDates, and once by the handshake that finds something else to
	// say. It may be nil, is not called without Now, and must not call the Reloader.
	OnDates func(string)

	files   ServerFiles
	current atomic.Pointer[serverConfig]

	mu sync.Mutex // held while the files are read
	// Guarded by mu.
	next     time.Time // the files are next looked at then
	reported string    // the trouble that OnError was told of last
	told     string    // what OnDates was told last
}

// serverConfig is what one reading of the files came to. It is immutable.
type serverConfig struct {
	cert, key, clientCA []byte // as read
	tls                 *tls.Config
	notAfter            time.Time // of the server's own certificate
	chainValid          validity
	clientCAValid       validity // zero without a client CA
}

// NewServer reads the files. An error names the file and what is wrong with it.
func NewServer(files ServerFiles) (*Reloader, error) {
	if files.Cert == "" || files.Key == "" {
		return nil, errors.New("TLS: a certificate and a key are needed, not one of them alone")
	}
	r := &Reloader{files: files}
	if err := r.load(); err != nil {
		return nil, err
	}
	return r, nil
}

// Config returns a configuration that uses, in each handshake, the files as they are by then.
func (r *Reloader) Config() *tls.Config {
	c := r.current.Load().tls.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		r.look()
		return r.current.Load().tls, nil
	}
	return c
}

// NotAfter returns when the server's present certificate expires.
func (r *Reloader) NotAfter() time.Time { return r.current.Load().notAfter }

// Reload reads the files now. After an error the configuration before stays in force.
func (r *Reloader) Reload() error {
	r.mu.Lock()
	err := r.load()
	r.mu.Unlock()
	r.TellDates()
	return err
}

// look reads the files if it is time to. It does not wait for another handshake that does.
func (r *Reloader) look() {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if r.Now != nil {
		now := r.Now()
		if left := r.next.Sub(now); left > 0 && left <= reloadInterval { // more is left if the clock was set back
			return
		}
		r.next = now.Add(reloadInterval)
	}
	err := r.load()
	r.tellDates()
	if err == nil {
		r.reported = ""
		return
	}
	if text := err.Error(); text != r.reported && r.OnError != nil {
		r.reported = text
		r.OnError(err)
	}
}

// load puts what the files say into force. Contents are compared and not modification times: these are coarse, and
// survive the swap of a symbolic link.
func (r *Reloader) load() error {
	var c serverConfig
	var err error
	if c.cert, err = readFile("TLS certificate", r.files.Cert); err != nil {
		return err
	}
	if c.key, err = readFile("TLS key", r.files.Key); err != nil {
		return err
	}
	if r.files.ClientCA != "" {
		if c.clientCA, err = readFile("TLS client CA", r.files.ClientCA); err != nil {
			return err
		}
	}
	if old := r.current.Load(); old != nil && bytes.Equal(c.cert, old.cert) && bytes.Equal(c.key, old.key) && bytes.Equal(c.clientCA, old.clientCA) {
		return nil
	}
	pair, err := parsePair(r.files.Cert, r.files.Key, c.cert, c.key)
	if err != nil {
		return err
	}
	c.notAfter, c.chainValid = pair.Leaf.NotAfter, chainValidity(&pair)
	c.tls = &tls.Config{
		MinVersion:             tls.VersionTLS12,
		Certificates:           []tls.Certificate{pair},
		SessionTicketsDisabled: true,
	}
	if r.files.ClientCA != "" {
		cas, err := parseCA("TLS client CA", r.files.ClientCA, c.clientCA)
		if err != nil {
			return err
		}
		c.tls.ClientCAs, c.clientCAValid = poolOf(cas), lastingValidity(cas)
		c.tls.ClientAuth = tls.RequireAndVerifyClientCert
	}
	r.current.Store(&c)
	return nil
}
