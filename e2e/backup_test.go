package e2e_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const backupQueue = "kept"

// A backup as api-docs/operations.md says: pg_dump while everything runs, restored on
// another server. What was committed before it began is all there and goes on: what
// was done stays done, what ran runs again, caps count what is really there, and a
// lease from after the backup is worth nothing.
func TestABackupIsRestoredOnAnotherServer(t *testing.T) {
	t.Parallel()
	const active = 40 // as many as the tenant may have
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: stack.NewDatabase(t)})
	tenant := c.NewTenant(t, "kept")
	limit := int64(active)
	c.Override(t, tenant, api.Overrides{Limits: api.Limits{MaxActive: &limit}})
	c.SetQueue(t, tenant, backupQueue, map[string]any{"visibility_timeout_ms": stack.Patience(2 * time.Second).Milliseconds()})
	api0 := c.Client(t, tenant.Key)
	jobs := make([]string, active)
	for i := range jobs {
		jobs[i] = stack.Submit(t, api0, api.SubmitRequest{Type: "keep", Queue: backupQueue})
	}
	done, dead, running := stack.ClaimOne(t, api0, "before", backupQueue), stack.ClaimOne(t, api0, "before", backupQueue), stack.ClaimOne(t, api0, "before", backupQueue)
	complete(t, api0, done)
	if _, err := api0.Fail(t.Context(), dead.ID, api.FailRequest{LeaseToken: dead.LeaseToken, Permanent: true}); err != nil {
		t.Fatal(err)
	}

	dump := filepath.Join(t.TempDir(), "forgequeue.dump")
	postgresTool(t, "pg_dump", "--format=custom", "--file="+dump, "--dbname="+c.DatabaseURL)

	late := stack.ClaimOne(t, api0, "after", backupQueue)
	lost := stack.Submit(t, api0, api.SubmitRequest{Type: "too-late", Queue: backupQueue})
	for _, service := range []*stack.Service{c.Gateways[0], c.Cores[0]} {
		if code, _ := service.Stop(); code != 0 {
			t.Fatalf("a service stopped with exit code %d", code)
		}
	}

	server := stack.Up(t, stack.Folder(t), "--demo=false")
	restored := server.SecondDatabase(t)
	postgresTool(t, "pg_restore", "--no-owner", "--exit-on-error", "--dbname="+restored, dump)
	c = stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: restored, RedisURL: c.RedisURL}) // runs `core migrate`
	api1 := c.Client(t, tenant.Key)

	if _, err := api1.Get(t.Context(), lost); !isCode(err, problem.NotFound) {
		t.Errorf("a job from after the backup: %v, want not_found", err)
	}
	if _, err := api1.Complete(t.Context(), late.ID, api.CompleteRequest{LeaseToken: late.LeaseToken}); !isCode(err, problem.LeaseLost) {
		t.Errorf("a lease from after the backup completes: %v, want lease_lost", err)
	}
	if state := stack.Get(t, api1, dead.ID).State; state != api.StateDeadLetter {
		t.Errorf("the dead letter is %s", state)
	}
	for range 2 { // two of the forty had ended
		stack.Submit(t, api1, api.SubmitRequest{Type: "keep", Queue: backupQueue})
	}
	if _, err := api1.Submit(t.Context(), api.SubmitRequest{Type: "keep", Queue: backupQueue}); !isCode(err, problem.ActiveCapReached) {
		t.Errorf("one more than the cap: %v, want active_cap_reached", err)
	}

	deliveries := map[string]int{}
	stack.Eventually(t, time.Minute, "every job that was not done is done", func() bool {
		job := stack.ClaimOne(t, api1, "then", backupQueue)
		deliveries[job.ID]++
		complete(t, api1, job)
		return len(deliveries) == active
	})
	for _, id := range jobs {
		if job := stack.Get(t, api1, id); id != dead.ID && job.State != api.StateCompleted {
			t.Errorf("job %s is %s", id, job.State)
		}
	}
	if deliveries[done.ID] != 0 || deliveries[running.ID] != 1 || deliveries[late.ID] != 1 {
		t.Errorf("deliveries of done, running, late: %d %d %d, want 0 1 1", deliveries[done.ID], deliveries[running.ID], deliveries[late.ID])
	}
	if attempt := stack.Get(t, api1, running.ID).Attempt; attempt != 2 {
		t.Errorf("what ran during the backup is done by attempt %d, want 2", attempt)
	}
	if drift := c.Verify(t); len(drift) > 0 {
		t.Errorf("core verify: %v", drift)
	}
}

