package submit

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Submitter has the statements.
type Submitter struct {
	*store.Store
	counts *caps.Counts
	edges  *dependency.Edges
	gate   *gate.Gate
	// room says when there is likely to be room under a full cap; nil for never known.
	room RetryAfter
}

// RetryAfter says how long one caller should wait for room under a full cap; false where that is not known.
type RetryAfter func(caps.CountKey) (time.Duration, bool)

// New makes them.
func New(s *store.Store, counts *caps.Counts, edges *dependency.Edges, gates *gate.Gate) *Submitter {
	return &Submitter{Store: s, counts: counts, edges: edges, gate: gates}
}

// OnFull sets what says when there is likely to be room under a full cap. Call it before the first submit.
func (s *Submitter) OnFull(room RetryAfter) { s.room = room }
