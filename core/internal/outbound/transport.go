package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Bounds of one call, in addition to its context.
const (
	dialTimeout     = 5 * time.Second
	tlsTimeout      = 5 * time.Second
	maxAnswerHeader = 32 << 10
	idleTimeout     = 30 * time.Second
	idlePerHost     = 16
	idleAll         = 512
)

// Options are what a Transport needs.
type Options struct {
	Guard Guard
	// Resolver and RootCAs replace the system's, where not nil.
	Resolver *net.Resolver
	RootCAs  *x509.CertPool
}

// Transport makes single calls: it follows no redirect, uses no proxy, stores no cookie. Plain http
// is only for addresses that the operator allows.
type Transport struct{ plain, encrypted *http.Transport }

// NewTransport makes one; Close closes its connections.
func NewTransport(o Options) *Transport {
	return &Transport{plain: transport(o, o.Guard.Allowed), encrypted: transport(o, o.Guard.MayCall)}
}

func transport(o Options, may func(netip.Addr) bool) *http.Transport {
	return &http.Transport{
		Proxy:       nil, // none from the environment: it would dial instead
		DialContext: dialer(o, may).DialContext,
		// a connection stays with the address that was checked
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:   tlsTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // the bound is on the bytes sent
		MaxIdleConns:          idleAll,
		MaxIdleConnsPerHost:   idlePerHost,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,

		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}

func dialer(o Options, may func(netip.Addr) bool) *net.Dialer {
	return &net.Dialer{
		Timeout: dialTimeout, Resolver: o.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return check(network, address, may)
		},
	}
}

// check decides on the address before the connect.
func check(network, address string, may func(netip.Addr) bool) error {
	if !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("outbound: %w", ErrAddress)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || !may(to.Addr()) {
		return fmt.Errorf("outbound: %w", ErrAddress)
	}
	return nil
}

// RoundTrip makes the call.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.URL.Scheme {
	case "https":
		return t.encrypted.RoundTrip(r)
	case "http":
		return t.plain.RoundTrip(r)
	}
	return nil, fmt.Errorf("outbound: the scheme %q: %w", r.URL.Scheme, ErrAddress)
}

// Close closes idle connections.
func (t *Transport) Close() {
	t.plain.CloseIdleConnections()
	t.encrypted.CloseIdleConnections()
}

// Judge checks a URL before any call, without resolving its host; "" means that nothing is wrong.
func (g Guard) Judge(u *url.URL) (wrong string) {
	address, err := netip.ParseAddr(u.Hostname())
	isAddress := err == nil
	switch {
	case encrypted(u.Scheme) != u.Scheme && (!g.AllowsAny() || isAddress && !g.Allowed(address)):
		return "must begin with " + encrypted(u.Scheme) + "://; " + u.Scheme + " is only for addresses that the operator allows, with " + allowing(u.Hostname())
	case isAddress && !g.MayCall(address):
		return "must not be an address inside a network, or of special purpose, unless the operator allows it, with " + allowing(u.Hostname())
	case !isAddress && isLocal(u.Hostname()) && !g.AllowsAny():
		return "must not name this machine, unless the operator allows its address, with " + allowing(u.Hostname())
	}
	return ""
}

// allowing is the operator's setting that allows a host: the network of loopback addresses for this machine, an address
// alone, and an example for a name, whose address is not known.
func allowing(host string) string {
	network := "10.1.0.0/16, if its address is in that network"
	switch address, err := netip.ParseAddr(host); {
	case isLocal(host) || err == nil && address.Unmap().Is4() && address.IsLoopback():
		network = "127.0.0.0/8"
	case err == nil:
		address = address.Unmap().WithZone("")
		network = netip.PrefixFrom(address, address.BitLen()).String()
	}
	return "FORGEQUEUE_PUSH_ALLOW=" + network
}

// encrypted is the scheme that is the same over TLS.
func encrypted(scheme string) string {
	if over, ok := map[string]string{"http": "https", "amqp": "amqps", "nats": "tls", "kafka": "kafka+tls"}[scheme]; ok {
		return over
	}
	return scheme
}

func isLocal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Port is a URL's port, or that of its scheme.
func Port(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{
		"https": "443", "http": "80", "amqps": "5671", "amqp": "5672", "tls": "4222", "nats": "4222", "kafka+tls": "9093", "kafka": "9092",
	}[u.Scheme]
}

// Destination is what a URL calls: scheme, host and port.
func Destination(u *url.URL) string {
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), Port(u))
}