// A dump of a schedule of seconds, and of a workflow of which one job runs and the end of another is not worked
// off yet. After the restore each tick since the first has one job, those of the outage too, and the workflow
// goes on to its end.
func TestSchedulesAndAWorkflowAreRestored(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: stack.NewDatabase(t)})
	tenant := c.NewTenant(t, "kept")
	c.SetQueue(t, tenant, backupQueue, map[string]any{"visibility_timeout_ms": stack.Patience(2 * time.Second).Milliseconds()})
	api0 := c.Client(t, tenant.Key)
	if _, err := api0.PutSchedule(t.Context(), "seconds", api.ScheduleRequest{
		Cron: new("* * * * * *"), CatchUp: api.CatchUpAll, CatchUpMax: new(1000), Job: api.ScheduleJob{Type: "seconds", Queue: "ticks"},
	}); err != nil {
		t.Fatal(err)
	}
	job := func(jobType string) api.SubmitRequest { return api.SubmitRequest{Type: jobType, Queue: backupQueue} }
	made, err := api0.SubmitWorkflow(t.Context(), client.Workflow().
		Add("fetch", job("fetch")).Add("side", job("side")).
		Add("left", job("left")).After("fetch").Add("right", job("right")).After("fetch").
		Add("join", job("join")).After("left", "right", "side"))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := api0.GetWorkflow(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	fetch, side := stack.ClaimOne(t, api0, "before", backupQueue, "fetch"), stack.ClaimOne(t, api0, "before", backupQueue, "side")
	release := holdJob(t, c.DatabaseURL, shown.Jobs[2].ID)
	complete(t, api0, fetch)
	stack.Eventually(t, time.Minute, "there are ticks", func() bool { return len(c.ScheduleRuns(t, "seconds")) >= 3 })

	dump := filepath.Join(t.TempDir(), "forgequeue.dump")
	postgresTool(t, "pg_dump", "--format=custom", "--file="+dump, "--dbname="+c.DatabaseURL)

	dumped := len(c.ScheduleRuns(t, "seconds"))
	release()
	complete(t, api0, side) // this and the ticks of now are lost
	stack.Eventually(t, time.Minute, "there are more ticks", func() bool { return len(c.ScheduleRuns(t, "seconds")) >= dumped+2 })
	for _, service := range []*stack.Service{c.Gateways[0], c.Cores[0]} {
		if code, _ := service.Stop(); code != 0 {
			t.Fatalf("a service stopped with exit code %d", code)
		}
	}
	first := c.ScheduleRuns(t, "seconds")[0].At

	restored := stack.NewDatabase(t)
	postgresTool(t, "pg_restore", "--no-owner", "--exit-on-error", "--dbname="+restored, dump)
	if left := stack.Query[int](t.Context(), t, restored, `SELECT count(*)::integer FROM follow_ups`)[0]; left != 1 {
		t.Fatalf("the dump has %d follow-ups, want 1", left)
	}
	since := time.Now()
	c = stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: restored, RedisURL: c.RedisURL})
	api1 := c.Client(t, tenant.Key)

	var order []string
	for len(order) < 4 {
		claimed := stack.ClaimOne(t, api1, "then", backupQueue)
		order = append(order, claimed.Type)
		complete(t, api1, claimed)
	}
	if slices.Sort(order[:3]); !slices.Equal(order, []string{"left", "right", "side", "join"}) {
		t.Errorf("after the restore %v ran", order)
	}
	if done, err := api1.GetWorkflow(t.Context(), made.ID); err != nil || done.State != api.WorkflowCompleted || done.Counts.Completed != 5 {
		t.Errorf("%+v, %v", done.Workflow, err)
	}
	stack.Eventually(t, time.Minute, "ticks go on", func() bool {
		runs := c.ScheduleRuns(t, "seconds")
		return runs[len(runs)-1].At.After(since.Add(2 * time.Second))
	})
	if _, err := api1.PauseSchedule(t.Context(), "seconds"); err != nil {
		t.Fatal(err)
	}
	if again := c.ScheduleRuns(t, "seconds")[0].At; !again.Equal(first) {
		t.Errorf("the first tick is that at %s, not at %s", again, first)
	}
	c.CheckSeconds(t, "seconds")
	if drift := c.Verify(t); len(drift) > 0 {
		t.Errorf("core verify: %v", drift)
	}
}

