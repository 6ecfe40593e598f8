package server

import (
	"fmt"
	"log/slog"
	"time"

	"ticketing.internal/tlsconf"
)

// clientFiles and peerFiles are the certificates of the two ports; with an empty Cert the port is plaintext.
func (c *Config) clientFiles() tlsconf.ServerFiles {
	return tlsconf.ServerFiles{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA}
}

func (k *ClusterConfig) peerFiles() tlsconf.ServerFiles {
	return tlsconf.ServerFiles{Cert: k.TLSCert, Key: k.TLSKey, ClientCA: k.TLSCA}
}

// Names of the two ports' certificates in messages.
const (
	clientCertificate = "TICKETING_TLS_CERT"
	peerCertificate   = "TICKETING_PEER_TLS_CERT"
)

// CertificateWarnings returns a line for each certificate that is not valid at now, or will soon expire. A certificate that cannot
// be read is skipped: ConfigFromEnv has reported it.
func (c *Config) CertificateWarnings(now time.Time) (lines []string) {
	for _, port := range []struct {
		name  string
		files tlsconf.ServerFiles
	}{{clientCertificate, c.clientFiles()}, {peerCertificate, c.Cluster.peerFiles()}} {
		if port.files.Cert == "" {
			continue
		}
		if r, err := tlsconf.NewServer(port.files); err == nil {
			if text := r.Dates(now); text != "" {
				lines = append(lines, datesWarning(port.name, text))
			}
		}
	}
	return lines
}

func datesWarning(port, text string) string {
	return fmt.Sprintf("%s: %s; new connections fail outside of these dates: renew it, or set the clock of this machine", port, text)
}

// watchDates logs what is wrong with the dates of a port's certificate: now, at each reload, and when a handshake runs into it.
func watchDates(r *tlsconf.Reloader, port string, log *slog.Logger) {
	r.OnDates = func(text string) { log.Warn(datesWarning(port, text)) }
	r.TellDates()
}
