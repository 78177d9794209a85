package jobs_test

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Spans so long that a slow test cannot lookback their end, and so different that a
// minute is a fair tolerance.
const (
	modelDelay      = 9 * time.Hour
	modelVisibility = 600 * time.Second
	modelTimeout    = 300 * time.Second
	modelBase       = 1000 * time.Second
	modelCap        = 3000 * time.Second
	modelRetryAfter = 5000 * time.Second
	modelSnooze     = 7000 * time.Second
	modelTolerance  = time.Minute
	// longer than any lease: what "expire" takes from one
	modelAge = 1000 * time.Second
)

// discarded is a job that is gone for good.
const discarded = "discarded"

// modelJob is what a job should be.
type modelJob struct {
	id          uuid.UUID
	tenant      tenant.ID
	lane        lanes.ID
	user        string
	priority    int
	maxAttempts int
	timeout     bool
	dedupe      string
	payload     string

	state                    string
	attempt, epoch, redrives int
	cancelRequested          bool
	reason                   string
	errorType                string
	result                   string
	worker                   string
	// hasDeadline, and it is over.
	hasDeadline, late bool
	// ready is the tick at which it last became ready.
	ready int
	// signals are those that it has, awaited are those that it waits for, all of them or any.
	signals, awaited []string
	all              bool
	// due: its time has come. wait is how long it was to wait, while that is known.
	due  bool
	wait time.Duration

	// lease is nil but for a running job; expired: it has run out.
	lease   *job.Lease
	owner   tenant.ID
	expired bool
	// lost are the leases of the past.
	lost []job.Lease
	// saved is the stored outcome.
	saved *savedOutcome
	// attempts are those that did not succeed.
	attempts []modelAttempt
	// ends counts the lives that have ended.
	ends int

	// row is the row as it was last seen; changed: it may differ now.
	row     string
	changed bool
}

type savedOutcome struct {
	ending  jobs.Ending
	outcome api.Outcome
}

type modelAttempt struct {
	epoch, attempt int
	kind, worker   string
}

// ---- what can happen to a job, as DESIGN §2 has it

func (j *modelJob) live() bool { return j.delayed() || j.state == "queued" || j.running() }

// delayed: it waits for a time, or for signals.
func (j *modelJob) delayed() bool { return j.state == "scheduled" || j.state == "waiting" }

func (j *modelJob) running() bool { return j.state == "running" }

func (j *modelJob) isClaimed(lease job.Lease, w *modelWorker) {
	j.state, j.attempt, j.epoch = "running", j.attempt+1, j.epoch+1
	j.lease, j.worker, j.owner, j.expired = &lease, w.id, w.owner, false
	j.saved = nil
	j.changed = true
}

// leave ends the lease, with a note of the attempt where it was spent.
func (j *modelJob) leave(kind string) {
	if kind != "" {
		j.attempts = append(j.attempts, modelAttempt{j.epoch, j.attempt, kind, j.worker})
	}
	j.lost = append(j.lost, *j.lease)
	j.lease, j.expired = nil, false
}

func (j *modelJob) end(state, reason string) {
	j.state, j.reason, j.changed = state, reason, true
	j.ends++
}

func (j *modelJob) queue(tick int) {
	j.state, j.worker, j.ready, j.changed = "queued", "", tick, true
}

func (j *modelJob) schedule(wait time.Duration) {
	j.state, j.worker, j.wait, j.due, j.changed = "scheduled", "", wait, false, true
}

func (j *modelJob) completed(result string) {
	j.leave("")
	j.result = result
	j.end("completed", "")
}

// failed is a fail, and an attempt that ran past its timeout.
func (j *modelJob) failed(kind string, permanent bool, wait *time.Duration) {
	switch {
	case j.cancelRequested:
		j.leave("cancelled")
		j.end("cancelled", "")
	case permanent:
		j.leave(kind)
		j.end("dead_letter", "permanent")
	case j.attempt == j.maxAttempts:
		j.leave(kind)
		j.end("dead_letter", "exhausted")
	default:
		j.leave(kind)
		backoff := min(modelCap, modelBase<<(j.attempt-1))
		if wait != nil {
			backoff = *wait
		}
		j.schedule(backoff)
	}
}

// handedBack is a snooze or a release: the attempt was none.
func (j *modelJob) handedBack(delay time.Duration, tick int) {
	if j.cancelRequested {
		j.leave("cancelled")
		j.attempt--
		j.end("cancelled", "")
		return
	}
	j.leave("")
	j.attempt--
	if delay > 0 {
		j.schedule(delay)
	} else {
		j.queue(tick)
	}
}

// waits is a wait: a release if the signals are there.
func (j *modelJob) waits(e *jobs.Ending, tick int) {
	j.awaited, j.all = e.Wait.Names, e.Wait.All
	if j.cancelRequested || j.signalled() {
		j.handedBack(0, tick)
		return
	}
	j.handedBack(e.Delay, tick)
	j.state = "waiting"
}

func (j *modelJob) signalled() bool {
	there := 0
	for _, name := range j.awaited {
		if slices.Contains(j.signals, name) {
			there++
		}
	}
	return there > 0 && (!j.all || there == len(j.awaited))
}

// leaseEnded is what the reaper does.
func (j *modelJob) leaseEnded(tick int) {
	if j.timeout && j.expired {
		j.errorType = "timeout"
		j.failed("timeout", false, nil)
		return
	}
	j.errorType = "lease_expired"
	switch {
	case j.cancelRequested:
		j.leave("cancelled")
		j.end("cancelled", "")
	case j.attempt == j.maxAttempts:
		j.leave("lease_expired")
		j.end("dead_letter", "worker_lost")
	default:
		j.leave("lease_expired")
		j.queue(tick)
	}
}

func (j *modelJob) deadlinePassed() {
	j.errorType = "deadline"
	if j.running() {
		if j.cancelRequested {
			j.leave("cancelled")
			j.end("cancelled", "")
			return
		}
		j.leave("timeout")
	}
	j.end("dead_letter", "deadline")
}

func (j *modelJob) rise(tick int) {
	j.attempt, j.redrives, j.reason = 0, j.redrives+1, ""
	if j.late {
		j.hasDeadline, j.late = false, false
	}
	j.queue(tick)
}

// outcome is the holder's answer.
func (j *modelJob) outcome() api.Outcome {
	outcome := api.Outcome{JobID: j.id.String(), State: j.state, Attempt: j.attempt, Epoch: int64(j.epoch)}
	if j.reason != "" {
		outcome.DeadReason = &j.reason
	}
	return outcome
}
