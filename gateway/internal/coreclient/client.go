package coreclient

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/identity"
)

const (
	dialTimeout = 2 * time.Second
	idlePerHost = 256
	idleTimeout = 90 * time.Second
)

// TimeoutHeader tells core how long the caller still waits, in milliseconds. It
// is not signed: who could change it could also cut the connection.
const TimeoutHeader = "Forgequeue-Timeout-Ms"

// Options of a Client.
type Options struct {
	// URL is core's address, such as http://127.0.0.1:8081.
	URL string
	// Secret signs every call, at least identity.MinSecretBytes.
	Secret []byte
	Logger *slog.Logger
	// Now is time.Now if nil; tests set it.
	Now func() time.Time
}

// Client calls core. It is safe for concurrent use.
type Client struct {
	base      string // without a slash at its end
	secret    []byte
	transport *http.Transport
	logger    *slog.Logger
	now       func() time.Time
	// offset is core's clock minus ours, in nanoseconds, as far as core has told.
	offset atomic.Int64
}

// New makes a Client; it does not dial yet.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("core's url must look like http://127.0.0.1:8081")
	}
	if path := strings.Trim(base.Path, "/"); path != "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("core's url must have no path, query or user: the signature covers the path")
	}
	if len(o.Secret) < identity.MinSecretBytes {
		return nil, fmt.Errorf("the hop secret must have at least %d bytes", identity.MinSecretBytes)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Client{
		base:      base.Scheme + "://" + base.Host,
		secret:    o.Secret,
		transport: transport(),
		logger:    o.Logger,
		now:       o.Now,
	}, nil
}

// transport keeps enough idle connections for every caller at a peak. There is
// no proxy from the environment: it would see every payload and every principal.
func transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConns:        idlePerHost,
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // on loopback it costs more than it saves
		ReadBufferSize:      16 << 10,
		WriteBufferSize:     16 << 10,
	}
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }
