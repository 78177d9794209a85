package api

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	nameRule  = "must be 1 to 128 of A-Z a-z 0-9 . _ : - and start with a letter or digit"
	labelRule = "must be 1 to 128 printable ASCII characters"
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

// ValidLabel says whether s can be a user, a worker_id or a dedupe_key.
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

// refusals collects the fields that a request got wrong.
type refusals struct {
	prefix string
	fields []problem.FieldError
}

func (r *refusals) add(field, format string, args ...any) {
	r.fields = append(r.fields, problem.FieldError{Field: r.prefix + field, Message: fmt.Sprintf(format, args...)})
}

func (r *refusals) check(ok bool, field, format string, args ...any) {
	if !ok {
		r.add(field, format, args...)
	}
}

func (r *refusals) between(value *int64, low, high int64, field string) {
	if value != nil && (*value < low || *value > high) {
		r.add(field, "must be between %d and %d", low, high)
	}
}

// names checks a list of names. The text of a field is made for one that is refused only:
// gateway and core validate each job.
func (r *refusals) names(names []string, field string) {
	for i, name := range names {
		if !ValidName(name) {
			r.add(fmt.Sprintf("%s[%d]", field, i), nameRule)
		}
	}
}

func (r *refusals) tags(tags []string, field string) {
	r.check(len(tags) <= MaxTags, field, "must have at most %d entries", MaxTags)
	r.names(tags, field)
}

func (r *refusals) metadata(metadata map[string]string) {
	r.check(len(metadata) <= MaxMetadata, "metadata", "must have at most %d entries", MaxMetadata)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[key]
		if !ValidName(key) {
			r.add("metadata", "the key %q %s", key, nameRule)
		}
		if len(value) > MaxMetadataValue {
			r.add("metadata."+key, "must be at most %d bytes", MaxMetadataValue)
		}
		if strings.ContainsRune(value, 0) {
			r.add("metadata."+key, "must not contain NUL characters")
		}
	}
}

// Validate tells which fields cannot be accepted; prefix is put before each
// field's name, such as "jobs[3].". now is for times that are too far ahead by any
// clock; whether a deadline has passed is for core to say.
func (s *SubmitRequest) Validate(prefix string, now time.Time) []problem.FieldError {
	r := &refusals{prefix: prefix}
	r.check(ValidName(s.Type), "type", "%s", nameRule)
	r.check(s.Queue == "" || ValidName(s.Queue), "queue", "%s", nameRule)
	r.check(len(s.Payload) <= MaxPayload, "payload", "must be at most %d bytes", MaxPayload)
	r.check(s.Priority == nil || (*s.Priority >= 0 && *s.Priority <= MaxPriority), "priority", "must be between 0 and %d", MaxPriority)
	r.check(s.RunAt == nil || s.DelayMS == nil, "run_at", "cannot be combined with delay_ms; use one of them")
	r.between(s.DelayMS, 0, MaxDelay.Milliseconds(), "delay_ms")
	r.check(s.Deadline == nil || s.ExpiresAfterMS == nil, "deadline", "cannot be combined with expires_after_ms; use one of them")
	r.between(s.ExpiresAfterMS, MinInterval.Milliseconds(), MaxAhead.Milliseconds(), "expires_after_ms")
	r.between(s.MaxWaitMS, 0, MaxDelay.Milliseconds(), "max_wait_ms")
	r.check(s.MaxAttempts == nil || (*s.MaxAttempts >= 1 && *s.MaxAttempts <= MaxAttempts), "max_attempts", "must be between 1 and %d", MaxAttempts)
	r.between(s.TimeoutMS, 1, MaxTimeout.Milliseconds(), "timeout_ms")
	r.retry(s.Retry)
	r.tags(s.Tags, "tags")
	r.metadata(s.Metadata)
	r.check(s.User == nil || ValidLabel(*s.User), "user", labelRule)
	r.check(s.DedupeKey == nil || ValidLabel(*s.DedupeKey), "dedupe_key", labelRule)
	r.after(s.After)
	r.ahead(s.RunAt, now, "run_at")
	r.ahead(s.Deadline, now, "deadline")
	return r.fields
}

const minYear, maxYear = 1970, 2500

// year keeps times inside what every part of the system can hold.
func (r *refusals) year(at *Time, field string) {
	if at != nil && (at.Year() < minYear || at.Year() > maxYear) {
		r.add(field, "must be between the years %d and %d", minYear, maxYear)
	}
}

// ahead keeps times so near that what lies between them and now fits into a duration,
// of which Go's ends after 292 years.
func (r *refusals) ahead(at *Time, now time.Time, field string) {
	r.year(at, field)
	if at != nil && at.Year() <= maxYear && at.After(now.Add(MaxAhead)) {
		r.add(field, "must be at most ten years ahead")
	}
}

