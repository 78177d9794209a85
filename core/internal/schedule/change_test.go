package schedule_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A PUT that keeps the times keeps the ticks, also one that is due; other times start from now.
func TestPutAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("s", every(time.Hour))
	f.back("s", time.Hour)
	f.put("s", every(time.Hour, overlap(api.OverlapSkip), func(r *api.ScheduleRequest) { r.Job.Type = "other" }))
	f.work()
	runs := f.runs("s")
	if len(runs) != 1 || f.Get(uuid.MustParse(*runs[0].JobID)).Type != "other" {
		t.Fatalf("a tick that was due is lost, or is made as before: %+v", runs)
	}
	before := f.get("s").NextRuns
	if again := f.put("s", every(time.Hour)); !again.NextRuns[0].Equal(before[0].Time) || again.LastRun == nil {
		t.Errorf("the next tick moved from %s to %s", before[0], again.NextRuns[0])
	}
	daily := "0 0 * * *"
	changed := f.put("s", api.ScheduleRequest{Cron: &daily, Timezone: "Asia/Kathmandu", Job: api.ScheduleJob{Type: "x"}})
	if next := changed.NextRuns[0]; next.Hour() != 18 || next.Minute() != 15 || changed.EveryMS != nil || changed.Timezone != "Asia/Kathmandu" {
		t.Errorf("%+v", changed)
	}
	if ended := f.put("s", every(time.Hour, func(r *api.ScheduleRequest) { past := api.At(time.Now().Add(-time.Hour)); r.EndsAt = &past })); len(ended.NextRuns) != 0 {
		t.Errorf("one that has ended has ticks: %v", ended.NextRuns)
	}
	f.work()
}

// A tick that a cap has refused is tried again after a PUT that keeps the times, and one that was due before
// a pause is made after it.
func TestAChangeLosesNoTick(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "narrow", api.QueueRequest{MaxActive: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	if err := f.core.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	narrow := every(time.Hour, func(r *api.ScheduleRequest) { r.Job.Queue = "narrow" })
	f.put("refused", narrow)
	for range 2 {
		f.back("refused", time.Hour)
		f.workRefused()
	}
	f.put("refused", narrow)
	if n := f.CountOf(`SELECT count(*) FROM schedules WHERE refused_at IS NOT NULL AND due_at <= now()`); n != 1 {
		t.Error("a refused tick is forgotten by an equal PUT")
	}
	f.Exec(`DELETE FROM jobs`)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "narrow", api.QueueRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"posted", "put"} {
		r := every(time.Hour)
		f.put(name, r)
		f.back(name, time.Hour)
		for _, paused := range []bool{true, false} {
			if name == "put" {
				r.Paused = paused
				f.put(name, r)
			} else if _, err := f.Store.Schedules.PauseSchedule(t.Context(), f.Tenant, "", name, paused); err != nil {
				t.Fatal(err)
			}
		}
		f.work()
		if runs := f.runs(name); len(runs) != 1 || runs[0].JobID == nil {
			t.Errorf("%s: runs %+v of a tick that was due before the pause", name, runs)
		}
	}
}

// workRefused works off what is due, once: a refused tick stays due.
func (f *fixture) workRefused() {
	f.Helper()
	if _, err := f.core.RunSchedules(f.Context(), 500); err != nil {
		f.Fatal(err)
	}
}

