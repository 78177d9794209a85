package coreclient

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Down is what a Probe gives where core does not answer.
const Down = "down"

const (
	probeLife    = time.Second
	probeTimeout = time.Second
)

// Probe caches core's readiness for a second, so that a readiness probe, which needs
// no key, costs core next to nothing. It is safe for concurrent use.
type Probe struct {
	client *Client
	// everUp is whether core has ever answered, in any state.
	everUp atomic.Bool

	mu      sync.Mutex // held while core is asked: concurrent callers share one call
	checked time.Time
	status  string
}

// NewProbe makes a Probe of the client's core.
func NewProbe(c *Client) *Probe { return &Probe{client: c} }

// EverUp returns whether core has ever answered a Check, in any state.
func (p *Probe) EverUp() bool { return p.everUp.Load() }

// Check gives core's own status, or Down. It takes a second at most.
func (p *Probe) Check(ctx context.Context) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.checked) < probeLife {
		return p.status
	}
	// A caller that leaves must not make core appear down to the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	status, err := p.client.Ready(ctx)
	if err != nil {
		status = Down
	} else {
		p.everUp.Store(true)
	}
	p.status, p.checked = status, time.Now()
	return p.status
}
