package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Three cores, of which one after the other is killed and comes back: a schedule of seconds has one
// job for each tick, without a gap, and each was a job that a worker got.
func TestSchedulesWhileCoresDie(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 3, Gateways: 3})
	tenant := c.NewTenant(t, "schedules")
	own := c.Client(t, tenant.Key)
	cron := "* * * * * *"
	if _, err := own.PutSchedule(t.Context(), "seconds", api.ScheduleRequest{
		Cron: &cron, CatchUp: api.CatchUpAll, CatchUpMax: new(1000), Job: api.ScheduleJob{Type: "tick", Queue: "ticks"},
	}); err != nil {
		t.Fatal(err)
	}
	ticked := func(n int) func() bool {
		return func() bool { return len(allRuns(t, c, "seconds")) >= n }
	}
	for i, core := range c.Cores {
		stack.Eventually(t, time.Minute, "there are more ticks", ticked(3*i+2))
		core.Kill()
		stack.Eventually(t, time.Minute, "the others go on", ticked(3*i+4))
		core.Start()
		core.AwaitReady()
	}
	if _, err := own.PauseSchedule(t.Context(), "seconds"); err != nil {
		t.Fatal(err)
	}
	made := checkSeconds(t, c, "seconds", allRuns(t, c, "seconds")[0].At)
	claimed := map[string]bool{}
	for len(claimed) < len(made) {
		job := stack.ClaimOne(t, own, "w", "ticks")
		if claimed[job.ID] || !made[job.ID] {
			t.Fatalf("the job %s is no run's, or came twice", job.ID)
		}
		claimed[job.ID] = true
	}
	ticks := 0.0
	for _, core := range c.Cores {
		ticks += core.Metric("forgequeue_schedule_ticks_total")
	}
	if ticks == 0 {
		t.Error("the metric counts no tick")
	}
}

// checkSeconds holds a paused schedule of seconds to one job for each of them from its first tick on, and
// gives the jobs. There are no other jobs of the type tick.
func checkSeconds(t *testing.T, c *stack.Cluster, name string, first time.Time) map[string]bool {
	t.Helper()
	stack.Eventually(t, time.Minute, "the ticks of before the pause are made", func() bool {
		return stack.Query[bool](t.Context(), t, c.DatabaseURL, `SELECT next_at > paused_at FROM schedules WHERE name = $1`, name)[0]
	})
	made := map[string]bool{}
	runs := allRuns(t, c, name)
	if !runs[0].At.Equal(first) {
		t.Errorf("the first tick is that at %s, not at %s", runs[0].At, first)
	}
	for i, run := range runs {
		if i > 0 && run.At.Sub(runs[i-1].At) != time.Second {
			t.Errorf("after the tick at %s comes that at %s", runs[i-1].At, run.At)
		}
		if run.Job == "" && run.Skipped != api.SkippedPaused {
			t.Errorf("the tick at %s has no job: %s", run.At, run.Skipped)
		}
		if run.Job != "" && made[run.Job] {
			t.Errorf("the job %s is of two ticks", run.Job)
		}
		if run.Job != "" {
			made[run.Job] = true
		}
	}
	stored := stack.Query[string](t.Context(), t, c.DatabaseURL, `SELECT id::text FROM jobs WHERE type = 'tick' UNION ALL
		SELECT id::text FROM finished_jobs WHERE type = 'tick' UNION ALL SELECT id::text FROM dead_letters WHERE type = 'tick'`)
	for _, id := range stored {
		if !made[id] {
			t.Errorf("the job %s is no tick's", id)
		}
	}
	if len(stored) != len(made) {
		t.Errorf("%d jobs of %d ticks", len(stored), len(made))
	}
	return made
}

type scheduleRun struct {
	At           time.Time
	Job, Skipped string
}

func allRuns(t *testing.T, c *stack.Cluster, name string) []scheduleRun {
	t.Helper()
	runs := []scheduleRun{}
	for _, one := range stack.Query[string](t.Context(), t, c.DatabaseURL,
		`SELECT jsonb_build_object('at', at, 'job', job_id, 'skipped', skipped)::text FROM schedule_runs WHERE name = $1 ORDER BY at`, name) {
		var run scheduleRun
		if err := json.Unmarshal([]byte(one), &run); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	return runs
}

// A key that is bound to a user makes, sees and changes that user's schedules, and no others.
func TestSchedulesOfUsers(t *testing.T) {
	t.Parallel()
	s := stack.Up(t, stack.Folder(t), "--demo=false")
	c := s.Client(t)
	admin := s.ClientFor(t, s.OperatorKey)
	who, err := c.Whoami(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := func(user string) *client.Client {
		key, err := admin.CreateKey(t.Context(), *who.Tenant, api.KeyRequest{User: &user, Scopes: api.Scopes()})
		if err != nil {
			t.Fatal(err)
		}
		return s.ClientFor(t, key.Secret)
	}
	ada, bob := bound("ada"), bound("bob")
	hourly := api.ScheduleRequest{EveryMS: new(int64(3_600_000)), Job: api.ScheduleJob{Type: "x"}}
	made, err := ada.PutSchedule(t.Context(), "mine", hourly)
	if err != nil || made.Job.User == nil || *made.Job.User != "ada" {
		t.Fatalf("%+v %v", made, err)
	}
	if _, err := c.PutSchedule(t.Context(), "tenants", hourly); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[*client.Client]int{c: 2, ada: 1, bob: 0} {
		if page, err := who.Schedules(t.Context(), client.PageRequest{}); err != nil || len(page.Items) != want {
			t.Errorf("%d schedules, want %d: %v", len(page.Items), want, err)
		}
	}
	submitted, err := ada.TriggerSchedule(t.Context(), "mine")
	if err != nil || submitted.User == nil || *submitted.User != "ada" {
		t.Errorf("%+v %v", submitted, err)
	}
	for what, err := range map[string]error{
		"get":     second(bob.Schedule(t.Context(), "mine")),
		"put":     second(bob.PutSchedule(t.Context(), "mine", hourly)),
		"pause":   second(bob.PauseSchedule(t.Context(), "tenants")),
		"trigger": second(bob.TriggerSchedule(t.Context(), "mine")),
		"runs":    second(bob.ScheduleRuns(t.Context(), "mine", client.PageRequest{})),
		"delete":  bob.DeleteSchedule(t.Context(), "mine"),
	} {
		if p, ok := problem.From(err); !ok || p.Code != problem.NotFound {
			t.Errorf("%s of another user's: %v", what, err)
		}
	}
	hourly.Job.User = new("bob")
	if _, err := ada.PutSchedule(t.Context(), "mine", hourly); err == nil {
		t.Error("ada's key makes a schedule of bob's jobs")
	}
	if err := ada.DeleteSchedule(t.Context(), "mine"); err != nil {
		t.Error(err)
	}
	log, err := c.Audit(t.Context(), api.AuditFilter{Object: "mine"}, client.PageRequest{})
	if err != nil || len(log.Items) != 3 || log.Items[0].Action != api.AuditScheduleDelete || *log.Items[0].Actor.User != "ada" {
		t.Errorf("%+v %v", log, err)
	}
}

func second[T any](_ T, err error) error { return err }
