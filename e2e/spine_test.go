package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// setVisibility makes a queue's leases short.
func setVisibility(t *testing.T, s *stack.Stack, queue string, visibility time.Duration) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	tag, err := conn.Exec(t.Context(), `UPDATE queues SET visibility_timeout_ms = $1, updated_at = statement_timestamp() WHERE name = $2`,
		visibility.Milliseconds(), queue)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("the queue %s has no settings to change: %v", queue, err)
	}
}

// A worker killed in mid-job: another does the job, and the late finish is refused.
// On the last attempt there is nobody else: a dead letter, not a stuck job.
func TestWorkerKilledInMidJob(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)
	for _, queue := range []string{"second-chance", "last-chance"} {
		// the queue is there once it is used; a job that waits is in nobody's way
		delay := int64(3_600_000)
		stack.Submit(t, c, api.SubmitRequest{Type: "x", Queue: queue, DelayMS: &delay})
		setVisibility(t, s, queue, 2*time.Second)
	}
	stack.Eventually(t, time.Minute, "a claim has a lease of 2 s", func() bool {
		stack.Submit(t, c, api.SubmitRequest{Type: "probe", Queue: "second-chance"})
		job := stack.ClaimOne(t, c, "probe", "second-chance")
		if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			t.Fatal(err)
		}
		return job.LeaseExpiresAt.Sub(stack.Get(t, c, job.ID).StartedAt.Time) == 2*time.Second
	})

	t.Run("done by another", func(t *testing.T) {
		id := stack.Submit(t, c, api.SubmitRequest{Type: "x", Queue: "second-chance"})
		stale := killedWith(t, s, "second-chance", id)
		again := stack.ClaimOne(t, c, "second", "second-chance")
		if again.ID != id || again.Attempt != 2 || again.Epoch != stale.Epoch+1 {
			t.Fatalf("the second claim: %+v", again)
		}
		_, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: stale.LeaseToken, Result: json.RawMessage(`"late"`)})
		if p, ok := problem.From(err); !ok || p.Code != problem.LeaseLost || p.Status != 409 {
			t.Fatalf("the late finish got %v, want 409 lease_lost", err)
		}
		if _, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: again.LeaseToken, Result: json.RawMessage(`"in time"`)}); err != nil {
			t.Fatal(err)
		}
		if job := stack.Get(t, c, id); job.State != api.StateCompleted || string(job.Result) != `"in time"` || *job.WorkerID != "second" {
			t.Fatalf("in the end: %+v, result %s", job.JobSummary, job.Result)
		}
	})
	t.Run("dead letter on the last attempt", func(t *testing.T) {
		once := 1
		id := stack.Submit(t, c, api.SubmitRequest{Type: "x", Queue: "last-chance", MaxAttempts: &once})
		killedWith(t, s, "last-chance", id)
		stack.Eventually(t, time.Minute, "a dead letter", func() bool { return stack.Get(t, c, id).State == api.StateDeadLetter })
		if job := stack.Get(t, c, id); *job.DeadReason != api.ReasonWorkerLost {
			t.Fatalf("the reason is %s", *job.DeadReason)
		}
	})
}

// killedWith gives the claim of a worker process that was killed while it held job.
func killedWith(t *testing.T, s *stack.Stack, queue, id string) api.ClaimedJob {
	t.Helper()
	worker := startWorker(t, workerArgs{s.Gateway, s.APIKey, "doomed-" + queue, queue})
	line, err := worker.FirstLine(30 * time.Second)
	if err != nil {
		t.Fatalf("the worker claimed nothing: %v\n%s", err, worker.Output())
	}
	var claimed api.ClaimedJob
	if err := json.Unmarshal([]byte(line), &claimed); err != nil || claimed.ID != id {
		t.Fatalf("the worker claimed %s: %v", line, err)
	}
	worker.Kill()
	if job := stack.Get(t, s.Client(t), id); job.State != api.StateRunning {
		t.Fatalf("the job is %s right after its worker was killed", job.State)
	}
	return claimed
}

func TestUpShowsCompletedRetryingAndDeadJobs(t *testing.T) {
	t.Parallel()
	data := stack.Folder(t)
	s := stack.Up(t, data)
	if s.Data != data || !strings.HasPrefix(s.Gateway, "http://127.0.0.1:") || s.Redis.Mode != "child" {
		t.Fatalf("%+v", s.Ready)
	}
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	count := func(query string) (n int) {
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	stack.Eventually(t, time.Minute, "completed samples, a retry under way and a dead letter", func() bool {
		return count(`SELECT count(*) FROM finished_jobs WHERE type = 'text.stats' AND state = 'completed'`) >= 1 &&
			count(`SELECT count(*) FROM finished_jobs WHERE type = 'hash.sha256' AND state = 'completed'`) == 2 &&
			count(`SELECT count(*) FROM attempts WHERE kind = 'failed' AND next_run_at IS NOT NULL`) >= 1 &&
			count(`SELECT count(*) FROM dead_letters WHERE type = 'flaky' AND reason = 'exhausted'`) == 1
	})
	c := s.Client(t)
	id := stack.Submit(t, c, api.SubmitRequest{Type: "hash.sha256", Payload: json.RawMessage(`{"text":"hello"}`)})
	done, err := c.Wait(t.Context(), id)
	if err != nil || done.State != api.StateCompleted ||
		!strings.Contains(string(done.Result), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824") {
		t.Fatalf("%+v %s %v", done.JobSummary, done.Result, err)
	}
	_ = conn.Close(t.Context())
	if code := s.Stop(t); code != 0 {
		t.Fatalf("exit code %d\n%s", code, s.Output())
	}

	again := stack.Up(t, data, "--demo=false")
	if again.APIKey != s.APIKey || again.OperatorKey != s.OperatorKey || again.PlatformKey != s.PlatformKey {
		t.Error("the keys are others after a restart")
	}
	if job := stack.Get(t, again.Client(t), id); job.State != api.StateCompleted {
		t.Errorf("after a restart the job is %s", job.State)
	}
}
