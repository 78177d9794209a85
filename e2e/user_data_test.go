package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// person is a user, and what is in the jobs of that user alone.
const person, personal = "ada-7f3c", "of-ada-9b1e"

// personJobs makes jobs of a user in several states, of which attempts, output, signals and counts hang on.
func personJobs(t *testing.T, cluster *stack.Cluster, c *client.Client) (live, ended []string) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	submit := func(queue string, change ...func(*api.SubmitRequest)) string {
		request := api.SubmitRequest{Type: "t", Queue: queue, User: new(person), MaxAttempts: new(2), Payload: json.RawMessage(`{"text":"` + personal + `"}`), Metadata: map[string]string{"of": personal}}
		for _, one := range change {
			one(&request)
		}
		return stack.Submit(t, c, request)
	}
	dead := submit("dies")
	for range 2 {
		job := stack.ClaimOne(t, c, "w", "dies")
		_, err := c.AppendOutput(ctx, job.ID, api.OutputRequest{LeaseToken: job.LeaseToken, Chunks: []api.OutputChunk{{Seq: 1, Stream: api.OutputOut, Text: personal}}})
		must(err)
		_, err = c.Fail(ctx, job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{Type: "T", Message: personal}, RetryAfterMS: new(int64(1))})
		must(err)
	}
	completed := submit("does")
	job := stack.ClaimOne(t, c, "w", "does")
	_, err := c.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: json.RawMessage(`"` + personal + `"`)})
	must(err)
	waits := submit("waits")
	job = stack.ClaimOne(t, c, "w", "waits")
	_, err = c.ReportWait(ctx, job.ID, api.WaitRequest{LeaseToken: job.LeaseToken, For: []string{"a", "b"}, Mode: api.WaitAll, TimeoutMS: new(time.Hour.Milliseconds())})
	must(err)
	_, err = c.Signal(ctx, waits, api.SignalRequest{Name: "a", Data: json.RawMessage(`"` + personal + `"`)})
	must(err)
	later := submit("later", func(r *api.SubmitRequest) { r.DelayMS = new(time.Hour.Milliseconds()) })
	stack.Exec(ctx, t, cluster.DatabaseURL, `INSERT INTO limit_stats (tenant_id, limit_name, name, grain, at, used, allowed, refused)
		SELECT tenant_id, 'user-active', user_id, 0, now(), 1, 1, 1 FROM jobs WHERE user_id = $1 LIMIT 1`, person)
	stack.Exec(ctx, t, cluster.DatabaseURL, `INSERT INTO ledger (tenant_id, by, name, day, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms)
		SELECT DISTINCT ON (tenant_id, name) tenant_id, 'user', name, '2020-01-01'::date, 3, 2, 1, 0, 0, 0, 10 FROM jobs CROSS JOIN (VALUES ($1), ('')) AS of(name) WHERE user_id = $1`, person)
	return []string{waits, later}, []string{dead, completed}
}

// An export has all that hangs on a user's jobs, and nothing of another's.
func TestAUsersDataIsExported(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	tenant := cluster.NewTenant(t, "exports")
	c := cluster.Client(t, tenant.Key)
	live, ended := personJobs(t, cluster, c)
	stack.Submit(t, c, api.SubmitRequest{Type: "t", User: new("bob")})
	for user, schedule := range map[string]string{person: "hers", "bob": "his"} {
		if _, err := c.PutSchedule(t.Context(), schedule, api.ScheduleRequest{Cron: new("0 3 * * *"), Job: api.ScheduleJob{Type: "t", User: &user}}); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]int{}
	var jobs []string
	for line, err := range c.ExportUser(t.Context(), person) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[line.Kind]++
		switch {
		case line.Job != nil:
			if jobs = append(jobs, line.Job.ID); *line.Job.User != person || string(line.Job.Payload) != `{"text":"`+personal+`"}` {
				t.Errorf("%+v", line.Job)
			}
		case line.Schedule != nil && line.Schedule.Name != "hers":
			t.Error(line.Schedule.Name)
		case line.Signal != nil && string(line.Signal.Data) != `"`+personal+`"`:
			t.Errorf("%s", line.Signal.Data)
		case line.Schedule == nil && !slices.Contains(jobs, line.JobID):
			t.Errorf("%+v before its job", line)
		}
	}
	slices.Sort(jobs)
	want := slices.Sorted(slices.Values(slices.Concat(live, ended)))
	if !slices.Equal(jobs, want) {
		t.Errorf("jobs %v, want %v", jobs, want)
	}
	if got := fmt.Sprint(kinds); got != "map[attempt:3 job:4 output:2 schedule:1 signal:1]" {
		t.Error(got)
	}
	bob, err := c.CreateOwnKey(t.Context(), api.KeyRequest{Scopes: []string{api.ScopeRead}, User: new("bob")})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range cluster.Client(t, bob.Secret).ExportUser(t.Context(), person) {
		if client.Status(err) != 403 {
			t.Errorf("another user's key: %v", err)
		}
	}
}

// After all jobs of a user were cancelled and deleted by bulk actions, no table has anything of them, but those that say so.
func TestAUsersDataIsDeleted(t *testing.T) {
	t.Parallel()
	cluster := stack.NewCluster(t, stack.ClusterOptions{})
	tenant := cluster.NewTenant(t, "deletes")
	c := cluster.Client(t, tenant.Key)
	personJobs(t, cluster, c)
	kept := stack.Submit(t, c, api.SubmitRequest{Type: "t", User: new("bob")})
	for _, action := range []string{api.BulkCancel, api.BulkDelete} {
		begun, err := c.Bulk(t.Context(), api.BulkRequest{Action: action, Filter: api.BulkFilter{User: new(person)}})
		if err != nil {
			t.Fatal(err)
		}
		stack.Eventually(t, time.Minute, action+" is done", func() bool {
			now, err := c.GetBulk(t.Context(), begun.ID)
			return err == nil && now.State == api.RedriveDone
		})
	}
	for _, err := range c.ExportUser(t.Context(), person) {
		t.Errorf("there is a line, or %v", err)
	}
	stack.Get(t, c, kept)
	// What stays: the log of what was done; for a day the answers that a repeat gets; names at lanes and counts of caps, until these are
	// forgotten.
	stays := []string{"audit_log", "redrives", "idempotency_keys", "queues", "lanes", "usage_counts", "usage_log", "usage_credits", "start_rates"}
	tables := stack.Query[string](t.Context(), t, cluster.DatabaseURL, `
		SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1`)
	if len(tables) < 40 {
		t.Fatalf("%d tables", len(tables))
	}
	for _, table := range tables {
		for _, text := range []string{person, personal} {
			found := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*) FROM `+table+` AS t WHERE t::text LIKE '%' || $1 || '%'`, text)[0]
			if found > 0 && !slices.Contains(stays, table) {
				t.Errorf("%s has %d rows with %s", table, found, text)
			}
		}
	}
	if sums := stack.Query[int64](t.Context(), t, cluster.DatabaseURL, `SELECT accepted FROM ledger WHERE by = 'user' AND name = '' AND day = '2020-01-01'`); !slices.Equal(sums, []int64{6}) {
		t.Errorf("the jobs without a user have %v accepted", sums)
	}
	if lines := cluster.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
}