// What a trigger submits is a run, whatever lives, and moves no tick.
func TestTrigger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	before := f.put("s", every(time.Hour, overlap(api.OverlapSkip), func(r *api.ScheduleRequest) { r.Paused = true }))
	trigger := func(key string) (id string, replayed bool) {
		t.Helper()
		call := submits.TriggerCall{Tenant: f.Tenant, Name: "s", ID: uuid.Must(uuid.NewV7()), Render: celltest.Render}
		if key != "" {
			call.Idempotency = celltest.Keyed(key, "{}")
		}
		answer, err := f.core.TriggerSchedule(audit.WithActor(t.Context(), audit.Actor{Kind: hop.PrincipalTenant}), &call)
		if err != nil || answer.Problem != nil {
			t.Fatal(answer.Problem, err)
		}
		if answer.Replayed {
			return "", true
		}
		return answer.Jobs[0].Row.ID.String(), false
	}
	for range 3 {
		trigger("")
	}
	kept, _ := trigger("k")
	if _, replayed := trigger("k"); !replayed {
		t.Error("a repeat with the same key submits again")
	}
	after := f.get("s")
	if jobs, _ := jobsOf(f.runs("s")); jobs != 4 || !after.NextRuns[0].Equal(before.NextRuns[0].Time) || *after.LastRun.JobID != kept {
		t.Errorf("%d jobs; %+v", jobs, after)
	}
	if n := f.CountOf(`SELECT count(*) FROM audit_log WHERE action = 'schedule.trigger' AND object = 's'`); n != 4 {
		t.Errorf("%d audit entries of 4 triggers and a replay", n)
	}
	_, err := f.core.TriggerSchedule(t.Context(), &submits.TriggerCall{Tenant: f.Tenant, Name: "none", ID: uuid.New()})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of one that is not there: %v", err)
	}
	f.check()
}

// An expression that is no longer accepted, but stored, means what it meant.
func TestAStoredExpressionIsReadAsBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	daily := api.ScheduleRequest{Cron: new("@daily"), CatchUp: api.CatchUpLatest, Job: api.ScheduleJob{Type: "report"}}
	f.put("night", daily)
	f.Exec(`UPDATE schedules SET cron = '0 22-2 * * *'`)
	for _, paused := range []bool{true, false} {
		if _, err := f.Store.Schedules.PauseSchedule(t.Context(), f.Tenant, "", "night", paused); err != nil {
			t.Fatal(err)
		}
	}
	f.back("night", 24*time.Hour)
	f.work()
	if got := f.get("night"); len(got.NextRuns) != api.NextRunsShown || *got.Cron != "0 22-2 * * *" || got.LastRun == nil {
		t.Errorf("%+v", got)
	}
	daily.Cron = new("0 22-2 * * *")
	if _, err := f.core.PutSchedule(t.Context(), f.Tenant, "", "night", daily); err == nil {
		t.Error("it is accepted")
	}
}

// A repeat of a trigger with its Idempotency-Key gets the first answer, also where the schedule is no
// longer there. Another body, another key and another user's are no repeats.
func TestARepeatedTriggerOfADeletedSchedule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("s", every(time.Hour))
	call := submits.TriggerCall{Tenant: f.Tenant, Name: "s", ID: uuid.Must(uuid.NewV7()), Render: celltest.Render, Idempotency: celltest.Keyed("k", "{}")}
	first, err := f.core.TriggerSchedule(t.Context(), &call)
	if err != nil || first.Problem != nil || first.Saved == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := f.Store.Schedules.DeleteSchedule(t.Context(), f.Tenant, "", "s"); err != nil {
		t.Fatal(err)
	}
	again, err := f.core.TriggerSchedule(t.Context(), &call)
	if err != nil || !again.Replayed || again.Saved == nil || again.Saved.Status != first.Saved.Status || string(again.Saved.Body) != string(first.Saved.Body) {
		t.Errorf("%+v, %v", again, err)
	}
	other := call
	other.Idempotency = celltest.Keyed("k", `{"x":1}`)
	if answer, err := f.core.TriggerSchedule(t.Context(), &other); err != nil || answer.Problem == nil || answer.Problem.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %+v, %v", answer, err)
	}
	for what, change := range map[string]func(*submits.TriggerCall){
		"another key":    func(c *submits.TriggerCall) { c.Idempotency = celltest.Keyed("l", "{}") },
		"another user":   func(c *submits.TriggerCall) { c.User = "ada" },
		"another tenant": func(c *submits.TriggerCall) { c.Tenant = f.NewTenant() },
		"no key":         func(c *submits.TriggerCall) { c.Idempotency = nil },
	} {
		other := call
		change(&other)
		if answer, err := f.core.TriggerSchedule(t.Context(), &other); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", what, answer, err)
		}
	}
	if n := f.Count("jobs"); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

