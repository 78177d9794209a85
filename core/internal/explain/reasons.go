package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Facts of a job and its lane. All but Job and SilentSince are for one that waits.
type Facts struct {
	Job *api.Job
	// SilentSince is the last heartbeat of the worker of a running job, if that is stale or dead; else nil.
	SilentSince *time.Time
	Paused      bool
	// Window is until when a window of the queue lasts; zero outside them.
	Window time.Time
	// Push says that the queue is in push mode: it needs no workers.
	Push    bool
	Breaker *api.Breaker
	Workers Workers
	// Caps are the caps on the start of a queued job, with their use.
	Caps  []caps.FullCap
	Rates []Rate
	// Ahead are the jobs of its lane before it, api.MaxCountedAhead+1 at most.
	Ahead int64
	// AtGate: the job is queued, and waits for others of its key. Keys are the queue's settings, Line what is before it.
	AtGate bool
	Keys   api.KeySettings
	Line   gate.Line
	// Budget is what it waits for past the limits of its key; nil for none.
	Budget *gate.Wait
	// Turn is of the job, or of a scheduled one as if it were queued now, and Now is PostgreSQL's clock.
	Turn Turn
	Now  time.Time
}

// Rate is a rate without a start left now.
type Rate struct {
	// Of is api.OfQueue or api.OfType.
	Of        string
	PerSecond float64
	Until     time.Time
}

// Workers says whether there is an active worker of the job's queue, one of them that takes its type, and one of these
// that has its tags.
type Workers struct{ OfQueue, OfType, OfJob bool }

// Explain gives all reasons that hold.
func Explain(f *Facts) api.Explanation {
	made := api.Explanation{State: f.Job.State}
	switch f.Job.State {
	case api.StateScheduled:
		held := f.held()
		made.Because = append([]api.Reason{scheduled(f.Job)}, held...)
		if made.Estimate = f.Turn.Estimate(); made.Estimate != nil && f.Job.RunAt != nil {
			made.Estimate.StartsInMS = max(made.Estimate.StartsInMS, f.Job.RunAt.Sub(f.Now).Milliseconds())
		}
		if len(held) > 0 {
			made.Estimate = nil
		}
	case api.StateWaiting:
		made.Because = append([]api.Reason{waiting(f.Job)}, f.held()...)
	case api.StateBlocked:
		made.Because = append([]api.Reason{blocked(f.Job)}, f.held()...)
	case api.StateRunning:
		made.Because = running(f.Job, f.SilentSince)
	case api.StateQueued:
		if f.AtGate {
			before := f.Line.Past
			switch {
			case f.Budget != nil:
				before = f.Budget.Ahead
				made.Because = append(f.held(), f.ofBudget())
			case f.Job.Key == nil:
				made.Because = append(f.held(), api.Reason{Code: api.WhyBudget, Detail: "The job has just come, and its budgets are being looked at.", Frees: "This takes a moment."})
			default:
				made.Because = append(f.held(), f.ofKey())
			}
			made.Ahead = &api.Ahead{Count: min(before, api.MaxCountedAhead), Capped: before > api.MaxCountedAhead}
			break
		}
		held := f.held()
		if made.Because = slices.Concat(held, f.limited()); len(held) == 0 {
			made.Estimate = f.Turn.Estimate()
		}
		if len(made.Because) == 0 {
			made.Because = append(made.Because, f.inLine())
		}
		made.Ahead = &api.Ahead{Count: min(f.Ahead, api.MaxCountedAhead), Capped: f.Ahead > api.MaxCountedAhead}
	default:
		made.Because = append(made.Because, ended(f.Job))
	}
	return made
}

func scheduled(job *api.Job) api.Reason {
	reason := api.Reason{
		Code: api.WhyTime, Detail: "The job is scheduled for a later time.", Until: job.RunAt,
		Frees: "It is queued when its run_at has come.",
	}
	if job.Attempt > 0 && job.LastError != nil {
		reason.Detail = fmt.Sprintf("Attempt %d failed (%s); the job waits for its next attempt.", job.Attempt, job.LastError.Type)
	}
	return reason
}

func waiting(job *api.Job) api.Reason {
	reason := api.Reason{Code: api.WhySignal, Until: job.WaitUntil}
	if len(job.WaitingFor) == 0 {
		reason.Detail, reason.Frees = "The job sleeps: its handler has put it to sleep until a time.", "It is queued when wait_until has come."
		return reason
	}
	reason.Detail = "The job waits for a signal: " + strings.Join(job.WaitingFor, ", ") + "."
	reason.Frees = "POST /v1/jobs/" + job.ID + "/signals, or the time wait_until."
	return reason
}

