package api

import (
	"encoding/json"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// ScheduleRequest is a schedule as its owner describes it: it makes one job a tick.
type ScheduleRequest struct {
	// Cron says when, in the wall clock of Timezone: five fields, six with seconds in front, or
	// a name such as @hourly. Not with EveryMS; one of them is needed.
	Cron *string `json:"cron,omitzero"`
	// EveryMS is the interval between two ticks in milliseconds, at least a second, counted from
	// StartsAt, or else from when the schedule was made.
	EveryMS *int64 `json:"every_ms,omitzero"`
	// Timezone is a name of the IANA database, such as Europe/Berlin; UTC if empty.
	Timezone string `json:"timezone,omitzero"`
	// Job is what each tick submits.
	Job ScheduleJob `json:"job"`
	// Overlap says what happens while the last run's job has not ended: allow (if empty) makes the
	// next one beside it, skip leaves the tick out, cancel cancels it first.
	Overlap string `json:"overlap,omitzero"`
	// CatchUp says which ticks are made up for that are more than a minute late: none (if empty),
	// the latest, or all, but not more than the newest CatchUpMax.
	CatchUp string `json:"catch_up,omitzero"`
	// CatchUpMax is 1 to 1000; 100 if absent.
	CatchUpMax *int `json:"catch_up_max,omitzero"`
	// StartsAt and EndsAt bound the ticks, both inclusive.
	StartsAt *Time `json:"starts_at,omitzero" swaggertype:"string" format:"date-time"`
	EndsAt   *Time `json:"ends_at,omitzero" swaggertype:"string" format:"date-time"`
	// Windows are when ticks are skipped, at most 8.
	Windows []Window `json:"windows,omitzero"`
	// Paused ticks are skipped.
	Paused bool `json:"paused,omitzero"`
	// Label names what the schedule belongs to, such as a file of `forgequeue apply`; none if absent.
	Label *string `json:"label,omitzero"`
}

// ScheduleJob is a job as POST /v1/jobs takes it, without the times, which are the tick's.
type ScheduleJob struct {
	Type        string            `json:"type" sensitive:"type"`
	Queue       string            `json:"queue,omitzero"`
	Payload     json.RawMessage   `json:"payload,omitzero" swaggertype:"object" sensitive:"payload"`
	Priority    *int              `json:"priority,omitzero"`
	MaxAttempts *int              `json:"max_attempts,omitzero"`
	TimeoutMS   *int64            `json:"timeout_ms,omitzero"`
	Retry       *RetryRequest     `json:"retry,omitzero"`
	Tags        []string          `json:"tags,omitzero"`
	User        *string           `json:"user,omitzero"`
	Metadata    map[string]string `json:"metadata,omitzero"`
	DedupeKey   *string           `json:"dedupe_key,omitzero"`
	Dedupe      *Dedupe           `json:"dedupe,omitzero"`
	Key         *string           `json:"key,omitzero"`
	KeyWeight   *float64          `json:"key_weight,omitzero"`
	Costs       Amounts           `json:"costs,omitzero"`
	// ExpiresAfterMS makes a deadline for each job: so long after it is submitted.
	ExpiresAfterMS *int64 `json:"expires_after_ms,omitzero"`
}

// Submit is the job that a tick submits, but for its deadline.
func (j *ScheduleJob) Submit() SubmitRequest {
	return SubmitRequest{
		Type: j.Type, Queue: j.Queue, Payload: j.Payload, Priority: j.Priority, MaxAttempts: j.MaxAttempts, TimeoutMS: j.TimeoutMS,
		Retry: j.Retry, Tags: j.Tags, User: j.User, Metadata: j.Metadata, DedupeKey: j.DedupeKey, Dedupe: j.Dedupe, Key: j.Key, KeyWeight: j.KeyWeight,
		Costs: j.Costs,
	}
}

// ScheduleTemplate is a ScheduleJob as an answer has it: with every member.
type ScheduleTemplate struct {
	Type           string            `json:"type" sensitive:"type"`
	Queue          string            `json:"queue"`
	Payload        json.RawMessage   `json:"payload" swaggertype:"object" sensitive:"payload"`
	Priority       *int              `json:"priority"`
	MaxAttempts    *int              `json:"max_attempts"`
	TimeoutMS      *int64            `json:"timeout_ms"`
	Retry          *RetryRequest     `json:"retry"`
	Tags           []string          `json:"tags"`
	User           *string           `json:"user"`
	Metadata       map[string]string `json:"metadata"`
	DedupeKey      *string           `json:"dedupe_key"`
	Dedupe         *Dedupe           `json:"dedupe"`
	Key            *string           `json:"key"`
	KeyWeight      *float64          `json:"key_weight"`
	Costs          Amounts           `json:"costs"`
	ExpiresAfterMS *int64            `json:"expires_after_ms"`
}

// Template is the job as an answer has it.
func (j *ScheduleJob) Template() ScheduleTemplate {
	made := ScheduleTemplate(*j)
	if made.Queue == "" {
		made.Queue = DefaultQueue
	}
	if len(made.Payload) == 0 {
		made.Payload = json.RawMessage("null")
	}
	if made.Tags == nil {
		made.Tags = []string{}
	}
	if made.Metadata == nil {
		made.Metadata = map[string]string{}
	}
	return made
}

// Schedule is a schedule as it stands.
type Schedule struct {
	Name       string           `json:"name"`
	Cron       *string          `json:"cron"`
	EveryMS    *int64           `json:"every_ms"`
	Timezone   string           `json:"timezone"`
	Job        ScheduleTemplate `json:"job"`
	Overlap    string           `json:"overlap"`
	CatchUp    string           `json:"catch_up"`
	CatchUpMax int              `json:"catch_up_max"`
	StartsAt   *Time            `json:"starts_at" swaggertype:"string" format:"date-time"`
	EndsAt     *Time            `json:"ends_at" swaggertype:"string" format:"date-time"`
	Windows    []Window         `json:"windows"`
	Paused     bool             `json:"paused"`
	// Label names what the schedule belongs to; null for none.
	Label *string `json:"label"`
	// NextRuns are the next ticks, five at most, without those in a window; of a paused schedule too.
	NextRuns []Time `json:"next_runs" swaggertype:"array,string" format:"date-time"`
	// LastRun is the newest run; null before the first.
	LastRun *ScheduleRun `json:"last_run"`
	// RecentRuns are the newest runs with how they ended, newest first, five at most; null where it is not one of a list.
	RecentRuns *[]ScheduleOutcome `json:"recent_runs"`
	CreatedAt  Time               `json:"created_at" swaggertype:"string" format:"date-time"`
	UpdatedAt  Time               `json:"updated_at" swaggertype:"string" format:"date-time"`
}

// ScheduleOutcome is a run with the state of its job.
type ScheduleOutcome struct {
	ScheduleRun

	// State is null where there is no job, or it is no longer kept.
	State *string `json:"state"`
}

// ScheduleRun is a tick, or a job that was triggered: it has a job, or a reason why it has none.
type ScheduleRun struct {
	At    Time    `json:"at" swaggertype:"string" format:"date-time"`
	JobID *string `json:"job_id"`
	// Skipped is overlap, paused, cap or window; null where there is a job.
	Skipped *string `json:"skipped"`
}

// Words of a schedule.
const (
	OverlapAllow  = "allow"
	OverlapSkip   = "skip"
	OverlapCancel = "cancel"

	CatchUpNone   = "none"
	CatchUpLatest = "latest"
	CatchUpAll    = "all"

	SkippedOverlap = "overlap"
	SkippedPaused  = "paused"
	SkippedCap     = "cap"
	SkippedWindow  = "window"

	DefaultTimezone   = "UTC"
	DefaultCatchUpMax = 100
	MaxCatchUp        = 1000
	// MaxSchedules is how many schedules a tenant may have.
	MaxSchedules = 10_000
	// NextRunsShown is how many ticks a schedule shows.
	NextRunsShown = 5
	// RecentRunsShown is how many runs a schedule of a list shows.
	RecentRunsShown = 5
	// MinInterval is the smallest interval between two ticks, and until a job expires.
	MinInterval = time.Second

	maxCron     = 256
	maxTimezone = 64
)

// Validate tells which fields cannot be accepted. Whether the cron expression and the time zone can
// be read is for core to say, which has the parser and the zones.
func (s *ScheduleRequest) Validate(now time.Time) []problem.FieldError { return validate(s, "", now) }

func (s *ScheduleRequest) rules(r refusals) {
	r.check(s.Cron != nil || s.EveryMS != nil, "cron", "is required, unless every_ms is given")
	r.check(s.Cron == nil || s.EveryMS == nil, "cron", "cannot be combined with every_ms; use one of them")
	r.text("cron", s.Cron, &cronText)
	r.millis("every_ms", s.EveryMS, MinInterval, MaxAhead)
	r.text("timezone", orNil(s.Timezone), &timezoneText)
	s.Job.rules(r.in("job."))
	r.words("overlap", orNil(s.Overlap), overlapWords)
	r.words("catch_up", orNil(s.CatchUp), catchUpWords)
	whole(r, "catch_up_max", s.CatchUpMax, 1, MaxCatchUp)
	r.ahead("starts_at", s.StartsAt)
	r.year("ends_at", s.EndsAt)
	r.windows(s.Windows)
	r.text("label", s.Label, &objectLabelText)
	r.check(s.StartsAt == nil || s.EndsAt == nil || !s.EndsAt.Before(s.StartsAt.Time), "ends_at", "must not be before starts_at")
}

func (j *ScheduleJob) rules(r refusals) {
	job := j.Submit()
	job.rules(r)
	r.millis("expires_after_ms", j.ExpiresAfterMS, MinInterval, MaxAhead)
}

// printable says whether s has 1 to most characters of printable ASCII.
func printable(s string, most int) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return s != "" && len(s) <= most
}