// A trigger under a full cap is refused, and leaves no run.
func TestTriggerUnderAFullCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	none := int64(0)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "shut", api.QueueRequest{MaxActive: &none}); err != nil {
		t.Fatal(err)
	}
	if err := f.core.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.put("s", every(time.Hour, func(r *api.ScheduleRequest) { r.Job.Queue = "shut" }))
	answer, err := f.core.TriggerSchedule(t.Context(), &submits.TriggerCall{Tenant: f.Tenant, Name: "s", ID: uuid.Must(uuid.NewV7())})
	if err != nil || answer.Problem == nil || answer.Problem.Code != problem.QueueFull || f.Count("schedule_runs") != 0 {
		t.Errorf("%+v, %v", answer.Problem, err)
	}
}

// A caller that is bound to a user sees and changes that user's schedules; nobody another tenant's.
func TestWhoseSchedules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := func(r *api.ScheduleRequest) { user := "ada"; r.Job.User = &user }
	f.put("ada", every(time.Hour, ada))
	f.put("tenant", every(time.Hour))
	stranger := f.NewTenant()
	ctx := t.Context()
	for _, one := range []struct {
		name, user string
		owner      uuid.UUID
		sees       bool
	}{
		{"ada", "", f.Tenant, true},
		{"ada", "ada", f.Tenant, true},
		{"ada", "bob", f.Tenant, false},
		{"tenant", "ada", f.Tenant, false},
		{"ada", "", stranger, false},
		{"none", "", f.Tenant, false},
	} {
		calls := map[string]func() error{
			"get": func() error { _, err := f.Store.Schedules.GetSchedule(ctx, one.owner, one.user, one.name); return err },
			"pause": func() error {
				_, err := f.Store.Schedules.PauseSchedule(ctx, one.owner, one.user, one.name, true)
				return err
			},
			"runs": func() error {
				_, err := f.Store.Schedules.ScheduleRuns(ctx, one.owner, one.user, one.name, nil, 10)
				return err
			},
			"trigger": func() error {
				_, err := f.core.TriggerSchedule(ctx, &submits.TriggerCall{Tenant: one.owner, User: one.user, Name: one.name, ID: uuid.Must(uuid.NewV7())})
				return err
			},
		}
		if !one.sees {
			calls["delete"] = func() error { return f.Store.Schedules.DeleteSchedule(ctx, one.owner, one.user, one.name) }
			if one.user != "" {
				calls["put"] = func() error {
					_, err := f.Store.Schedules.PutSchedule(ctx, one.owner, one.user, one.name, every(time.Hour, ada))
					return err
				}
			}
		}
		for what, call := range calls {
			if err := call(); one.sees != (err == nil) || err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s of %q as user %q, own tenant %v: %v", what, one.name, one.user, one.owner == f.Tenant, err)
			}
		}
	}
	for user, want := range map[string]int{"": 2, "ada": 1, "bob": 0} {
		if listed, err := f.Store.Schedules.ListSchedules(ctx, f.Tenant, user, "", 10); err != nil || len(listed.Items) != want {
			t.Errorf("user %q sees %d schedules, %v", user, len(listed.Items), err)
		}
	}
}

// A tenant has at most so many; one that is there may still be changed.
func TestTooManySchedules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("s", every(time.Hour))
	f.Exec(`INSERT INTO schedules SELECT (jsonb_populate_record(s, jsonb_build_object('name', 's' || n))).*
		FROM schedules s, generate_series(2, $1) AS n`, api.MaxSchedules)
	if _, err := f.Store.Schedules.PutSchedule(t.Context(), f.Tenant, "", "one-more", every(time.Hour)); !errors.Is(err, schedule.ErrTooManySchedules) {
		t.Errorf("one more than %d: %v", api.MaxSchedules, err)
	}
	f.put("s", every(2*time.Hour))
	f.putFor(f.NewTenant(), "one-more", every(time.Hour))
}

