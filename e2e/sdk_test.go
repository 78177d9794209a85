package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	sdk "github.com/forgequeue/forgequeue/shared/worker"
)

// sum is typed on both sides: the payload and the result are Go types.
type sum struct {
	Terms []int `json:"terms"`
}

func (sum) JobType() string { return "sum" }

func (sum) JobOptions() client.JobOptions {
	return client.JobOptions{Queue: "sums", MaxAttempts: 2, Timeout: time.Minute, Metadata: map[string]string{"sdk": "go"}, Unique: true}
}

// report is of another type, which fails for good.
type report struct{ Bad string }

func (report) JobType() string { return "report" }

func (report) JobOptions() client.JobOptions { return client.JobOptions{Queue: "sums"} }

// Typed arguments, results, keys and batches do on a real server what they say.
func TestTypedJobs(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	c := cluster.Client(t, cluster.NewTenant(t, "typed").Key)
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(2*time.Minute))
	defer cancel()

	first, err := client.Submit(ctx, c, sum{[]int{1, 2}})
	if err != nil || first.Deduplicated || first.Type != "sum" || first.Queue != "sums" || first.MaxAttempts != 2 || first.Metadata["sdk"] != "go" {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := client.Submit(ctx, c, sum{[]int{1, 2}}); err != nil || !again.Deduplicated || again.ID != first.ID {
		t.Errorf("the same arguments: %+v, %v", again, err)
	}
	bad, err := client.Submit(ctx, c, report{"bad"})
	if err != nil {
		t.Fatal(err)
	}
	runTypedWorker(t, c)
	if total, err := client.Wait[int](ctx, c, first.ID); err != nil || total != 3 {
		t.Errorf("the sum is %d, %v", total, err)
	}
	_, err = client.Wait[int](ctx, c, bad.ID)
	if ended, ok := errors.AsType[*client.EndedError](err); !ok || ended.State != api.StateDeadLetter || ended.Reason != api.ReasonPermanent || ended.Job.LastError.Message != "bad" {
		t.Errorf("a job that failed for good: %v", err)
	}
	// The first one has ended, and makes room.
	if total, err := client.SubmitAndWait[int](ctx, c, sum{[]int{1, 2}}); err != nil || total != 3 {
		t.Errorf("the sum is %d, %v", total, err)
	}
	// A key for a period does not.
	key, err := client.UniqueKey(sum{[]int{1, 2}}, 24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	once := map[string]bool{}
	for range 2 {
		job, err := client.Submit(ctx, c, sum{[]int{1, 2}}, client.WithIdempotencyKey(key))
		if err == nil {
			once[job.ID] = true
			_, err = client.Wait[int](ctx, c, job.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(once) != 1 {
		t.Errorf("one key made the jobs %v", once)
	}
	submitsMany(ctx, t, c)
}

func submitsMany(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	many := make([]client.JobArgs, 1100)
	for i := range many {
		many[i] = sum{[]int{i, 1}}
	}
	many[7] = report{"bad"}
	many[1050] = tooLarge{}
	for _, replays := range []bool{false, true} {
		var replayed bool
		answer, err := client.SubmitMany(ctx, c, many, client.WithIdempotencyKey("many"), client.WithReplayed(&replayed))
		if err != nil || answer.Accepted != 1099 || answer.Rejected != 1 || len(answer.Results) != 1100 || replayed != replays {
			t.Fatalf("%d accepted, %d rejected, replayed %v, %v", answer.Accepted, answer.Rejected, replayed, err)
		}
		if p := answer.Results[1050].Problem; p == nil || p.Code != problem.InvalidRequest || answer.Results[1050].Index != 1050 {
			t.Errorf("an invalid one: %+v", answer.Results[1050])
		}
		if total, err := client.Wait[int](ctx, c, answer.Results[1099].Job.ID); err != nil || total != 1100 {
			t.Errorf("the sum is %d, %v", total, err)
		}
	}
}

// tooLarge has more attempts than the server allows.
type tooLarge struct{}

func (tooLarge) JobType() string { return "sum" }

func (tooLarge) JobOptions() client.JobOptions {
	return client.JobOptions{MaxAttempts: api.MaxAttempts + 1}
}

func runTypedWorker(t *testing.T, c *client.Client) {
	t.Helper()
	w, err := sdk.New(sdk.Options{Client: c, Queues: []string{"sums"}, Concurrency: 100})
	if err != nil {
		t.Fatal(err)
	}
	sdk.Add(w, func(_ context.Context, job *sdk.Job[sum]) (int, error) {
		total := 0
		for _, term := range job.Payload.Terms {
			total += term
		}
		return total, nil
	}, sdk.WithTimeout(time.Minute), sdk.WithConcurrency(50))
	sdk.Add(w, func(_ context.Context, job *sdk.Job[report]) (any, error) {
		return nil, sdk.Permanent(errors.New(job.Payload.Bad))
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A long job reports, is seen to, and continues where it stopped: after an error, and in another worker.
func TestProgressAndCheckpoints(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	c := cluster.Client(t, cluster.NewTenant(t, "reports").Key)
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(2*time.Minute))
	defer cancel()
	w, err := sdk.New(sdk.Options{Client: c})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{})
	sdk.Handle(w, "pages", func(ctx context.Context, job *sdk.Job[int]) (int, error) {
		page := 0
		if _, err := job.Restore(&page); err != nil {
			return 0, err
		}
		if job.Attempt == 2 {
			return page, nil
		}
		job.Progress(40, "page 12 of 30")
		if err := job.Checkpoint(12); err != nil {
			return 0, err
		}
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return 0, errors.Join(job.Checkpoint(13), sdk.RetryAfter(errors.New("again"), 0))
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	id := stack.Submit(t, c, api.SubmitRequest{Type: "pages", Payload: []byte("30")})
	stack.Eventually(t, time.Minute, "the report is shown", func() bool {
		job := stack.Get(t, c, id)
		return job.Progress != nil && *job.Progress.Percent == 40 && *job.Progress.Message == "page 12 of 30" && string(job.Checkpoint) == "12"
	})
	page, err := c.List(ctx, api.JobFilter{}, client.PageRequest{})
	if err != nil || page.Items[0].Progress == nil {
		t.Errorf("the list has %+v, %v", page, err)
	}
	close(seen)
	job, err := c.Wait(ctx, id)
	if err != nil || job.State != api.StateCompleted || string(job.Result) != "13" || job.Progress != nil || string(job.Checkpoint) != "13" {
		t.Errorf("%+v %s, %v", job.JobSummary, job.Result, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again, err := c.Rerun(ctx, id, api.RerunRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if job := stack.ClaimOne(t, c, "other", api.DefaultQueue); job.ID != again.ID || string(job.Checkpoint) != "null" {
		t.Errorf("a rerun begins with %s", job.Checkpoint)
	}
}
