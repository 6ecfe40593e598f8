package tlsconf

import (
	"crypto/tls"
	"errors"
)

// ClientOptions says how a client checks the server and shows who it is. The zero value trusts the system's CAs and
// shows no certificate.
type ClientOptions struct {
	CA       string // PEM file of the CAs to trust in place of the system's
	Cert     string // PEM files of the client's certificate and key: both or neither
	Key      string
	Insecure bool // do not check the server's certificate; the token's proof, bound to the session, is then all there is
}

// NewClient reads the files once. The name to check the server's certificate against is the dialer's to set.
// An error names the file and what is wrong with it.
func NewClient(o ClientOptions) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure}
	if o.CA != "" {
		text, err := readFile("TLS CA", o.CA)
		if err != nil {
			return nil, err
		}
		cas, err := parseCA("TLS CA", o.CA, text)
		if err != nil {
			return nil, err
		}
		c.RootCAs = poolOf(cas)
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("TLS: a client certificate and its key are needed together; give both or neither")
	}
	if o.Cert == "" {
		return c, nil
	}
	cert, err := readFile("TLS certificate", o.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readFile("TLS key", o.Key)
	if err != nil {
		return nil, err
	}
	pair, err := parsePair(o.Cert, o.Key, cert, key)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