// A PUT that changes the end, or names the same zone differently, keeps a tick that is due; one under which that
// tick would not have come drops it.
func TestAPutKeepsATickThatBothHave(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		change func(*api.ScheduleRequest)
		want   int
	}{
		"ends later":            {func(r *api.ScheduleRequest) { r.EndsAt = new(api.At(time.Now().Add(48 * time.Hour))) }, 1},
		"the zone's other name": {func(r *api.ScheduleRequest) { r.Timezone = "Etc/UTC" }, 1},
		"another interval":      {func(r *api.ScheduleRequest) { r.EveryMS = new(int64(7000)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			request := every(time.Hour)
			f.put("s", request)
			f.back("s", time.Hour+30*time.Second)
			one.change(&request)
			f.put("s", request)
			f.work()
			if runs := f.runs("s"); len(runs) != one.want {
				t.Errorf("%d runs, want %d", len(runs), one.want)
			}
			f.check()
		})
	}
}

// A key that is bound to a user makes half of the tenant's schedules at most.
func TestAUserTakesHalfOfTheSchedules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	of := func(user string) api.ScheduleRequest {
		r := every(time.Hour)
		r.Job.User = &user
		return r
	}
	f.put("s", of("bob"))
	f.Exec(`INSERT INTO schedules SELECT (jsonb_populate_record(s, jsonb_build_object('name', 's' || n))).*
		FROM schedules s, generate_series(2, $1) AS n`, api.MaxSchedules/2)
	if _, err := f.Store.Schedules.PutSchedule(t.Context(), f.Tenant, "bob", "one-more", of("bob")); !errors.Is(err, schedule.ErrTooManyUserSchedules) {
		t.Errorf("one more than half: %v", err)
	}
	if _, err := f.Store.Schedules.PutSchedule(t.Context(), f.Tenant, "bob", "s2", of("bob")); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if _, err := f.Store.Schedules.PutSchedule(t.Context(), f.Tenant, "eve", "eves", of("eve")); err != nil {
		t.Errorf("another user's: %v", err)
	}
	f.put("tenants", every(time.Hour))
}

// Deleting takes the runs along, so that a schedule of the same name starts without runs.
func TestDelete(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 3 {
		f.put(fmt.Sprint("s", i), every(time.Hour))
		f.back(fmt.Sprint("s", i), time.Hour)
	}
	f.work()
	if err := f.Store.Schedules.DeleteSchedule(t.Context(), f.Tenant, "", "s0"); err != nil {
		t.Fatal(err)
	}
	if f.Count("schedules") != 2 || f.Count("schedule_runs") != 2 || f.Count("jobs") != 3 {
		t.Error("more or less is gone than the schedule and its run")
	}
	if err := f.Store.Schedules.DeleteSchedule(t.Context(), f.Tenant, "", "s0"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
}

// Each change is in the audit log, without the payload.
func TestAuditOfSchedules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := audit.WithActor(t.Context(), audit.Actor{Kind: hop.PrincipalTenant, KeyID: "k"})
	if _, err := f.Store.Schedules.PutSchedule(ctx, f.Tenant, "", "s", every(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, paused := range []bool{true, true, false} {
		if _, err := f.Store.Schedules.PauseSchedule(ctx, f.Tenant, "", "s", paused); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Store.Schedules.DeleteSchedule(ctx, f.Tenant, "", "s"); err != nil {
		t.Fatal(err)
	}
	log, err := f.Store.Audit.Audit(t.Context(), &f.Tenant, api.AuditFilter{Object: "s"}, 10, "")
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, entry := range log.Items {
		actions = append(actions, entry.Action)
	}
	want := []string{api.AuditScheduleDelete, api.AuditScheduleResume, api.AuditSchedulePause, api.AuditSchedulePut}
	if fmt.Sprint(actions) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", actions, want)
	}
}
