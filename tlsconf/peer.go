package tlsconf

import "crypto/tls"

// PeerClient returns the configuration for one connection to another server that uses files like these: both sides show
// their certificate, and both trust the client CA alone. name is the host to check the other certificate against. The files
// are looked at as in a server's handshake. The certificate must be good for servers and for clients.
func (r *Reloader) PeerClient(name string) *tls.Config {
	r.look()
	current := r.current.Load().tls
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		Certificates:           current.Certificates,
		RootCAs:                current.ClientCAs,
		ServerName:             name,
		SessionTicketsDisabled: true,
	}
}
