package publish

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/watch"
)

// Hints tell other cores; they never block.
type Hints struct {
	// Ready passes wake-ups on.
	Ready func([]jobs.Waiting)
	// Ended and Settings do the same for ended jobs and changed settings.
	Ended    func([]uuid.UUID)
	Settings func()
	// Left tells of a worker that left.
	Left func(owner tenant.ID, workerID string)
	// Arrive says whether the hints of other cores are likely to arrive here.
	Arrive func() bool
}

// Options are what a Publisher needs.
type Options struct {
	Cached  *cache.Memory
	Lists   *scheduler.ReadyLists
	Parking *scheduler.Parking
	Watches *watch.Watches
	// Times learn how long attempts run; nil where shares are of jobs.
	Times *scheduler.RunTimes
	// Stats counts what is published.
	Stats   *Recorder
	Metrics *metrics.Jobs
	Traces  Traces
	Logger  *slog.Logger
	// Hints tell other cores.
	Hints Hints
}

// Publisher tells of changes.
type Publisher struct {
	*Waker

	// Scheduled is kicked when a job has become scheduled, Schedules when a schedule was made or changed.
	Scheduled, Schedules Kick
	// Deadlines is kicked when a live job may have got a deadline, Leased when jobs were claimed, Redrives when a redrive or
	// a bulk action was made, Deleted when a tenant is to be deleted.
	Deadlines, Leased, Redrives, Deleted Kick

	watches *watch.Watches
	stats   *Recorder
	times   *scheduler.RunTimes
	metrics *metrics.Jobs
	traces  Traces
	hints   Hints
	log     *slog.Logger
}

// Kick ends the sleep of a duty, which receives from it.
type Kick chan struct{}

// NewKick makes one.
func NewKick() Kick { return make(Kick, 1) }

// Kick never blocks; two are one.
func (k Kick) Kick() {
	select {
	case k <- struct{}{}:
	default:
	}
}

// New makes a Publisher.
func New(o Options) *Publisher {
	if o.Hints.Ready == nil {
		o.Hints.Ready = func([]jobs.Waiting) {}
	}
	if o.Hints.Ended == nil {
		o.Hints.Ended = func([]uuid.UUID) {}
	}
	if o.Hints.Settings == nil {
		o.Hints.Settings = func() {}
	}
	if o.Hints.Left == nil {
		o.Hints.Left = func(tenant.ID, string) {}
	}
	if o.Hints.Arrive == nil {
		o.Hints.Arrive = func() bool { return false }
	}
	return &Publisher{
		Waker:     &Waker{cached: o.Cached, lists: o.Lists, parking: o.Parking, hint: o.Hints.Ready, arrive: o.Hints.Arrive, log: o.Logger, refresh: NewKick()},
		Scheduled: NewKick(), Schedules: NewKick(), Deadlines: NewKick(), Leased: NewKick(), Redrives: NewKick(), Deleted: NewKick(),
		watches: o.Watches, stats: o.Stats, times: o.Times, metrics: o.Metrics, traces: o.Traces, hints: o.Hints, log: o.Logger,
	}
}

// Publish tells of what a commit did.
func (p *Publisher) Publish(ctx context.Context, c Changes) {
	var t told
	for i := range c.Jobs {
		p.change(&t, &c.Jobs[i], c.Because)
		p.recordAttempt(ctx, &c.Jobs[i])
	}
	for i := range c.Ended {
		p.outcome(ctx, &t, &c.Endings[i], &c.Ended[i])
	}
	for i := range c.Stored {
		p.stored(&t, &c.Stored[i])
		c.Amended = append(c.Amended, c.Stored[i].Amended...)
	}
	for i := range c.Claimed {
		p.claimed(&t, &c.Claimed[i])
	}
	if len(c.Claimed) > 0 {
		p.Leased.Kick()
	}
	for i := range c.Promoted {
		if !c.Promoted[i].At.IsZero() {
			t.ready = append(t.ready, c.Promoted[i])
		}
		t.changed = append(t.changed, c.Promoted[i].ID)
	}
	for i := range c.Amended {
		t.amended(&c.Amended[i])
	}
	t.changed = append(t.changed, c.Deleted...)
	p.metrics.Promoted.Add(float64(len(c.Promoted)))
	p.metrics.Claimed.Add(float64(len(c.Claimed)))
	p.metrics.Discarded.Add(float64(c.Discarded))
	p.tell(&t, c.Reported)
}