func (r *refusals) retry(retry *RetryRequest) {
	if retry == nil {
		return
	}
	r.between(retry.BaseMS, 1, MaxBackoff.Milliseconds(), "retry.base_ms")
	r.between(retry.CapMS, 1, MaxBackoff.Milliseconds(), "retry.cap_ms")
	if j := retry.Jitter; j != nil && (math.IsNaN(*j) || *j < 0 || *j > 1) {
		r.add("retry.jitter", "must be between 0 and 1")
	}
	if c := retry.Curve; c != nil {
		r.check(*c == CurveExponential || *c == CurveLinear || *c == CurveConstant, "retry.curve",
			"must be %s, %s or %s", CurveExponential, CurveLinear, CurveConstant)
	}
}

// Validate tells which fields of the batch itself cannot be accepted; the jobs
// are judged one by one.
func (b *BatchRequest) Validate() []problem.FieldError {
	r := &refusals{}
	r.check(len(b.Jobs) >= 1 && len(b.Jobs) <= MaxBatchJobs, "jobs", "must have 1 to %d entries", MaxBatchJobs)
	edges := 0
	for i := range b.Jobs {
		edges += len(b.Jobs[i].After)
	}
	r.check(edges <= MaxEdges, "jobs", "must come after at most %d jobs in total", MaxEdges)
	return r.fields
}

// Validate tells which fields cannot be accepted.
func (c *ClaimRequest) Validate() []problem.FieldError {
	r := &refusals{}
	r.check(ValidLabel(c.WorkerID), "worker_id", labelRule)
	r.check(len(c.Queues) >= 1 && len(c.Queues) <= MaxQueuesPerCall, "queues", "must have 1 to %d entries", MaxQueuesPerCall)
	r.names(c.Queues, "queues")
	r.workerTypes(c.Types)
	if c.Tags != nil {
		r.workerTags(*c.Tags)
	}
	r.check(c.Max == nil || (*c.Max >= 1 && *c.Max <= MaxClaim), "max", "must be between 1 and %d", MaxClaim)
	r.between(c.WaitMS, 0, MaxWait.Milliseconds(), "wait_ms")
	return r.fields
}

// workerTypes are null for all types. An empty list would take no job.
func (r *refusals) workerTypes(types []string) {
	r.check(types == nil || len(types) >= 1 && len(types) <= MaxTypesPerCall, "types", "must have 1 to %d entries, or be null for all types", MaxTypesPerCall)
	r.names(types, "types")
}

// workerTags may be more than a job's: a worker can serve many kinds of job.
func (r *refusals) workerTags(tags []string) {
	r.check(len(tags) <= 4*MaxTags, "tags", "must have at most %d entries", 4*MaxTags)
	r.names(tags, "tags")
}

// Validate tells which fields cannot be accepted.
func (w *WorkerRequest) Validate() []problem.FieldError {
	r := &refusals{}
	r.check(ValidLabel(w.WorkerID), "worker_id", labelRule)
	r.check(len(w.Queues) <= MaxQueuesPerCall, "queues", "must have at most %d entries", MaxQueuesPerCall)
	r.names(w.Queues, "queues")
	r.workerTypes(w.Types)
	r.workerTags(w.Tags)
	r.check(w.Concurrency == nil || (*w.Concurrency >= 1 && *w.Concurrency <= MaxConcurrency), "concurrency", "must be between 1 and %d", MaxConcurrency)
	r.metadata(w.Metadata)
	return r.fields
}

// Validate tells which fields cannot be accepted.
func (h *HeartbeatRequest) Validate() []problem.FieldError {
	r := &refusals{}
	r.check(len(h.Leases) <= MaxLeases, "leases", "must have at most %d entries", MaxLeases)
	for i, lease := range h.Leases {
		if lease.JobID == "" {
			r.add(fmt.Sprintf("leases[%d].job_id", i), "is required")
		}
		if lease.LeaseToken == "" {
			r.add(fmt.Sprintf("leases[%d].lease_token", i), "is required")
		}
		if p := lease.Progress; p != nil {
			r.check(p.Percent == nil || *p.Percent >= 0 && *p.Percent <= 100, fmt.Sprintf("leases[%d].progress.percent", i), "must be between 0 and 100")
			r.check(p.Message == nil || utf8.RuneCountInString(*p.Message) <= MaxProgressMessage, fmt.Sprintf("leases[%d].progress.message", i), "must have at most %d characters", MaxProgressMessage)
		}
		r.check(len(lease.Checkpoint) <= MaxCheckpoint, fmt.Sprintf("leases[%d].checkpoint", i), "must be at most %d bytes", MaxCheckpoint)
	}
	return r.fields
}

