package api

import (
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// DeadLetterRequest says which dead letters to redrive or to discard: up to 1000
// by IDs, which is done at once, or all that match Filter, which is a Redrive.
type DeadLetterRequest struct {
	IDs    []string              `json:"ids,omitzero"`
	Filter *DeadLetterFilterBody `json:"filter,omitzero"`
	DryRun bool                  `json:"dry_run,omitzero"`
	// RatePerSecond, beside a filter, is how many go at most in a second; null: the
	// default pace.
	RatePerSecond *float64 `json:"rate_per_second,omitzero"`
	// Canary, beside a filter and for a redrive only, is a sample that is queued first;
	// null: all are queued.
	Canary *CanaryRequest `json:"canary,omitzero"`
}

// DeadLetterFilterBody is a filter in a body. A member that is there has to say
// something: a queue of "" that quietly matched all of them would do much harm.
type DeadLetterFilterBody struct {
	Queue       *string `json:"queue,omitzero"`
	Type        *string `json:"type,omitzero"`
	Reason      *string `json:"reason,omitzero"`
	Fingerprint *string `json:"fingerprint,omitzero"`
	After       *Time   `json:"after,omitzero" swaggertype:"string" format:"date-time"`
	Before      *Time   `json:"before,omitzero" swaggertype:"string" format:"date-time"`
}

// Filter is what the body says.
func (b *DeadLetterFilterBody) Filter() DeadLetterFilter {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return DeadLetterFilter{
		Queue: text(b.Queue), Type: text(b.Type), Reason: text(b.Reason), Fingerprint: strings.ToLower(text(b.Fingerprint)),
		After: b.After, Before: b.Before,
	}
}

// Body is the filter as a body has it.
func (f DeadLetterFilter) Body() *DeadLetterFilterBody {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return &DeadLetterFilterBody{
		Queue: text(f.Queue), Type: text(f.Type), Reason: text(f.Reason), Fingerprint: text(f.Fingerprint),
		After: f.After, Before: f.Before,
	}
}

// DeadLetterResponse answers item by item in the order sent.
type DeadLetterResponse struct {
	Results []BatchResult `json:"results"`
}

// Matched is a dry run's answer. MatchedCapped says that only the newest
// MaxDeadLetterRows dead letters were looked at, and that there may be more.
type Matched struct {
	Matched       int64 `json:"matched"`
	MatchedCapped bool  `json:"matched_capped"`
	// Sample is how many the sample of a redrive with a canary would be; null without.
	Sample *int64 `json:"sample,omitzero"`
}

// Redrive is a redrive, or a discard, of all dead letters that match a filter. It
// continues until it is done, in batches, whatever becomes of the cores that work on it.
type Redrive struct {
	ID            string           `json:"id"`
	Action        string           `json:"action"`
	Filter        DeadLetterFilter `json:"filter"`
	RatePerSecond *float64         `json:"rate_per_second"`
	// State is running, done, cancelled, stopped: the sample did not pass; or failed:
	// eight steps failed one after the other. Processed jobs are not reverted.
	State string `json:"state"`
	// Matched is how many matched when it was asked for; once it is done, where that
	// was capped, how many it came to.
	Matched       int64 `json:"matched"`
	MatchedCapped bool  `json:"matched_capped"`
	// Done are those that were queued again, or discarded. What left the dead letters
	// otherwise in the meantime is in neither done nor refused.
	Done int64 `json:"done"`
	// Refused are those whose dedupe_key a live job holds: they stay dead.
	Refused int64 `json:"refused"`
	// Waiting says why it is waiting: active_cap_reached. Null while it runs.
	Waiting *string `json:"waiting"`
	// Error says why it failed.
	Error *string `json:"error"`
	// Canary is the sample that is queued first; null where all are queued.
	Canary    *Canary `json:"canary"`
	CreatedAt Time    `json:"created_at" swaggertype:"string" format:"date-time"`
	UpdatedAt Time    `json:"updated_at" swaggertype:"string" format:"date-time"`
	EndedAt   *Time   `json:"ended_at" swaggertype:"string" format:"date-time"`
}

// DeadLetterGroups are the largest groups among a tenant's dead letters.
type DeadLetterGroups struct {
	Items []DeadLetterGroup `json:"items"`
	// Read is how many dead letters were looked at, newest jobs first; ReadCapped says
	// that there are more, and that every count is "at least" so much.
	Read       int64 `json:"read"`
	ReadCapped bool  `json:"read_capped"`
	// Groups is how many groups there are; items has the largest of them.
	Groups int64 `json:"groups"`
}

// DeadLetterGroup are dead letters of one fingerprint in one queue.
type DeadLetterGroup struct {
	Fingerprint string `json:"fingerprint"`
	Queue       string `json:"queue"`
	Type        string `json:"type" sensitive:"type"`
	Reason      string `json:"reason"`
	Count       int64  `json:"count"`
	// CountCapped says that there may be more.
	CountCapped bool              `json:"count_capped"`
	FirstDiedAt Time              `json:"first_died_at" swaggertype:"string" format:"date-time"`
	LastDiedAt  Time              `json:"last_died_at" swaggertype:"string" format:"date-time"`
	Example     DeadLetterExample `json:"example"`
}

// DeadLetterExample is the newest job of a group.
type DeadLetterExample struct {
	JobID string    `json:"job_id"`
	Error *JobError `json:"error"`
}

// Words of a redrive.
const (
	ActionRedrive = "redrive"
	ActionDiscard = "discard"

	RedriveRunning   = "running"
	RedriveDone      = "done"
	RedriveCancelled = "cancelled"
	RedriveStopped   = "stopped"
	RedriveFailed    = "failed"

	// WaitingActiveCap: a cap on active jobs is full; it continues when there is room.
	WaitingActiveCap = "active_cap_reached"

	// MaxDeadLetterRows is how many dead letters a count or a grouping reads at most.
	MaxDeadLetterRows = 100_000
	// MaxRedriveRate is the highest rate_per_second.
	MaxRedriveRate = 10_000
	// MaxRedrives is how many redrives of a tenant may be under way.
	MaxRedrives = 16
)

// ValidFingerprint says whether s can be a fingerprint, in either case.
func ValidFingerprint(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// Validate tells which fields cannot be accepted.
func (d *DeadLetterRequest) Validate() []problem.FieldError { return validate(d, "", time.Time{}) }

func (d *DeadLetterRequest) rules(r refusals) {
	rate := d.RatePerSecond
	if d.Filter == nil {
		r.items("ids", len(d.IDs), 1, MaxBatchJobs, ", unless a filter is given")
		r.check(rate == nil, "rate_per_second", "can only be used with a filter")
		r.check(d.Canary == nil, "canary", "can only be used with a filter")
		rate = nil
	}
	r.number("rate_per_second", rate, 0.001, MaxRedriveRate)
	if d.Filter == nil {
		return
	}
	r.check(d.IDs == nil, "ids", "cannot be combined with filter; use one of them")
	d.Filter.rules(r.in("filter."))
	if d.Canary != nil {
		d.Canary.rules(r.in("canary."))
		d.Canary.inTime(r, rate)
	}
}

func (b *DeadLetterFilterBody) rules(r refusals) {
	r.text("queue", b.Queue, &queueText)
	r.text("type", b.Type, &nameText)
	r.text("reason", b.Reason, &reasonText)
	r.text("fingerprint", b.Fingerprint, &fingerprintText)
	r.year("after", b.After)
	r.year("before", b.Before)
}
