package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// bury submits n jobs of a type and has them all die.
func (l *load) bury(c *client.Client, n int, kind string) {
	l.t.Helper()
	ctx := l.t.Context()
	for left := n; left > 0; left -= min(left, api.MaxBatchJobs) {
		jobs := make([]api.SubmitRequest, min(left, api.MaxBatchJobs))
		for i := range jobs {
			jobs[i] = l.request()
			jobs[i].Type = kind
		}
		if answer, err := c.SubmitBatch(ctx, api.BatchRequest{Jobs: jobs}); err != nil || answer.Accepted != len(jobs) {
			l.t.Fatal(answer.Accepted, err)
		}
	}
	l.kill(c, n)
}

// kill has n queued jobs die.
func (l *load) kill(c *client.Client, n int) {
	l.t.Helper()
	ctx := l.t.Context()
	most := 500
	for left := n; left > 0; {
		var claimed api.ClaimResponse
		stack.Eventually(l.t, time.Minute, "a claim to be answered", func() (answered bool) {
			var err error
			claimed, err = c.Claim(ctx, api.ClaimRequest{WorkerID: "gravedigger", Queues: []string{loadQueue}, Max: &most})
			return err == nil
		})
		outcomes := make([]api.OutcomeRequest, len(claimed.Jobs))
		for i, job := range claimed.Jobs {
			outcomes[i] = api.OutcomeRequest{
				JobID: job.ID, Kind: api.KindFail, LeaseToken: job.LeaseToken, Permanent: true,
				Error: &api.JobError{Type: "meant", Message: "this job is meant to die"},
			}
		}
		if len(outcomes) == 0 {
			continue
		}
		if _, err := c.Outcomes(ctx, outcomes); err != nil {
			l.t.Fatal(err)
		}
		left -= len(outcomes)
	}
}

// redriven looks at a redrive until it is as it should be.
func redriven(t *testing.T, c *client.Client, id string, within time.Duration, is func(api.Redrive) bool) api.Redrive {
	t.Helper()
	var now api.Redrive
	stack.Eventually(t, within, "a redrive to come far enough", func() bool {
		seen, err := c.GetRedrive(t.Context(), id)
		if err == nil {
			now = seen
		}
		return err == nil && is(now)
	})
	return now
}

func ended(r api.Redrive) bool { return r.State != api.RedriveRunning }

