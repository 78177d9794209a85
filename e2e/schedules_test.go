package e2e_test

import (
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
		Cron: &cron, CatchUp: api.CatchUpAll, CatchUpMax: new(1000), Job: api.ScheduleJob{Type: "seconds", Queue: "ticks"},
	}); err != nil {
		t.Fatal(err)
	}
	ticked := func(n int) func() bool {
		return func() bool { return len(c.ScheduleRuns(t, "seconds")) >= n }
	}
	for i, core := range c.Cores {
		stack.Eventually(t, time.Minute, "there are more ticks", ticked(3*i+2))
		core.Kill()
		stack.Eventually(t, time.Minute, "the others go on", ticked(3*i+4))
		core.Start()
		core.AwaitReady()
	}
	stack.Eventually(t, time.Minute, "a core that lives has counted a tick", func() bool {
		ticks := 0.0
		for _, core := range c.Cores {
			ticks += core.Metric("forgequeue_schedule_ticks_total")
		}
		return ticks > 0
	})
	if _, err := own.PauseSchedule(t.Context(), "seconds"); err != nil {
		t.Fatal(err)
	}
	made := c.CheckSeconds(t, "seconds")
	claimed := map[string]bool{}
	for len(claimed) < len(made) {
		job := stack.ClaimOne(t, own, "w", "ticks")
		if claimed[job.ID] || !made[job.ID] {
			t.Fatalf("the job %s is no run's, or came twice", job.ID)
		}
		claimed[job.ID] = true
	}
}

// A key that is bound to a user makes, sees and changes that user's schedules, and no others.
func TestSchedulesOfUsers(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)
	admin := s.ClientFor(t, s.OperatorKey)
	who, err := c.Whoami(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := func(user string) *client.Client {
		key, err := admin.CreateKey(t.Context(), *who.Tenant, api.KeyRequest{User: &user, Scopes: api.UserScopes()})
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
