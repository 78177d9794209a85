package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/schedule"
)

const (
	// schedulePoll is the longest sleep of the duty while there are schedules: the maximum delay
	// of one that another core made, and died. Without any it sleeps longNet. A core that has met
	// another one at the same ticks sleeps schedulePoll on average: so long they wait if that one dies.
	schedulePoll = time.Second
	// scheduleBatch is how many schedules are worked off before the due ones are listed again, and
	// scheduleProbe how many at first: another core may be at them already.
	scheduleBatch = 1000
	scheduleProbe = 100
	// clockSlack is how far PostgreSQL's clock may go back without a rewind, rewindBatch how many
	// schedules a statement of one reads.
	clockSlack  = time.Second
	rewindBatch = 1000
)

// ticker works off the ticks of schedules.
type ticker struct {
	Duties

	// seen is PostgreSQL's clock as of the last run; zero at the start, when another core may have
	// seen a later one.
	seen time.Time
}

// Schedules works off the ticks of schedules. It sleeps until the next one is due.
func (d Duties) Schedules() *Duty {
	t := &ticker{Duties: d}
	return d.kicked(d.engine.Publisher.Schedules, "schedules", t.runDue)
}

// runDue works off every due tick, and returns how long to sleep.
func (t *ticker) runDue(ctx context.Context) (time.Duration, error) {
	var failed error
	for batch := scheduleProbe; ; batch = scheduleBatch {
		next, err := t.store.Schedules.NextSchedule(ctx)
		if err != nil {
			return schedulePoll, errors.Join(failed, err)
		}
		if next.Now.Before(t.seen.Add(-clockSlack)) || t.seen.IsZero() {
			if err := t.rewind(ctx); err != nil {
				return schedulePoll, errors.Join(failed, err)
			}
		}
		t.seen = next.Now
		switch {
		case next.Until == nil:
			return longNet, failed
		case *next.Until > 0:
			return min(*next.Until, schedulePoll), failed
		}
		run, err := t.engine.Submits.RunSchedules(ctx, batch)
		if err != nil {
			failed = err // of some; others go on
		}
		if run.Contended || err != nil && run.Worked == 0 {
			return jittered(schedulePoll, 0.5), failed
		}
	}
}

// rewind looks at all schedules, for those that were worked off in what is the future again.
func (t *ticker) rewind(ctx context.Context) error {
	for place := (schedule.Place{}); ; {
		rewound, next, err := t.store.Schedules.RewindSchedules(ctx, place, rewindBatch)
		if err != nil {
			return err
		}
		if rewound > 0 {
			t.log.WarnContext(ctx, "PostgreSQL's clock was set back: schedules go on from now", "schedules", rewound)
		}
		if place = next; place == (schedule.Place{}) {
			return nil
		}
	}
}
