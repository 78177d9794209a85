package faults_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Two cores are killed in turn while diamonds come in and are done, and a job of some of them fails. Each
// job runs after all of its parents, none stays blocked, and what a failure does not reach has run.
func TestCoresKilledAmongWorkflows(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	cycles := lane(4, 200)
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2})
	l := newLoad(t, c, 2*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working, submitting sync.WaitGroup
	for range 3 {
		working.Go(func() { workOnDiamonds(ctx, c.Client(t, l.tenant.Key)) })
	}
	submits, stopSubmits := context.WithCancel(ctx)
	defer stopSubmits()
	var submitted, failing atomic.Int64
	for range 2 {
		submitting.Go(func() {
			producer := c.Client(t, l.tenant.Key)
			for submits.Err() == nil {
				fails := submitted.Load()%4 == 0
				if _, err := producer.SubmitWorkflow(submits, diamondOf(fails)); err == nil {
					submitted.Add(1)
					if fails {
						failing.Add(1)
					}
				}
				pace(submits, 5*time.Millisecond)
			}
		})
	}
	for i := range cycles {
		pace(t.Context(), moment(200*time.Millisecond, 900*time.Millisecond))
		victim := c.Cores[i%2]
		if !victim.Kill() {
			t.Errorf("it had ended before it was killed:\n%s", victim.Output())
		}
		victim.Start()
		victim.AwaitReady()
		c.Gateways[0].AwaitReady()
	}
	stack.Eventually(t, time.Minute, "some workflows are stored, and one of them fails", func() bool {
		return submitted.Load() >= 4 && failing.Load() > 0
	})
	stopSubmits()
	submitting.Wait()
	l.drain(90 * time.Second)
	stop()
	working.Wait()
	count := func(sql string) int {
		t.Helper()
		return stack.Query[int](t.Context(), t, c.DatabaseURL, sql)[0]
	}
	for what, sql := range map[string]string{
		"follow-ups are left":                             `SELECT count(*)::integer FROM follow_ups`,
		"workflows are not whole":                         `SELECT count(*)::integer FROM (SELECT workflow_id FROM workflow_jobs GROUP BY workflow_id HAVING count(*) <> 5) w`,
		"jobs that a failure does not reach have not run": `SELECT count(*)::integer FROM finished_jobs WHERE state = 'cancelled' AND type <> 'never'`,
	} {
		if n := count(sql); n > 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	db := l.database()
	if found := invariants.Dependencies(invariants.History{}, db); len(found) > 0 || len(db.Edges) == 0 {
		t.Errorf("%d edges: %q", len(db.Edges), found)
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	failed := count(`SELECT count(*)::integer FROM dead_letters`)
	if submitted.Load() == 0 || failed == 0 {
		t.Errorf("%d workflows, %d failed jobs", submitted.Load(), failed)
	}
	t.Logf("%d kills, %d workflows, %d failed jobs, %d cancelled for them", cycles, submitted.Load(), failed,
		count(`SELECT count(*)::integer FROM finished_jobs WHERE state = 'cancelled'`))
}

// diamondOf is a diamond of which one middle job may fail: the last one runs all the same, and another is
// cancelled.
func diamondOf(fails bool) *client.WorkflowBuilder {
	one := func(jobType string) api.SubmitRequest {
		return api.SubmitRequest{Type: jobType, Queue: loadQueue, MaxAttempts: new(1000)}
	}
	right := one("right")
	if fails {
		right.Payload = json.RawMessage(`"fail"`)
	}
	return client.Workflow().
		Add("top", one("top")).
		Add("left", one("left")).After("top").
		Add("right", right).After("top").
		Add("last", one("last")).After("left").AfterOnFailed(api.OnFailedRun, "right").
		Add("never", one("never")).After("right")
}

// workOnDiamonds claims jobs and ends them, until ctx ends. What it cannot report is another attempt's.
func workOnDiamonds(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		claimed, err := c.Claim(ctx, api.ClaimRequest{WorkerID: "w", Queues: []string{loadQueue}, Max: new(10), WaitMS: new(int64(500))})
		if err != nil {
			pace(ctx, 20*time.Millisecond)
			continue
		}
		var outcomes []api.OutcomeRequest
		for _, job := range claimed.Jobs {
			outcome := api.OutcomeRequest{JobID: job.ID, Kind: api.KindComplete, LeaseToken: job.LeaseToken}
			if string(job.Payload) == `"fail"` {
				outcome.Kind, outcome.Permanent, outcome.Error = api.KindFail, true, &api.JobError{Type: "e", Message: "broken"}
			}
			outcomes = append(outcomes, outcome)
		}
		if len(outcomes) > 0 {
			_, _ = c.Outcomes(ctx, outcomes)
		}
	}
}
