package schedule

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
)

const scheduleColumns = `tenant_id, name, cron, every_ms, timezone, job, overlap, catch_up, catch_up_max, starts_at, ends_at, windows, label, paused_at,
  next_at, owed_until, refused_at, last_at, last_job_id, last_skipped, made_job_id, revision, created_at, updated_at`

type scheduleRow struct {
	TenantID    tenant.ID
	Name        string
	Cron        *string
	EveryMs     *int64
	Timezone    string
	Job         []byte
	Overlap     string
	CatchUp     string
	CatchUpMax  int32
	StartsAt    *time.Time
	EndsAt      *time.Time
	Windows     []api.Window
	Label       *string
	PausedAt    *time.Time
	NextAt      *time.Time
	OwedUntil   *time.Time
	RefusedAt   *time.Time
	LastAt      *time.Time
	LastJobID   *uuid.UUID
	LastSkipped *string
	MadeJobID   *uuid.UUID
	Revision    int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// request is the part of the row that says when its ticks are.
func (r *scheduleRow) request() *api.ScheduleRequest {
	return &api.ScheduleRequest{
		Cron: r.Cron, EveryMS: r.EveryMs, Timezone: r.Timezone, StartsAt: api.AtOrNil(r.StartsAt), EndsAt: api.AtOrNil(r.EndsAt),
	}
}

// timing fails only for a time zone that this core does not know: the row was made by PutSchedule.
func (r *scheduleRow) timing() (*timing.Ticks, error) { return timing.Stored(r.request(), r.CreatedAt) }

func (r *scheduleRow) job() (job api.ScheduleJob) {
	_ = json.Unmarshal(r.Job, &job) // written from such a value by this package alone
	return job
}

// mostLooked bounds how many windows are looked over for the next runs.
const mostLooked = 100

func (r *scheduleRow) wire() api.Schedule {
	job := r.job()
	shown := api.Schedule{
		Name: r.Name, Cron: r.Cron, EveryMS: r.EveryMs, Timezone: r.Timezone, Job: job.Template(), Overlap: r.Overlap, CatchUp: r.CatchUp,
		CatchUpMax: int(r.CatchUpMax), StartsAt: api.AtOrNil(r.StartsAt), EndsAt: api.AtOrNil(r.EndsAt), Windows: store.EmptyIfNil(r.Windows), Paused: r.PausedAt != nil, Label: r.Label,
		NextRuns: []api.Time{}, CreatedAt: api.At(r.CreatedAt), UpdatedAt: api.At(r.UpdatedAt),
	}
	if r.LastAt != nil {
		shown.LastRun = &api.ScheduleRun{At: api.At(*r.LastAt), JobID: idText(r.LastJobID), Skipped: r.LastSkipped}
	}
	times, err := r.timing()
	if err != nil {
		return shown
	}
	windows := timing.StoredWindows(r.Windows)
	for next, looked := r.NextAt, 0; next != nil && len(shown.NextRuns) < api.NextRunsShown && looked < mostLooked; looked++ {
		at := *next
		until, in := windows.Until(at)
		if in {
			at = until.Add(-1) // what ticks in the window is skipped
		} else {
			shown.NextRuns = append(shown.NextRuns, api.At(at))
		}
		next = nextAfter(times, at)
	}
	return shown
}

func idText(id *uuid.UUID) *string {
	if id == nil {
		return nil
	}
	return store.NullIfEmpty(id.String())
}