// holdJob locks a job's row until release is called: nothing that comes before it is worked off.
func holdJob(t *testing.T, url, id string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT FROM jobs WHERE id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What a cap has counted is wrong, for whatever reason: the operator stops all cores,
// resets the counts, and goes on.
func TestACountIsBegunAnew(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	tenant := c.NewTenant(t, "capped")
	limit := int64(3)
	c.Override(t, tenant, api.Overrides{Limits: api.Limits{MaxActive: &limit}})
	api0 := c.Client(t, tenant.Key)
	first := stack.Submit(t, api0, api.SubmitRequest{Type: "x", Queue: backupQueue})
	stack.Submit(t, api0, api.SubmitRequest{Type: "x", Queue: backupQueue})
	conn, err := pgx.Connect(t.Context(), c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	mark := "pg_current_xact_id()"
	if stack.OnCitus() { // which takes no volatile function there
		mark = "'3'::xid8"
	}
	if _, err := conn.Exec(t.Context(), `INSERT INTO usage_credits SELECT tenant_id, 1, '', -2, `+mark+` FROM jobs LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	if drift := c.Verify(t); len(drift) != 1 {
		t.Fatalf("core verify: %q", drift)
	}
	if output, code := c.Recount(t); code == 0 || !strings.Contains(output, "stop all of them first") {
		t.Fatalf("beside a core: exit code %d\n%s", code, output)
	}
	if code, _ := c.Cores[0].Stop(); code != 0 {
		t.Fatalf("core stopped with exit code %d", code)
	}
	if output, code := c.Recount(t); code != 0 || output != "counts were reset; jobs that they had counted: 2\n" {
		t.Fatalf("exit code %d\n%s", code, output)
	}
	c.Cores[0].Start()
	c.Cores[0].AwaitReady()
	c.Gateways[0].AwaitReady()
	if drift := c.Verify(t); len(drift) > 0 {
		t.Errorf("core verify: %q", drift)
	}
	stack.Submit(t, api0, api.SubmitRequest{Type: "x", Queue: backupQueue}) // the third of three
	if _, err := api0.Submit(t.Context(), api.SubmitRequest{Type: "x", Queue: backupQueue}); !isCode(err, problem.ActiveCapReached) {
		t.Errorf("beyond the cap: %v", err)
	}
	if job := stack.ClaimOne(t, api0, "after", backupQueue); job.ID != first {
		t.Errorf("claimed %s, want the first", job.ID)
	}
}

func complete(t *testing.T, c *client.Client, job api.ClaimedJob) {
	t.Helper()
	if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
		t.Fatal(err)
	}
}

func isCode(err error, code problem.Code) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Code == code
}

// postgresTool runs a program of the installed PostgreSQL.
func postgresTool(t *testing.T, name string, args ...string) {
	t.Helper()
	installed, err := supervisor.FindPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), filepath.Join(installed.Dir, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, output)
	}
}
