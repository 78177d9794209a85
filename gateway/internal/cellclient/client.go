package cellclient

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

const (
	dialTimeout = 2 * time.Second
	keepAlive   = 15 * time.Second // how often a silent connection is probed
	// idleTimeout is less than core's, so that the gateway closes idle connections, not
	// core: core could close one on which a call has just been sent.
	idleTimeout = 90 * time.Second
	// recentTimeout is for connections of calls that are not repeated. It is less than
	// the notice of a core that stops (250 ms), in which each answer closes its
	// connection: so core never closes a connection on which such a call was just sent.
	recentTimeout = 150 * time.Millisecond
)

var errURL = errors.New("must look like http://127.0.0.1:8081 or http://core:8081/cells/home")

// Limits of the hop. A zero field has its default.
type Limits struct {
	// InFlight is how many calls may be under way at once, parked ones aside.
	InFlight int
	// Parked is how many calls may wait in core for jobs, and as many for a job's end.
	Parked int
	// BreakerWindow is the rolling window of a breaker. It must be longer than a call
	// can take.
	BreakerWindow time.Duration
	// BreakerOpen is how long a breaker stays open before it is half-open.
	BreakerOpen time.Duration
}

// DefaultLimits are for one gateway on one machine.
func DefaultLimits() Limits {
	return Limits{InFlight: 1024, Parked: 4096, BreakerWindow: 30 * time.Second, BreakerOpen: 500 * time.Millisecond}
}

// orDefault fills in what is zero.
func (l Limits) orDefault() Limits {
	usual := DefaultLimits()
	return Limits{
		InFlight:      cmp.Or(l.InFlight, usual.InFlight),
		Parked:        cmp.Or(l.Parked, usual.Parked),
		BreakerWindow: cmp.Or(l.BreakerWindow, usual.BreakerWindow),
		BreakerOpen:   cmp.Or(l.BreakerOpen, usual.BreakerOpen),
	}
}

// Options of a Cell.
type Options struct {
	// Name is the cell's, "" for the only one.
	Name string
	// URL is the address of the cell's cores, such as http://127.0.0.1:8081 or http://core:8081/cells/home.
	URL string
	// Secret signs every call, at least identity.MinSecretBytes.
	Secret []byte
	// Logger is slog.Default if nil.
	Logger *slog.Logger
	Limits Limits
	// Registry gets the metrics of the hop; nil: none are registered.
	Registry prometheus.Registerer
	// Processors are the seats in which requests are encoded and answers decoded; nil: they take none.
	Processors *seats.Seats
	// Now is time.Now if nil; tests set it.
	Now func() time.Time
}

// Cell calls the cores of one cell. It is safe for concurrent use.
type Cell struct {
	name string
	// host is the scheme and host, prefix what the paths of the cell begin with.
	host, prefix string
	secret       []byte
	transport    *http.Transport
	// recent keeps idle connections for recentTimeout only.
	recent *http.Transport
	// unpooled dials for each try. Repeats use it: if one idle connection was
	// closed during a call, the others may be closed too.
	unpooled *http.Transport
	logger   *slog.Logger
	now      func() time.Time
	// offset is core's clock minus ours, in nanoseconds, by the last refusal that
	// reported it: for connections that have no offset of their own.
	offset atomic.Int64

	groups groups
	apart  apart
	// sharedTime bounds a request that callers share: each of them may leave before.
	sharedTime time.Duration

	gate       *gate
	processors *seats.Seats
	breakers   *breakers
	budget     budget
	metrics    *metrics
	draining   chan struct{} // closed by Drain
	drain      sync.Once
}

// ParseURL gives what Options.URL has: its scheme and host, and the prefix of all paths, "" where there is none.
func ParseURL(text string) (host, prefix string, err error) {
	base, err := url.Parse(text)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return "", "", errURL
	}
	return base.Scheme + "://" + base.Host, strings.TrimRight(base.Path, "/"), nil
}

// New makes a Cell; it does not dial yet.
func New(o Options) (*Cell, error) {
	host, prefix, err := ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("core's url %w", err)
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
	limits := o.Limits.orDefault()
	c := &Cell{
		name: o.Name, host: host, prefix: prefix,
		secret:     o.Secret,
		transport:  newTransport(limits.InFlight, idleTimeout),
		recent:     newTransport(limits.InFlight, recentTimeout),
		unpooled:   unpooledTransport(),
		logger:     o.Logger,
		now:        o.Now,
		sharedTime: usualTime,
		processors: o.Processors,
		gate:       newGate(limits.InFlight, limits.Parked),
		draining:   make(chan struct{}),
	}
	if o.Name != "" {
		c.logger = o.Logger.With("cell", o.Name)
	}
	c.breakers = newBreakers(limits.BreakerWindow, limits.BreakerOpen, c.logger)
	c.metrics = newMetrics(o.Registry, c.gate, c.breakers)
	return c, nil
}

// newTransport keeps enough idle connections for every call at a peak; the calls in
// flight are bounded before they get here, and in the right order. There is no
// proxy from the environment: it would see every payload and every principal.
func newTransport(inFlight int, idle time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:         dial,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConns:        inFlight,
		MaxIdleConnsPerHost: inFlight,
		IdleConnTimeout:     idle,
		DisableCompression:  true, // on loopback it costs more than it saves
		ReadBufferSize:      16 << 10,
		WriteBufferSize:     16 << 10,
	}
}

func unpooledTransport() *http.Transport {
	t := newTransport(1, idleTimeout)
	t.DisableKeepAlives = true
	return t
}

// Close closes the idle connections.
func (c *Cell) Close() {
	c.transport.CloseIdleConnections()
	c.recent.CloseIdleConnections()
}

// Name is the cell's, "" for the only one.
func (c *Cell) Name() string { return c.name }

// MaxParked is how many calls may wait for a job's change at once.
func (c *Cell) MaxParked() int { return c.gate.waits.most }

// Now is the cell's time as far as it is known: this process's clock plus the offset
// that its core last reported.
func (c *Cell) Now() time.Time { return c.now().Add(time.Duration(c.offset.Load())) }