func blocked(job *api.Job) api.Reason {
	reason := api.Reason{
		Code: api.WhyParents, Detail: "The job comes after other jobs, which have not all ended.",
		Frees: "It is queued when the jobs that it comes after have ended.",
	}
	if job.BlockedBy != nil {
		reason.Limit, reason.Current = new(int64(len(job.After))), new(int64(*job.BlockedBy))
		reason.Detail = fmt.Sprintf("The job waits for %d of the jobs that it comes after.", *job.BlockedBy)
	}
	return reason
}

func running(job *api.Job, silentSince *time.Time) []api.Reason {
	worker := "A worker"
	if job.WorkerID != nil {
		worker = "The worker " + *job.WorkerID
	}
	reasons := []api.Reason{{
		Code: api.WhyRunning, Detail: fmt.Sprintf("%s runs attempt %d.", worker, job.Attempt), Until: job.LeaseExpiresAt,
		Frees: "The worker reports an outcome, or its lease expires without a heartbeat.",
	}}
	if silentSince != nil {
		reasons = append(reasons, api.Reason{
			Code: api.WhyWorkerStale, Detail: worker + " has sent no heartbeat since " + silentSince.UTC().Format("2006-01-02 15:04:05 UTC") + ".",
			Until: job.LeaseExpiresAt, Frees: "The worker sends a heartbeat, or the lease expires and the attempt is lost.",
		})
	}
	if job.CancelRequested {
		reasons = append(reasons, api.Reason{
			Code: api.WhyCancelRequested, Detail: "Cancellation was requested; the worker gets it with its next heartbeat.", Until: job.LeaseExpiresAt,
			Frees: "The worker stops, or its lease expires.",
		})
	}
	return reasons
}

func ended(job *api.Job) api.Reason {
	reason := api.Reason{Code: api.WhyEnded, Detail: "The job is " + job.State + ".", Frees: "Never. A rerun submits a new job like it."}
	if job.State == api.StateDeadLetter {
		reason.Detail = "The job is a dead letter."
		if job.DeadReason != nil {
			reason.Detail = "The job is a dead letter: " + *job.DeadReason + "."
		}
		reason.Frees = "A redrive queues it again."
	}
	return reason
}

// held returns what keeps all jobs of the queue, or of the job's type and tags in it, from starting.
func (f *Facts) held() []api.Reason {
	var reasons []api.Reason
	queue := "The queue " + f.Job.Queue
	if f.Paused {
		reasons = append(reasons, api.Reason{Code: api.WhyPaused, Detail: queue + " is paused.", Frees: "The queue is resumed."})
	}
	if !f.Window.IsZero() {
		reasons = append(reasons, api.Reason{
			Code: api.WhyWindow, Detail: queue + " is in one of its windows, in which no job starts.", Until: &api.Time{Time: f.Window}, Frees: "The window ends.",
		})
	}
	switch b := f.Breaker; {
	case f.Push && b != nil && b.State == api.BreakerOpen:
		reasons = append(reasons, api.Reason{
			Code: api.WhyBreaker, Detail: queue + " pushes to a destination that fails; its circuit breaker is open.", Until: b.RetryAt,
			Frees: "The destination accepts calls again.",
		})
	case f.Push && b != nil && b.State == api.BreakerHalfOpen:
		reasons = append(reasons, api.Reason{
			Code: api.WhyBreaker, Detail: queue + " pushes to a destination that has failed; its circuit breaker is half-open and lets few calls through.",
			Frees: "The destination accepts these calls.",
		})
	case !f.Push && !f.Workers.OfJob:
		reasons = append(reasons, f.unserved())
	}
	return reasons
}

// unserved says that no worker takes the job.
func (f *Facts) unserved() api.Reason {
	reason := api.Reason{Code: api.WhyNoWorker}
	switch {
	case !f.Workers.OfQueue:
		reason.Detail = "No active worker serves the queue " + f.Job.Queue + "."
		reason.Frees = "A worker claims from the queue."
	case !f.Workers.OfType:
		reason.Detail = "No active worker of the queue " + f.Job.Queue + " takes jobs of the type " + f.Job.Type + "."
		reason.Frees = "A worker claims jobs of the type from the queue."
	default:
		reason.Code = api.WhyTags
		reason.Detail = "No active worker of the queue " + f.Job.Queue + " that takes the job's type has all of its tags: " + strings.Join(f.Job.Tags, ", ") + "."
		reason.Frees = "A worker with these tags claims from the queue."
	}
	return reason
}

// limited gives the full caps and the rates without a start left.
func (f *Facts) limited() []api.Reason {
	var reasons []api.Reason
	for _, c := range f.Caps {
		if c.Used >= c.Limit {
			reasons = append(reasons, fullCap(c))
		}
	}
	for _, rate := range f.Rates {
		reasons = append(reasons, api.Reason{
			Code: api.WhyRate, Detail: fmt.Sprintf("The %s starts at most %v jobs a second.", rate.Of, rate.PerSecond), Of: new(rate.Of),
			Until: &api.Time{Time: rate.Until}, Frees: "Time passes, or the rate is raised.",
		})
	}
	return reasons
}

