package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
)

// Dialer makes connections to addresses that tenants name, for what is not HTTP. Those without TLS are only for
// addresses that the operator allows.
type Dialer struct {
	plain, encrypted *net.Dialer
	roots            *x509.CertPool
}

// NewDialer makes one.
func NewDialer(o Options) *Dialer {
	return &Dialer{plain: dialer(o, o.Guard.Allowed), encrypted: dialer(o, o.Guard.MayCall), roots: o.RootCAs}
}

// Plain connects to a host, by name or address, without TLS.
func (d *Dialer) Plain(ctx context.Context, host, port string) (net.Conn, error) {
	return d.plain.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

// Encrypted connects to a host over TLS. Its certificate has to be valid for it.
func (d *Dialer) Encrypted(ctx context.Context, host, port string) (net.Conn, error) {
	conn, err := d.Reach(ctx, host, port)
	if err != nil {
		return nil, err
	}
	encrypted, err := d.TLS(ctx, conn, host)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return encrypted, nil
}

// Reach connects to an address that may be called over TLS, without it yet: TLS has to be called before a secret is
// sent.
func (d *Dialer) Reach(ctx context.Context, host, port string) (net.Conn, error) {
	return d.encrypted.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
}

// TLS makes a connection an encrypted one.
func (d *Dialer) TLS(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, tlsTimeout)
	defer cancel()
	encrypted := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: d.roots, ServerName: strings.TrimSuffix(host, ".")})
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return encrypted, nil
}
