package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

func readFile(what, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return text, nil
}

// parsePair joins a certificate chain and its key. The files are named in errors, their contents never.
func parsePair(certFile, keyFile string, cert, key []byte) (tls.Certificate, error) {
	if !hasBlock(cert, func(b *pem.Block) bool { return b.Type == "CERTIFICATE" }) {
		return tls.Certificate{}, fmt.Errorf("TLS certificate %s: no CERTIFICATE in it; it must be PEM, the server's own first and the intermediates behind it", certFile)
	}
	if hasBlock(key, isEncrypted) {
		return tls.Certificate{}, fmt.Errorf("TLS key %s: it is encrypted; decrypt it (openssl pkey -in FILE -out FILE) and protect it by file permissions", keyFile)
	}
	if !hasBlock(key, func(b *pem.Block) bool {
		return b.Type == "PRIVATE KEY" || b.Type == "EC PRIVATE KEY" || b.Type == "RSA PRIVATE KEY"
	}) {
		return tls.Certificate{}, fmt.Errorf("TLS key %s: no PRIVATE KEY in it; it must be PEM", keyFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("TLS certificate %s and key %s: %w; they must be whole and belong together", certFile, keyFile, err)
	}
	return pair, nil
}

// parseCA returns the certificates in text, one at least. What else is in it is passed over, as x509.CertPool does.
func parseCA(what, path string, text []byte) (cas []*x509.Certificate, err error) {
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		if b.Type != "CERTIFICATE" || len(b.Headers) > 0 {
			continue
		}
		if c, err := x509.ParseCertificate(b.Bytes); err == nil {
			cas = append(cas, c)
		}
	}
	if len(cas) == 0 {
		return nil, fmt.Errorf("%s %s: no usable CERTIFICATE in it; it must be PEM", what, path)
	}
	return cas, nil
}

func poolOf(cas []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range cas {
		pool.AddCert(c)
	}
	return pool
}

func isEncrypted(b *pem.Block) bool {
	return b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != ""
}

func hasBlock(text []byte, match func(*pem.Block) bool) bool {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return false
		}
		if match(b) {
			return true
		}
	}
}