// told is what a call of Publish has gathered.
type told struct {
	ready []jobs.Ready
	// changed are woken for here, ended in every core.
	changed, ended []uuid.UUID
	events         []stats.Event
	ran            []scheduler.Ran
	// scheduled and deadlines: a job became scheduled, got a deadline.
	scheduled, deadlines bool
}

// amended gathers a job that has changed while it waited.
func (t *told) amended(one *amend.Amended) {
	if !one.Ready.At.IsZero() {
		t.ready = append(t.ready, one.Ready)
	}
	t.scheduled = t.scheduled || one.State == job.Scheduled || one.State == job.Waiting
	t.deadlines = t.deadlines || one.Deadline
	t.changed = append(t.changed, one.ID)
}

// tell does what was gathered: watches first, who then read, and claims last.
func (p *Publisher) tell(t *told, reported []uuid.UUID) {
	p.stats.Record(t.events)
	p.times.Ended(t.ran)
	if len(t.changed) > 0 {
		p.watches.Wake(t.changed)
	}
	if len(t.ended) > 0 {
		p.watches.Wake(t.ended)
		p.hints.Ended(t.ended)
	}
	if len(reported) > 0 {
		p.watches.WakeForVersion(reported...)
	}
	p.Wake(t.ready)
	if t.scheduled {
		p.Scheduled.Kick()
	}
	if t.deadlines {
		p.Deadlines.Kick()
	}
}

// change gathers what became of one job. because, where not empty, is why it was requeued.
func (p *Publisher) change(t *told, one *jobs.Change, because string) {
	if because == "" {
		because = string(one.Event)
	}
	if one.Statistic.At != (jobs.Statistic{}).At {
		t.events = append(t.events, eventOf(&one.Statistic, one.Verdict.State))
		if one.Statistic.Running > 0 {
			t.ran = append(t.ran, scheduler.Ran{Job: one.ID, Lane: one.Ready.Lane, Queue: one.Statistic.Queue, For: one.Statistic.Running})
		}
	}
	if endsAttempt(one.Event) {
		t.ready = p.released(t.ready, one.Ready.Lane)
	}
	switch one.Verdict.State {
	case job.Completed:
	case job.DeadLetter:
		p.metrics.DeadLettered.WithLabelValues(string(one.Verdict.Reason)).Inc()
	case job.Cancelled:
		p.metrics.Cancelled.Inc()
	default:
		if one.Event == job.Unblock {
			p.metrics.Unblocked.Inc()
		} else {
			p.metrics.Requeued.WithLabelValues(because).Inc()
		}
	}
	t.deadlines = t.deadlines || one.Event == job.Redrive // a dead letter keeps its deadline
	switch state := one.Verdict.State; {
	case state.Terminal():
		t.ended = append(t.ended, one.ID)
		return
	case state == job.Queued && !one.Ready.At.IsZero(): // otherwise it came to the gate of its key
		t.ready = append(t.ready, one.Ready)
	case state == job.Scheduled, state == job.Waiting:
		t.scheduled = true
	}
	t.changed = append(t.changed, one.ID)
}

// endsAttempt says whether the job may have been running, and so may have released capacity.
func endsAttempt(event job.Event) bool {
	return event != job.Cancel && event != job.Unblock && event != job.Redrive
}

// SettingsChanged makes a change of queues' settings known here, and tells other cores.
func (p *Publisher) SettingsChanged(ctx context.Context) error {
	p.hints.Settings()
	return p.refreshLanes(ctx)
}

// SchedulesChanged makes a schedule that was set known to the duty of this core and, should this core end, to those of others.
func (p *Publisher) SchedulesChanged() {
	p.Schedules.Kick()
	p.hints.Settings()
}

// TypesChanged makes a change of a tenant's types known here, and tells other cores. They read it within
// refreshSeldom even if they are not told.
func (p *Publisher) TypesChanged(ctx context.Context) error {
	p.hints.Settings()
	return p.cached.Limits.Refresh(ctx)
}

// TellWorkerLeft tells other cores of a worker that left.
func (p *Publisher) TellWorkerLeft(owner tenant.ID, workerID string) { p.hints.Left(owner, workerID) }
