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

// Bounds of one call, beside those of its context.
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
	// Resolver and RootCAs take the place of the system's, where not nil.
	Resolver *net.Resolver
	RootCAs  *x509.CertPool
}

// Transport makes single calls: it follows no redirect, asks no proxy, keeps no
// cookie. Plain http goes to addresses that the operator allows, and to no others.
type Transport struct{ plain, encrypted *http.Transport }

// NewTransport makes one; Close lets its connections go.
func NewTransport(o Options) *Transport {
	return &Transport{plain: transport(o, o.Guard.Allowed), encrypted: transport(o, o.Guard.MayCall)}
}

func transport(o Options, may func(netip.Addr) bool) *http.Transport {
	dialer := &net.Dialer{
		Timeout: dialTimeout, Resolver: o.Resolver,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return check(network, address, may)
		},
	}
	return &http.Transport{
		Proxy:       nil, // none from the environment: it would be the one that dials
		DialContext: dialer.DialContext,
		// a connection that was made once stays with the address that was judged
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:   tlsTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // what is bounded is what was sent
		MaxIdleConns:          idleAll,
		MaxIdleConnsPerHost:   idlePerHost,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,

		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}

// check judges the address that is about to be connected to.
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

// Close lets idle connections go.
func (t *Transport) Close() {
	t.plain.CloseIdleConnections()
	t.encrypted.CloseIdleConnections()
}

// Judge says what is wrong with a URL before any call, as far as that can be told
// without resolving its host; "" is nothing.
func (g Guard) Judge(u *url.URL) (wrong string) {
	address, err := netip.ParseAddr(u.Hostname())
	isAddress := err == nil
	switch {
	case u.Scheme == "http" && (!g.AllowsAny() || isAddress && !g.Allowed(address)):
		return "must begin with https://; http is only for addresses that the operator allows (FORGEQUEUE_PUSH_ALLOW)"
	case isAddress && !g.MayCall(address):
		return "must not be an address inside a network, or of special purpose, unless the operator allows it (FORGEQUEUE_PUSH_ALLOW)"
	case !isAddress && isLocal(u.Hostname()) && !g.AllowsAny():
		return "must not name this machine, unless the operator allows its address (FORGEQUEUE_PUSH_ALLOW)"
	}
	return ""
}

func isLocal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Destination names whom a URL calls: scheme, host and port.
func Destination(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}