// Validate tells which fields cannot be accepted; prefix is put before each name.
func (o *OutcomeRequest) Validate(prefix string) []problem.FieldError {
	r := &refusals{prefix: prefix}
	r.check(o.LeaseToken != "", "lease_token", "is required")
	r.check(!strings.ContainsRune(o.LeaseToken, 0), "lease_token", "must not contain NUL characters")
	r.check(o.Kind == KindComplete || o.Kind == KindFail || o.Kind == KindSnooze || o.Kind == KindRelease, "kind", "must be complete, fail, snooze or release")
	r.check(len(o.Result) <= MaxResult, "result", "must be at most %d bytes", MaxResult)
	r.between(o.RetryAfterMS, 0, MaxBackoff.Milliseconds(), "retry_after_ms")
	r.between(o.DelayMS, 0, MaxDelay.Milliseconds(), "delay_ms")
	r.check(o.Kind != KindSnooze || o.DelayMS != nil, "delay_ms", "is required")
	r.check(o.Kind == KindSnooze || o.DelayMS == nil, "delay_ms", "belongs to snooze only")
	r.check(o.Kind == KindFail || o.Kind == KindSnooze || o.Error == nil, "error", "belongs to fail and snooze only")
	r.check(o.Kind == KindFail || (o.RetryAfterMS == nil && !o.Permanent), "retry_after_ms", "retry_after_ms and permanent belong to fail only")
	r.check(o.Kind == KindComplete || o.Result == nil, "result", "belongs to complete only")
	return r.fields
}

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
func (t *TenantRequest) Validate() []problem.FieldError {
	r := &refusals{}
	r.check(validTitle(t.Name), "name", "must be 1 to 128 characters without control characters")
	r.check(t.Plan == nil || ValidName(*t.Plan), "plan", nameRule)
	r.weight(t.Weight)
	r.check(t.Cell == nil || ValidName(*t.Cell), "cell", nameRule)
	return r.fields
}

// Validate tells which fields cannot be accepted.
func (t *TenantPatch) Validate() []problem.FieldError {
	r := &refusals{}
	r.check(t.Name == nil || validTitle(*t.Name), "name", "must be 1 to 128 characters without control characters")
	r.check(t.Plan == nil || ValidName(*t.Plan), "plan", nameRule)
	r.weight(t.Weight)
	if t.Overrides != nil {
		r.limits(&t.Overrides.Limits, "overrides.")
		for _, user := range slices.Sorted(maps.Keys(t.Overrides.Users)) {
			limits := t.Overrides.Users[user]
			r.check(ValidLabel(user), "overrides.users", "the user %q %s", user, labelRule)
			r.limits(&limits, "overrides.users."+user+".")
		}
	}
	return r.fields
}

func (r *refusals) weight(weight *int) {
	r.check(weight == nil || (*weight >= 1 && *weight <= 1000), "weight", "must be between 1 and 1000")
}

// Validate tells which fields cannot be accepted.
func (p *PlanRequest) Validate() []problem.FieldError {
	r := &refusals{}
	r.limits(&p.Limits, "limits.")
	r.between(p.VisibilityTimeoutMSMax, 1000, MaxTimeout.Milliseconds(), "visibility_timeout_ms_max")
	return r.fields
}

func (r *refusals) limits(l *Limits, prefix string) {
	for _, one := range l.All() {
		if one.Count != nil {
			r.between(*one.Count, 0, 1e9, prefix+one.Name)
		} else if rate := *one.Rate; rate != nil && (math.IsNaN(*rate) || *rate <= 0 || *rate > 1e6) {
			r.add(prefix+one.Name, "must be above 0 and at most 1000000")
		}
	}
}

// Validate tells which fields cannot be accepted; now is for the expiry.
func (k *KeyRequest) Validate(now time.Time) []problem.FieldError {
	r := &refusals{}
	r.check(k.User == nil || ValidLabel(*k.User), "user", labelRule)
	r.check(len(k.Scopes) >= 1 && len(k.Scopes) <= len(Scopes()), "scopes", "must have 1 to %d of submit, read, work, manage and admin", len(Scopes()))
	for i, scope := range k.Scopes[:min(len(k.Scopes), len(Scopes()))] {
		r.check(slices.Contains(Scopes(), scope), fmt.Sprintf("scopes[%d]", i), "must be submit, read, work, manage or admin")
		r.check(k.User == nil || scope != ScopeAdmin, fmt.Sprintf("scopes[%d]", i), "cannot be admin in a key that is bound to a user: keys belong to the tenant")
	}
	other := slices.ContainsFunc(k.Scopes, func(scope string) bool { return scope != ScopeWork })
	r.check(k.User == nil || len(k.Scopes) == 0 || other, "user", "cannot be combined with the scope work alone: a key that is bound to a user cannot claim, so this key would be useless")
	r.expiry(k.ExpiresAt, now)
	return r.fields
}

// Validate tells which fields cannot be accepted; now is for the expiry.
func (k *PlatformKeyRequest) Validate(now time.Time) []problem.FieldError {
	r := &refusals{}
	r.expiry(k.ExpiresAt, now)
	return r.fields
}

func (r *refusals) expiry(at *Time, now time.Time) {
	// What is past by any clock; core decides by its database's.
	const wrongest = 24 * time.Hour
	r.check(at == nil || at.After(now.Add(-wrongest)), "expires_at", "must be in the future")
	r.year(at, "expires_at")
}

func validTitle(s string) bool {
	if s == "" || utf8.RuneCountInString(s) > 128 || !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f })
}
