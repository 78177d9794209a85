package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Workers is the duty with its state.
type Workers struct{ *workerAges }

// NewWorkers makes it.
func NewWorkers(d Duties) Workers { return Workers{&workerAges{Duties: d}} }

// RunOnce runs the duty once.
func (w Workers) RunOnce(ctx context.Context) error { return w.ageAndReap(ctx) }

// Answered sets when PostgreSQL last answered, and since when without an outage.
func (w Workers) Answered(last, since time.Time) { w.answered, w.since = last, since }

// Store sets the store.
func (w Workers) Store(store *cell.Cell) { w.store = store }

// Counts is the duty of usage with its state.
type Counts struct{ *counts }

// NewCounts makes it.
func NewCounts(d Duties) Counts { return Counts{d.counts()} }

// RunOnce runs the duty once.
func (c Counts) RunOnce(ctx context.Context) error { return c.maintain(ctx) }

// Recount runs one step of a recount.
func (c Counts) Recount(ctx context.Context) error { return c.recountSome(ctx) }

// FollowUpRound makes one round of follow-ups.
func (d Duties) FollowUpRound(ctx context.Context) error {
	_, err := d.followUpRounds().round(ctx, map[tenant.ID]bool{})
	return err
}

// KickedBy says whether a kick ends the duty's sleep.
func (d *Duty) KickedBy(kicks publish.Kick) bool { return d.kicks == kicks }
