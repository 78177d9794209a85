package api

import (
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// What a bulk action does with the jobs that match its filter.
const (
	BulkCancel      = "cancel"
	BulkMove        = "move"
	BulkSetPriority = "set_priority"
	BulkRunNow      = "run_now"
	BulkDelay       = "delay"
	BulkRerun       = "rerun"
	BulkDelete      = "delete"
)

// BulkEnded says whether an action is of jobs that have ended; the others are of live ones.
func BulkEnded(action string) bool { return action == BulkRerun || action == BulkDelete }

// BulkRequest is an action on all jobs that match a filter now.
type BulkRequest struct {
	// Action is cancel, move, set_priority, run_now, delay, rerun or delete.
	Action string     `json:"action"`
	Filter BulkFilter `json:"filter"`
	// To is what the jobs change to: the queue of move, the priority of set_priority, the delay_ms of delay.
	To *BulkTarget `json:"to,omitzero"`
	// DryRun only counts.
	DryRun bool `json:"dry_run,omitzero"`
	// RatePerSecond is how many are changed at most in a second; null: the default pace.
	RatePerSecond *float64 `json:"rate_per_second,omitzero"`
}

// BulkFilter is as the filter of GET /v1/jobs. A member that is there has to say something; {} matches all.
type BulkFilter struct {
	Queue *string `json:"queue,omitzero"`
	Type  *string `json:"type,omitzero"`
	// State are the states of the jobs.
	State         []string          `json:"state,omitzero"`
	Tag           *string           `json:"tag,omitzero"`
	User          *string           `json:"user,omitzero"`
	DedupeKey     *string           `json:"dedupe_key,omitzero"`
	Key           *string           `json:"key,omitzero"`
	Metadata      map[string]string `json:"metadata,omitzero"`
	CreatedAfter  *Time             `json:"created_after,omitzero" swaggertype:"string" format:"date-time"`
	CreatedBefore *Time             `json:"created_before,omitzero" swaggertype:"string" format:"date-time"`
}

// Filter is what the body says.
func (f *BulkFilter) Filter() JobFilter {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return JobFilter{
		Queue: text(f.Queue), Type: text(f.Type), States: f.State, Tag: text(f.Tag), User: text(f.User), DedupeKey: text(f.DedupeKey), Key: text(f.Key),
		Metadata: f.Metadata, CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore,
	}
}

// BulkTarget is what jobs change to.
type BulkTarget struct {
	Queue    *string `json:"queue,omitzero"`
	Priority *int    `json:"priority,omitzero"`
	// DelayMS is how long the jobs wait from when they are changed, in milliseconds.
	DelayMS *int64 `json:"delay_ms,omitzero"`
}

// Bulk is an action on all jobs that matched a filter when it was asked for. It continues until it is done, in batches, whatever becomes of
// the cores that work on it.
type Bulk struct {
	ID            string      `json:"id"`
	Action        string      `json:"action"`
	Filter        BulkFilter  `json:"filter"`
	To            *BulkTarget `json:"to"`
	RatePerSecond *float64    `json:"rate_per_second"`
	// State is running, done, cancelled, or failed: eight steps failed one after the other. Processed jobs are not reverted.
	State string `json:"state"`
	// Matched is how many matched when it was asked for; MatchedCapped: at least so many, for no more were counted.
	Matched       int64 `json:"matched"`
	MatchedCapped bool  `json:"matched_capped"`
	// Done are those that were changed, Refused those that stayed as they were; Refusals counts these by the code of the problem, such as
	// job_started.
	Done     int64            `json:"done"`
	Refused  int64            `json:"refused"`
	Refusals map[string]int64 `json:"refusals"`
	// Waiting says why it is waiting: active_cap_reached. Null while it runs.
	Waiting *string `json:"waiting"`
	// Error says why it failed.
	Error     *string `json:"error"`
	CreatedAt Time    `json:"created_at" swaggertype:"string" format:"date-time"`
	UpdatedAt Time    `json:"updated_at" swaggertype:"string" format:"date-time"`
	EndedAt   *Time   `json:"ended_at" swaggertype:"string" format:"date-time"`
}

// Validate tells which fields cannot be accepted.
func (b *BulkRequest) Validate() []problem.FieldError { return validate(b, "", time.Time{}) }

func (b *BulkRequest) rules(r refusals) {
	r.words("action", &b.Action, bulkWords)
	r.number("rate_per_second", b.RatePerSecond, 0.001, MaxRedriveRate)
	b.Filter.rules(r.in("filter."))
	b.Filter.reach(r, b.Action)
	to := BulkTarget{}
	if b.To != nil {
		to = *b.To
		to.rules(r.in("to."))
	}
	for _, of := range []struct {
		action, field string
		given         bool
	}{{BulkMove, "to.queue", to.Queue != nil}, {BulkSetPriority, "to.priority", to.Priority != nil}, {BulkDelay, "to.delay_ms", to.DelayMS != nil}} {
		r.check(of.action != b.Action || of.given, of.field, "is needed for the action %s", of.action)
		r.check(of.action == b.Action || !of.given, of.field, "can only be used with the action %s", of.action)
	}
}

// reach refuses states that no job has for which the action is.
func (f *BulkFilter) reach(r refusals, action string) {
	if !slices.Contains(bulkWords, action) {
		return
	}
	states, whose := liveStates, "are live"
	if BulkEnded(action) {
		states, whose = endedStates, "have ended"
	}
	for _, state := range f.State {
		r.check(slices.Contains(states, state), "filter.state", "the action %s is for jobs that %s, and not for state %s", action, whose, state)
	}
}

func (f *BulkFilter) rules(r refusals) {
	r.text("queue", f.Queue, &nameText)
	r.text("type", f.Type, &nameText)
	r.text("tag", f.Tag, &nameText)
	r.text("user", f.User, &labelText)
	r.text("dedupe_key", f.DedupeKey, &labelText)
	r.text("key", f.Key, &labelText)
	r.metadata(f.Metadata)
	r.year("created_after", f.CreatedAfter)
	r.year("created_before", f.CreatedBefore)
	all := slices.Concat(liveStates, endedStates)
	r.rule("state", Rule{MaxItems: len(liveStates), Each: &Rule{Words: all}})
	if !slices.ContainsFunc(f.State, func(state string) bool { return !slices.Contains(all, state) }) && len(f.State) <= len(liveStates) {
		return
	}
	r.add("state", "must be up to 5 of %s", strings.Join(all, ", "))
}

func (t *BulkTarget) rules(r refusals) {
	r.text("queue", t.Queue, &nameText)
	whole(r, "priority", t.Priority, 0, MaxPriority)
	r.millis("delay_ms", t.DelayMS, 0, MaxDelay)
}