// ofKey says what a job waits for at the gate of its key.
func (f *Facts) ofKey() api.Reason {
	key := "the key " + *f.Job.Key
	if f.Line.Due != nil {
		return api.Reason{
			Code: api.WhyKeyRate, Detail: fmt.Sprintf("%v jobs of %s start in a second at most.", store.OrElse(f.Keys.RatePerSecond, 0), key),
			Until: api.AtOrNil(f.Line.Due), Frees: "Time passes, or the queue's keys.rate_per_second is raised.",
		}
	}
	full := api.Reason{Code: api.WhyKeyCap, Limit: f.Keys.MaxRunning, Current: new(f.Line.Past), Frees: "One of them ends, or the queue's keys.max_running is raised."}
	if f.Keys.Order != api.KeyOrderFIFO {
		jobs := "jobs of " + key + " are"
		if f.Line.Past == 1 {
			jobs = "job of " + key + " is"
		}
		full.Detail = fmt.Sprintf("%d %s ready or running, and the queue allows %d.", f.Line.Past, jobs, store.OrElse(f.Keys.MaxRunning, f.Line.Past))
		return full
	}
	order := api.Reason{Code: api.WhyKeyOrder, Detail: "The jobs of " + key + " run in order, and others were accepted before this one.", Frees: "The jobs before it end."}
	switch {
	case f.Line.Dead != nil && f.Keys.OnDead == api.KeyHold:
		order.Detail = "The dead letter " + f.Line.Dead.String() + " stops " + key + "."
		order.Frees = "It is redriven and completes, or is discarded."
	case f.Line.First != nil && f.Line.First.String() != f.Job.ID:
		order.Detail = "The jobs of " + key + " run in order, and it is the turn of the job " + f.Line.First.String() + "."
	}
	return order
}

// ofBudget says which budget a job waits for.
func (f *Facts) ofBudget() api.Reason {
	b := f.Budget
	name := "the budget " + b.Ref.Name
	if b.By != "" && b.Ref.Subject != "" {
		name += " of the " + b.By + " " + b.Ref.Subject
	}
	reason := api.Reason{Code: api.WhyBudget, Limit: new(b.Holds()), Current: new(b.Holds() - b.Available())}
	if b.Closed() {
		reason.Detail = "A worker was told to come back later, so " + name + " is closed."
		reason.Frees, reason.Until = "Its time comes, or the budget is set again.", api.AtOrNil(b.ClosedUntil)
		return reason
	}
	reason.Detail = fmt.Sprintf("An attempt may use %d %s, and %s has %d of %d left.", b.Cost, b.Unit, name, b.Available(), b.Holds())
	reason.Frees = "Time passes, running jobs use less than they reserved, or the budget is raised."
	if b.Ahead > 0 {
		reason.Detail += fmt.Sprintf(" Jobs before this one: %d.", min(b.Ahead, api.MaxCountedAhead))
	} else if at, will := b.PaysAt(b.Cost); will {
		reason.Until = &api.Time{Time: at.Truncate(time.Microsecond)}
	}
	return reason
}

func (f *Facts) inLine() api.Reason {
	detail := fmt.Sprintf("The job is ready. Jobs of its queue, type and tags before it: %d.", f.Ahead)
	if f.Ahead > api.MaxCountedAhead {
		detail = fmt.Sprintf("The job is ready. More than %d jobs of its queue, type and tags are before it.", api.MaxCountedAhead)
	}
	return api.Reason{Code: api.WhyInLine, Detail: detail, Frees: "A worker claims it."}
}

func fullCap(c caps.FullCap) api.Reason {
	of := map[caps.Counter]string{
		caps.RunningTenant: api.OfTenant, caps.RunningUser: api.OfUser, caps.RunningQueue: api.OfQueue,
		caps.RunningType: api.OfType, caps.RunningAll: api.OfInstallation,
	}[c.Counter]
	reason := api.Reason{
		Code: api.WhyRunningCap, Limit: new(c.Limit), Current: new(c.Used), Of: &of,
		Detail: fmt.Sprintf("The %s runs %d jobs, and %d is its maximum.", of, c.Used, c.Limit), Frees: "One of them ends, or the maximum is raised.",
	}
	if c.Limit == 0 {
		reason.Detail, reason.Frees = "The "+of+" may run no jobs: its maximum is 0.", "The maximum is raised."
	}
	if c.Counter == caps.RunningAll { // its use is that of other tenants
		reason.Current, reason.Detail = nil, "The installation runs as many jobs as it may."
	}
	return reason
}