// A redrive by filter at a rate, in the middle of which the only core is killed:
// every dead letter rises, each once, and the count is the same.
func TestRedriveUnderLoadSurvivesAKilledCore(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	// Slow enough that what is seen of it is not long past.
	rate := lane(50, 500)
	n := lane(300, 10_000)
	cluster := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, cluster, 10*time.Second)
	c := l.client()
	l.bury(c, n, "load")
	l.bury(c, n/10, "junk")
	filter := api.DeadLetterFilter{Queue: loadQueue, Type: "load"}
	if found, err := c.CountMatching(t.Context(), filter); err != nil || found.Matched != int64(n) || found.MatchedCapped {
		t.Fatalf("%+v, %v", found, err)
	}

	stopWork := l.work(2, 5*time.Millisecond)
	begun := time.Now()
	made, err := c.RedriveMatching(t.Context(), filter, float64(rate))
	if err != nil || made.Matched != int64(n) {
		t.Fatalf("%+v, %v", made, err)
	}
	before := redriven(t, c, made.ID, time.Minute, func(r api.Redrive) bool { return r.Done >= int64(n)*2/5 })
	core := cluster.Cores[0]
	if !core.Kill() || ended(before) {
		t.Errorf("the kill was no fault: %+v", before)
	}
	down := time.Now()
	core.Start()
	core.AwaitReady()
	cluster.Gateways[0].AwaitReady()
	up := time.Since(down)
	over := redriven(t, c, made.ID, time.Minute+5*time.Duration(n/rate)*time.Second, ended)
	took := time.Since(begun)
	if over.State != api.RedriveDone || over.Done != int64(n) || over.Refused != 0 || over.Matched != int64(n) {
		t.Errorf("it ended as %+v", over)
	}
	if least := time.Duration(n/rate)*time.Second - 2*time.Second; took < least {
		t.Errorf("%d at %d a second took %v", n, rate, took)
	}

	discarded := l.discard(c, api.DeadLetterFilter{Type: "junk"})
	l.drain(5 * time.Minute)
	stopWork()
	rose := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*)::integer FROM finished_jobs WHERE redrives = 1 AND type = 'load'`)
	others := stack.Query[int](t.Context(), t, cluster.DatabaseURL, `SELECT count(*)::integer FROM finished_jobs WHERE redrives <> 1 OR type <> 'load'`)
	if len(rose) != 1 || rose[0] != n || len(others) != 1 || others[0] != 0 || discarded != int64(n/10) {
		t.Errorf("%v rose once, %v otherwise, %d discarded; want %d, 0, %d", rose, others, discarded, n, n/10)
	}
	_, db := l.check()
	if db.Discarded[l.tenant.ID] != n/10 {
		t.Errorf("the books know of %d discarded", db.Discarded[l.tenant.ID])
	}
	t.Logf("%d redriven by filter at %d/s in %.1f s; killed at %d, ready again after %.1f s; %d discarded",
		n, rate, took.Seconds(), before.Done, up.Seconds(), discarded)
}

// discard forgets all that match and gives how many.
func (l *load) discard(c *client.Client, filter api.DeadLetterFilter) int64 {
	l.t.Helper()
	made, err := c.DiscardMatching(l.t.Context(), filter, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	return redriven(l.t, c, made.ID, time.Minute, ended).Done
}

// A job that kills its worker again and again is a dead letter in the end, and costs
// no other job an attempt.
func TestPoisonedJobIsWorkerLost(t *testing.T) {
	furtherFault(t, "TestWorkerPausedPastItsLease")
	t.Parallel()
	cluster := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, cluster, 2*time.Second)
	cluster.SetQueue(t, l.tenant, "poison", map[string]any{"visibility_timeout_ms": 1000})
	c := l.client()
	request := l.request()
	attempts := 3
	request.Queue, request.MaxAttempts = "poison", &attempts
	poison, err := c.Submit(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= attempts; attempt++ {
		worker := l.process(workerPlan{Mode: "hold", Max: 1, Queue: "poison"})
		if _, err := worker.FirstLine(time.Minute); err != nil { // it has the job
			t.Fatal(err)
		}
		worker.Kill()
		stack.Eventually(t, time.Minute, "the lease is taken back", func() bool {
			now, err := c.Get(t.Context(), poison.ID)
			return err == nil && now.State != api.StateRunning && now.Attempt == attempt
		})
	}
	dead, err := c.Get(t.Context(), poison.ID)
	if err != nil || dead.State != api.StateDeadLetter || dead.DeadReason == nil || *dead.DeadReason != api.ReasonWorkerLost {
		t.Errorf("%+v, %v", dead, err)
	}
	page, err := c.Attempts(t.Context(), poison.ID, client.PageRequest{})
	if err != nil || len(page.Items) != attempts {
		t.Errorf("%+v, %v", page, err)
	}
	for _, one := range page.Items {
		if one.Kind != "lease_expired" {
			t.Errorf("%+v", one)
		}
	}
	groups, err := c.DeadLetterGroups(t.Context(), api.DeadLetterFilter{Reason: api.ReasonWorkerLost}, 0)
	if err != nil || len(groups.Items) != 1 || groups.Items[0].Count != 1 {
		t.Errorf("%+v, %v", groups, err)
	}
	if claimed := l.claimNothing(t.Context(), c); claimed != 0 {
		t.Errorf("%d more claims of it", claimed)
	}
	l.check()
}

func (l *load) claimNothing(ctx context.Context, c *client.Client) int {
	l.t.Helper()
	claimed, err := c.Claim(ctx, api.ClaimRequest{WorkerID: "after", Queues: []string{"poison"}})
	if err != nil {
		l.t.Fatal(err)
	}
	return len(claimed.Jobs)
}
