package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// ValidName says whether s can name a queue, a type or a tag, or be a metadata key:
// ^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$, without an engine for it, since each job is
// asked several times.
func ValidName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		switch b := s[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case i > 0 && (b == '.' || b == '_' || b == ':' || b == '-'):
		default:
			return false
		}
	}
	return true
}

// ValidLabel says whether s can be a user, a worker_id, a key or a dedupe_key.
func ValidLabel(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// maxObjectLabel bounds the label of a queue, a schedule and so on.
const maxObjectLabel = 64

// ValidObjectLabel says whether s can be the label of a queue, a schedule and so on.
func ValidObjectLabel(s string) bool { return len(s) <= maxObjectLabel && ValidName(s) }

// Validate tells which fields cannot be accepted; prefix is put before each
// field's name, such as "jobs[3].". now is for times that are too far ahead by any
// clock; whether a deadline has passed is for core to say.
func (s *SubmitRequest) Validate(prefix string, now time.Time) []problem.FieldError {
	return validate(s, prefix, now)
}

func (s *SubmitRequest) rules(r refusals) {
	r.text("type", &s.Type, &nameText)
	r.text("queue", orNil(s.Queue), &nameText)
	r.size("payload", s.Payload, MaxPayload)
	whole(r, "priority", s.Priority, 0, MaxPriority)
	r.check(s.RunAt == nil || s.DelayMS == nil, "run_at", "cannot be combined with delay_ms; use one of them")
	r.ahead("run_at", s.RunAt)
	r.millis("delay_ms", s.DelayMS, 0, MaxDelay)
	r.check(s.Deadline == nil || s.ExpiresAfterMS == nil, "deadline", "cannot be combined with expires_after_ms; use one of them")
	r.ahead("deadline", s.Deadline)
	r.millis("expires_after_ms", s.ExpiresAfterMS, MinInterval, MaxAhead)
	r.millis("max_wait_ms", s.MaxWaitMS, 0, MaxDelay)
	whole(r, "max_attempts", s.MaxAttempts, 1, MaxAttempts)
	r.millis("timeout_ms", s.TimeoutMS, time.Millisecond, MaxTimeout)
	if s.Retry != nil {
		s.Retry.rules(r.in("retry."))
	}
	r.names("tags", s.Tags, 0, MaxTags, "")
	r.text("user", s.User, &labelText)
	r.metadata(s.Metadata)
	r.text("dedupe_key", s.DedupeKey, &labelText)
	s.dedupe(r)
	r.text("key", s.Key, &labelText)
	r.number("key_weight", s.KeyWeight, MinKeyWeight, MaxKeyWeight)
	r.amounts("costs", s.Costs)
	r.after(s.After)
}

func (retry *RetryRequest) rules(r refusals) {
	r.millis("base_ms", retry.BaseMS, time.Millisecond, MaxBackoff)
	r.millis("cap_ms", retry.CapMS, time.Millisecond, MaxBackoff)
	r.number("jitter", retry.Jitter, 0, 1)
	r.words("curve", retry.Curve, curveWords)
}

// size is for JSON, whose bytes no schema can count.
func (r refusals) size(field string, value []byte, most int) {
	if len(value) > most {
		r.add(field, "must be at most %d bytes", most)
	}
}

const minYear, maxYear = 1970, 2500

// year keeps times inside what every part of the system can hold.
func (r refusals) year(field string, at *Time) {
	if at != nil && (at.Year() < minYear || at.Year() > maxYear) {
		r.add(field, "must be between the years %d and %d", minYear, maxYear)
	}
}

// ahead keeps times so near that what lies between them and now fits into a duration,
// of which Go's ends after 292 years.
func (r refusals) ahead(field string, at *Time) {
	r.year(field, at)
	if at != nil && at.Year() <= maxYear && at.After(r.now.Add(MaxAhead)) {
		r.add(field, "must be at most ten years ahead")
	}
}

// Validate tells which fields of the batch itself cannot be accepted; the jobs
// are judged one by one.
func (b *BatchRequest) Validate() []problem.FieldError { return validate(b, "", time.Time{}) }

func (b *BatchRequest) rules(r refusals) {
	r.items("jobs", len(b.Jobs), 1, MaxBatchJobs, "")
	edges := 0
	for i := range b.Jobs {
		edges += len(b.Jobs[i].After)
	}
	r.edges(edges)
}

// edges bounds what all jobs of a request come after.
func (r refusals) edges(n int) {
	r.check(n <= MaxEdges, "jobs", "must come after at most %d jobs in total", MaxEdges)
}

// Validate tells which fields cannot be accepted.
func (c *ClaimRequest) Validate() []problem.FieldError { return validate(c, "", time.Time{}) }

func (c *ClaimRequest) rules(r refusals) {
	r.text("worker_id", &c.WorkerID, &labelText)
	r.names("queues", c.Queues, 1, MaxQueuesPerCall, "")
	r.workerTypes(c.Types)
	var tags []string
	if c.Tags != nil {
		tags = *c.Tags
	}
	r.workerTags(tags)
	whole(r, "max", c.Max, 1, MaxClaim)
	r.millis("wait_ms", c.WaitMS, 0, MaxWait)
}

// workerTypes are null for all types. An empty list would take no job.
func (r refusals) workerTypes(types []string) {
	if types != nil || r.rules != nil {
		r.names("types", types, 1, MaxTypesPerCall, ", or be null for all types")
	}
}

// workerTags may be more than a job's: a worker can serve many kinds of job.
func (r refusals) workerTags(tags []string) { r.names("tags", tags, 0, 4*MaxTags, "") }

// Validate tells which fields cannot be accepted.
func (w *WorkerRequest) Validate() []problem.FieldError { return validate(w, "", time.Time{}) }

func (w *WorkerRequest) rules(r refusals) {
	r.text("worker_id", &w.WorkerID, &labelText)
	r.names("queues", w.Queues, 0, MaxQueuesPerCall, "")
	r.workerTypes(w.Types)
	r.workerTags(w.Tags)
	whole(r, "concurrency", w.Concurrency, 1, MaxConcurrency)
	r.metadata(w.Metadata)
}

// Validate tells which fields cannot be accepted.
func (h *HeartbeatRequest) Validate() []problem.FieldError { return validate(h, "", time.Time{}) }

func (h *HeartbeatRequest) rules(r refusals) {
	r.items("leases", len(h.Leases), 0, MaxLeases, "")
	for i := range h.Leases {
		valid := len(r.fields)
		h.Leases[i].rules(r)
		for j := valid; j < len(r.fields); j++ { // the path is made of those that are refused only: this is the most frequent call
			r.fields[j].Field = fmt.Sprintf("leases[%d].%s", i, r.fields[j].Field)
		}
	}
}

func (l Lease) rules(r refusals) {
	r.text("job_id", &l.JobID, &givenText)
	r.text("lease_token", &l.LeaseToken, &givenText)
	if l.Progress != nil {
		l.Progress.rules(r.in("progress."))
	}
	r.size("checkpoint", l.Checkpoint, MaxCheckpoint)
}

func (p *Progress) rules(r refusals) {
	r.number("percent", p.Percent, 0, 100)
	r.text("message", p.Message, &progressText)
}

// Validate tells which fields cannot be accepted, those of the outcomes aside: they are judged one by one.
func (o *OutcomesRequest) Validate() []problem.FieldError { return validate(o, "", time.Time{}) }

func (o *OutcomesRequest) rules(r refusals) {
	r.items("outcomes", len(o.Outcomes), 0, MaxOutcomes, "")
}

// Validate tells which fields cannot be accepted; prefix is put before each name.
func (o *OutcomeRequest) Validate(prefix string) []problem.FieldError {
	return validate(o, prefix, time.Now())
}

func (o *OutcomeRequest) rules(r refusals) {
	r.text("lease_token", &o.LeaseToken, &givenText)
	r.check(!strings.ContainsRune(o.LeaseToken, 0), "lease_token", "must not contain NUL characters")
	r.words("kind", &o.Kind, kindWords)
	r.size("result", o.Result, MaxResult)
	r.millis("retry_after_ms", o.RetryAfterMS, 0, MaxBackoff)
	r.millis("delay_ms", o.DelayMS, 0, MaxDelay)
	r.check(o.Kind != KindSnooze || o.DelayMS != nil, "delay_ms", "is required")
	r.check(o.Kind == KindSnooze || o.DelayMS == nil, "delay_ms", "belongs to snooze only")
	r.check(o.Kind == KindFail || o.Kind == KindSnooze || o.Error == nil, "error", "belongs to fail and snooze only")
	r.check(o.Kind == KindFail || (o.RetryAfterMS == nil && !o.Permanent), "retry_after_ms", "retry_after_ms and permanent belong to fail only")
	r.check(o.Kind == KindComplete || o.Result == nil, "result", "belongs to complete only")
	r.amounts("used", o.Used)
	r.check(o.Kind == KindFail || o.Kind == KindSnooze || o.Throttle == nil, "throttle", "belongs to fail and snooze only")
	r.throttle(o.Throttle)
	r.names("for", o.For, 0, MaxWaitNames, "")
	r.words("mode", orNil(o.Mode), waitWords)
	r.millis("timeout_ms", o.TimeoutMS, 0, MaxDelay)
	r.size("checkpoint", o.Checkpoint, MaxCheckpoint)
	r.check(o.Kind != KindWait || o.TimeoutMS != nil, "timeout_ms", "is required")
	r.check(o.Kind == KindWait || o.For == nil && o.Mode == "" && o.TimeoutMS == nil && o.Checkpoint == nil, "for", "for, mode, timeout_ms and checkpoint belong to wait only")
	r.check(o.Kind == KindComplete || o.Kind == KindWait || o.Submit == nil, "submit", "belongs to complete and wait only")
	r.check(o.Kind == KindComplete || o.Kind == KindWait || o.Signal == nil, "signal", "belongs to complete and wait only")
	r.items("signal", len(o.Signal), 0, MaxWaitNames, "")
	for i := range o.Signal {
		o.Signal[i].rules(r.in(fmt.Sprintf("signal[%d].", i)))
	}
	r.items("submit", len(o.Submit), 0, MaxChained, "")
	for i := range o.Submit {
		o.Submit[i].rules(r.in(fmt.Sprintf("submit[%d].", i)))
	}
}

// Validate tells which fields cannot be accepted.
func (s *SignalRequest) Validate() []problem.FieldError { return validate(s, "", time.Time{}) }

func (s *SignalRequest) rules(r refusals) {
	r.text("name", &s.Name, &nameText)
	r.size("data", s.Data, MaxSignalData)
}

func (s *OutcomeSignal) rules(r refusals) {
	r.check(uuidPattern.MatchString(s.JobID), "job_id", "must be the id of a job")
	r.text("name", &s.Name, &nameText)
	r.size("data", s.Data, MaxSignalData)
}

// Validate tells which fields cannot be accepted.
func (s *SignalLinkRequest) Validate() []problem.FieldError { return validate(s, "", time.Time{}) }

func (s *SignalLinkRequest) rules(r refusals) {
	r.text("name", &s.Name, &nameText)
	r.text("title", orNil(s.Title), &linkTitleText)
	r.millis("expires_ms", s.ExpiresMS, time.Second, MaxDelay)
}

// Validate tells which fields cannot be accepted.
func (s *LinkedSignalRequest) Validate() []problem.FieldError { return validate(s, "", time.Time{}) }

func (s *LinkedSignalRequest) rules(r refusals) { r.size("data", s.Data, MaxSignalData) }

// Clean makes an error text fit to be stored: no NUL, valid UTF-8, cut to its
// size on a rune.
func (e *JobError) Clean() *JobError {
	if e == nil {
		return nil
	}
	return &JobError{
		Type:    cut(e.Type, MaxErrorType),
		Message: cut(e.Message, MaxErrorMessage),
		Stack:   cut(e.Stack, MaxErrorStack),
	}
}

func cut(text string, size int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// Validate tells which fields cannot be accepted.
func (t *TenantRequest) Validate() []problem.FieldError { return validate(t, "", time.Time{}) }

func (t *TenantRequest) rules(r refusals) {
	r.text("name", &t.Name, &titleText)
	r.text("plan", t.Plan, &nameText)
	whole(r, "weight", t.Weight, 1, maxWeight)
	r.text("cell", t.Cell, &nameText)
	r.text("label", t.Label, &objectLabelText)
}

// Validate tells which fields cannot be accepted.
func (t *TenantPatch) Validate() []problem.FieldError { return validate(t, "", time.Time{}) }

func (t *TenantPatch) rules(r refusals) {
	r.text("name", t.Name, &titleText)
	r.text("plan", t.Plan, &nameText)
	whole(r, "weight", t.Weight, 1, maxWeight)
	r.text("label", t.Label, &noObjectLabelText)
	if t.Overrides != nil {
		t.Overrides.rules(r.in("overrides."))
		for _, user := range slices.Sorted(maps.Keys(t.Overrides.Users)) {
			limits := t.Overrides.Users[user]
			r.check(ValidLabel(user), "overrides.users", "the user %q %s", user, LabelRule)
			limits.rules(r.in("overrides.users." + user + "."))
		}
	}
}

// Validate tells which fields cannot be accepted.
func (p *PlanRequest) Validate() []problem.FieldError { return validate(p, "", time.Time{}) }

func (p *PlanRequest) rules(r refusals) {
	p.Limits.rules(r.in("limits."))
	r.millis("visibility_timeout_ms_max", p.VisibilityTimeoutMSMax, time.Second, MaxTimeout)
	r.text("label", p.Label, &objectLabelText)
}

func (l *Limits) rules(r refusals) {
	for _, one := range l.All() {
		if one.Count != nil {
			whole(r, one.Name, *one.Count, 0, maxCount)
		} else {
			r.above(one.Name, *one.Rate, maxRate, "")
		}
	}
}

// Validate tells which fields cannot be accepted; now is for the expiry.
func (k *KeyRequest) Validate(now time.Time) []problem.FieldError { return validate(k, "", now) }

func (k *KeyRequest) rules(r refusals) {
	scopes := Scopes()
	r.rule("scopes", Rule{MinItems: 1, MaxItems: len(scopes), Each: &Rule{Words: scopes}})
	r.text("user", k.User, &labelText)
	r.check(len(k.Scopes) >= 1 && len(k.Scopes) <= len(scopes), "scopes", "must have 1 to %d of submit, read, work, manage, payload and admin", len(scopes))
	for i, scope := range k.Scopes[:min(len(k.Scopes), len(scopes))] {
		r.check(slices.Contains(scopes, scope), fmt.Sprintf("scopes[%d]", i), "must be submit, read, work, manage, payload or admin")
		r.check(k.User == nil || scope != ScopeAdmin, fmt.Sprintf("scopes[%d]", i), "cannot be admin in a key that is bound to a user: keys belong to the tenant")
	}
	other := slices.ContainsFunc(k.Scopes, func(scope string) bool { return scope != ScopeWork })
	r.check(k.User == nil || len(k.Scopes) == 0 || other, "user", "cannot be combined with the scope work alone: a key that is bound to a user cannot claim, so this key would be useless")
	r.expiry(k.ExpiresAt)
}

// Validate tells which fields cannot be accepted; now is for the expiry.
func (k *PlatformKeyRequest) Validate(now time.Time) []problem.FieldError {
	return validate(k, "", now)
}

func (k *PlatformKeyRequest) rules(r refusals) { r.expiry(k.ExpiresAt) }

func (r refusals) expiry(at *Time) {
	// What is past by any clock; core decides by its database's.
	const wrongest = 24 * time.Hour
	r.check(at == nil || at.After(r.now.Add(-wrongest)), "expires_at", "must be in the future")
	r.year("expires_at", at)
}

func validTitle(s string) bool { return s != "" && isTitle(s, 128) }

func isTitle(s string, most int) bool {
	if utf8.RuneCountInString(s) > most || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f })
}
