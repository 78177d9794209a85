package httpapi

import (
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/memory"
)

// keptBuffer bounds what goes back to the pool, so that a batch of 8 MiB does not
// stay in memory for ever.
const keptBuffer = 256 << 10

// release takes the body's buffer back. Nothing decoded may point into it.
func (s *Server) release(c *call) {
	buffer := c.buffer
	c.buffer = nil
	if buffer == nil || cap(*buffer) > keptBuffer {
		return
	}
	*buffer = (*buffer)[:0]
	s.buffers.Put(buffer)
}

// bodyFactor is what a body takes at once for each of its bytes until its request has
// been answered: the buffer it is read into, what is decoded from it, that encoded
// for core, and the envelope that is sent.
const bodyFactor = 4

// NewBodies makes the budget for the memory of requests' bodies: most bytes for
// all, a quarter of them for one tenant.
func NewBodies(most int64) *memory.Budget {
	return memory.NewBudget(memory.Options{Most: most, Share: most / 4, Factor: bodyFactor})
}

// countBody begins to count the memory of the call's body. It counts for the tenant; a
// platform key's counts for the key. What keeps or ends a lease is urgent.
func (s *Server) countBody(c *call) {
	who := c.principal()
	owner := who.Tenant
	if owner == "" {
		owner = who.Kind + " " + who.KeyID
	}
	c.held = s.bodies.Hold(owner, c.cost == costReports)
}

// readText takes a buffer when the first byte is there: a client that only says that
// a body will come gets none.
func (s *Server) readText(c *call, body io.Reader, declared int64) ([]byte, error) {
	var first [1]byte
	if _, err := io.ReadFull(body, first[:]); err != nil {
		if err == io.EOF {
			err = nil
		}
		return nil, err
	}
	s.countBody(c)
	c.buffer = s.buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	text, err := c.held.Read(append(*c.buffer, first[0]), body, declared)
	*c.buffer = text
	return text, err
}

// Why a body was refused for memory, as the metric says it.
const (
	reasonShare = "share"
	reasonFull  = "full"
)

func newBodyMetrics(registry prometheus.Registerer, bodies *memory.Budget) *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forgequeue_body_refusals_total",
		Help: "Requests refused before their body was read to its end, because those under way hold as much memory as they may, by reason: share (the tenant's), full (all).",
	}, []string{"reason"})
	for _, reason := range []string{reasonShare, reasonFull} {
		refusals.WithLabelValues(reason) // there from the start, at 0
	}
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgequeue_body_memory_bytes",
		Help: "Memory counted for the bodies of requests under way; FORGEQUEUE_BODY_MEMORY_MIB bounds it.",
	}, func() float64 { return float64(bodies.Used()) })
	registry.MustRegister(refusals, held)
	return refusals
}
