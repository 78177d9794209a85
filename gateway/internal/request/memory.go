package request

import (
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/server/memory"
)

// Answer begins to count the memory of an answer.
func (bs *Bodies) Answer(owner Owner) *memory.Hold { return bs.budget.Hold(owner.Name, owner.Urgent) }

// bodyFactor is the memory, in bytes, that each byte of a body takes until its request is
// answered: the buffer it is read into, the decoded values, those encoded for core, and
// the envelope that is sent.
const bodyFactor = 4

// NewBudget makes the budget for the memory of requests' bodies and of their answers: most bytes for
// all, a quarter of them for one tenant, less while others hold much.
func NewBudget(most int64) *memory.Budget {
	return memory.NewBudget(memory.Options{Most: most, Share: most / 4, Factor: bodyFactor})
}

// readText takes a buffer when the first byte has arrived: a client that only declares
// a body gets none.
func (bs *Bodies) readText(b *Body, body io.Reader, declared int64, owner Owner) ([]byte, error) {
	var first [1]byte
	if _, err := io.ReadFull(body, first[:]); err != nil {
		if err == io.EOF {
			err = nil
		}
		return nil, err
	}
	b.from, b.held = bs, bs.budget.Hold(owner.Name, owner.Urgent)
	b.buffer = bs.buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	text, err := b.held.Read(append(*b.buffer, first[0]), body, declared)
	*b.buffer = text
	return text, err
}

// keptBuffer bounds what goes back to the pool, so that a batch of 8 MiB does not
// stay in memory for ever.
const keptBuffer = 256 << 10

// Recycle gives the buffer to other bodies. Nothing decoded may point into it.
func (b *Body) Recycle() {
	buffer := b.buffer
	b.buffer = nil
	if buffer == nil || cap(*buffer) > keptBuffer {
		return
	}
	*buffer = (*buffer)[:0]
	b.from.buffers.Put(buffer)
}

// Release ends the counting of the body's memory. It may be called more than once.
func (b *Body) Release() { b.held.Release() }

// Why a body was refused for memory, as the metric says it.
const (
	reasonShare = "share"
	reasonFull  = "full"
)

func newBodyMetrics(registry prometheus.Registerer, bodies *memory.Budget) *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forgequeue_body_refusals_total",
		Help: "Requests refused before their body was read completely, because the memory for bodies was used up, by reason: share (the tenant's share), full (all of it).",
	}, []string{"reason"})
	for _, reason := range []string{reasonShare, reasonFull} {
		refusals.WithLabelValues(reason) // there from the start, at 0
	}
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgequeue_body_memory_bytes",
		Help: "Memory counted for the bodies of requests in flight and for their answers; FORGEQUEUE_BODY_MEMORY_MIB limits it.",
	}, func() float64 { return float64(bodies.Used()) })
	registry.MustRegister(refusals, held)
	return refusals
}
