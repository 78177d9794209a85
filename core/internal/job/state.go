// Package job holds the rules of a job's life: state transitions, the backoff, the lease token. It
// does no I/O and reads no clock; randomness is passed in.
package job

import (
	"errors"
	"fmt"
)

// State is a job's state. The texts are those of the API and the database.
type State string

// The states. Completed, DeadLetter and Cancelled are terminal.
const (
	// Blocked waits for its parents.
	Blocked   State = "blocked"
	Scheduled State = "scheduled"
	// Waiting waits for signals from outside, or for a time.
	Waiting    State = "waiting"
	Queued     State = "queued"
	Running    State = "running"
	Completed  State = "completed"
	DeadLetter State = "dead_letter"
	Cancelled  State = "cancelled"
)

// Terminal says whether the job has ended.
func (s State) Terminal() bool {
	return s == Completed || s == DeadLetter || s == Cancelled
}

// Event is what happens to a job.
type Event string

// The events.
const (
	Unblock      Event = "unblock"       // its last parent was resolved
	Promote      Event = "promote"       // run_at was reached
	Claim        Event = "claim"         // a worker took it
	Complete     Event = "complete"      // the lease holder: success
	Fail         Event = "fail"          // the lease holder: this attempt failed
	Snooze       Event = "snooze"        // the lease holder: try again later
	Release      Event = "release"       // the lease holder: give the job to another worker
	Wait         Event = "wait"          // the lease holder: go on when there are signals
	Wake         Event = "wake"          // the signals are there
	LeaseExpired Event = "lease_expired" // the lease was not renewed
	Timeout      Event = "timeout"       // the attempt ran past its timeout_ms
	Cancel       Event = "cancel"        // requested by its owner
	DeadlinePast Event = "deadline"      // its deadline has passed
	Redrive      Event = "redrive"       // a dead letter is queued again
)

// Reason says why a job is a dead letter.
type Reason string

// The reasons.
const (
	Exhausted  Reason = "exhausted"
	Permanent  Reason = "permanent"
	WorkerLost Reason = "worker_lost"
	Deadline   Reason = "deadline"
)

// Facts are what a transition depends on besides state and event.
type Facts struct {
	// Attempt is the number of executions spent, the current one included.
	Attempt     int
	MaxAttempts int
	// CancelRequested: the owner asked a running job to stop.
	CancelRequested bool
	// Permanent: the worker says that another attempt cannot help.
	Permanent bool
	// Delayed: the worker named a wait above zero (snooze), or run_at is not reached (unblock).
	Delayed bool
	// Signalled: what it waits for is there (wait).
	Signalled bool
	// Waits: a parent is not resolved (redrive of a job that died while it was blocked).
	Waits bool
}

func (f Facts) exhausted() bool { return f.Attempt >= f.MaxAttempts }

// Verdict is the effect of an event on a job.
type Verdict struct {
	State State
	// Reason is set for a dead letter.
	Reason Reason
	// Backoff: the job waits by its retry policy, or by its worker's retry_after.
	Backoff bool
	// AttemptBack: the attempt was not executed and is not counted (D7).
	AttemptBack bool
}

// ErrNoTransition means that the event cannot happen to a job in this state.
var ErrNoTransition = errors.New("job: no such transition")

// Next is the transition table. The SQL that stores a verdict repeats its precondition; transitions
// are decided nowhere else.
func Next(from State, event Event, facts Facts) (Verdict, error) {
	switch from {
	case Blocked, Scheduled, Waiting, Queued:
		return nextWaiting(from, event, facts)
	case Running:
		return nextRunning(event, facts)
	case DeadLetter:
		if event == Redrive && facts.Waits {
			return Verdict{State: Blocked}, nil
		}
		if event == Redrive {
			return Verdict{State: Queued}, nil
		}
	case Completed, Cancelled, Removed:
	}
	return Verdict{}, fmt.Errorf("%w: %s of a %s job", ErrNoTransition, event, from)
}

func nextWaiting(from State, event Event, facts Facts) (Verdict, error) {
	switch {
	case event == Cancel:
		return Verdict{State: Cancelled}, nil
	case event == DeadlinePast:
		return Verdict{State: DeadLetter, Reason: Deadline}, nil
	case event == Unblock && from == Blocked && facts.Delayed:
		return Verdict{State: Scheduled}, nil
	case event == Unblock && from == Blocked:
		return Verdict{State: Queued}, nil
	case event == Promote && (from == Scheduled || from == Waiting), event == Wake && from == Waiting:
		return Verdict{State: Queued}, nil
	case event == Claim && from == Queued:
		return Verdict{State: Running}, nil
	}
	return Verdict{}, fmt.Errorf("%w: %s of a %s job", ErrNoTransition, event, from)
}

// nextRunning: after a requested cancel, complete still wins and everything else ends the job as
// cancelled; it is never retried or dead-lettered.
func nextRunning(event Event, facts Facts) (Verdict, error) {
	if event == Complete {
		return Verdict{State: Completed}, nil
	}
	if event == Cancel { // requested: the answer to the next heartbeat has it
		return Verdict{State: Running}, nil
	}
	giveBack := event == Snooze || event == Release || event == Wait
	if facts.CancelRequested {
		switch event {
		case Fail, Snooze, Release, Wait, LeaseExpired, Timeout, DeadlinePast:
			return Verdict{State: Cancelled, AttemptBack: giveBack}, nil
		default:
		}
	}
	switch event {
	case Fail:
		return nextFailed(facts, Exhausted), nil
	case Timeout:
		return nextFailed(Facts{Attempt: facts.Attempt, MaxAttempts: facts.MaxAttempts}, Exhausted), nil
	case LeaseExpired:
		if facts.exhausted() {
			return Verdict{State: DeadLetter, Reason: WorkerLost}, nil
		}
		return Verdict{State: Queued}, nil
	case Snooze:
		if facts.Delayed {
			return Verdict{State: Scheduled, AttemptBack: true}, nil
		}
		return Verdict{State: Queued, AttemptBack: true}, nil
	case Wait:
		if !facts.Signalled {
			return Verdict{State: Waiting, AttemptBack: true}, nil
		}
		return Verdict{State: Queued, AttemptBack: true}, nil
	case Release:
		return Verdict{State: Queued, AttemptBack: true}, nil
	case DeadlinePast:
		return Verdict{State: DeadLetter, Reason: Deadline}, nil
	default:
	}
	return Verdict{}, fmt.Errorf("%w: %s of a running job", ErrNoTransition, event)
}

func nextFailed(facts Facts, exhausted Reason) Verdict {
	switch {
	case facts.Permanent:
		return Verdict{State: DeadLetter, Reason: Permanent}
	case facts.exhausted():
		return Verdict{State: DeadLetter, Reason: exhausted}
	}
	return Verdict{State: Scheduled, Backoff: true}
}
