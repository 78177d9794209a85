package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// planEnv makes this test binary a worker process that follows a plan.
const planEnv = "FORGEQUEUE_E2E_PLAN"

// workerPlan is what a worker process does, until it is killed or told to stop.
type workerPlan struct {
	URL, Key, Tenant, WorkerID, Queue string
	// File is where it notes what it sends and gets.
	File string
	// Mode is "loop" (claims and ends jobs in many ways), "hold" (claims Max jobs,
	// says so, holds them until SIGCONT, then ends them) or "sdk" (package worker).
	Mode   string
	Max    int
	HoldMS int
	// Children are how many jobs a job of the load submits with its result.
	Children int
	// Waits says that a job of the load waits for the signals a and b before it completes.
	Waits bool
	// Used is what each attempt reports to have used of budgets.
	Used api.Amounts
}

func startPlan(t *testing.T, plan workerPlan) *stack.Process {
	t.Helper()
	encoded, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	command.Env = append(os.Environ(), planEnv+"="+string(encoded))
	return stack.StartCommand(t, command)
}

func planProcess() int {
	if err := followPlan(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func followPlan() error {
	var plan workerPlan
	if err := json.Unmarshal([]byte(os.Getenv(planEnv)), &plan); err != nil {
		return err
	}
	noted, err := invariants.OpenRecorder(plan.WorkerID, plan.File)
	if err != nil {
		return err
	}
	c, err := client.New(client.Options{
		URL: plan.URL, APIKey: plan.Key, HTTPClient: noted.Client(plan.Tenant, &http.Transport{MaxIdleConnsPerHost: 100}),
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w := &loopWorker{client: c, id: plan.WorkerID, plan: plan}
	switch plan.Mode {
	case "hold":
		err = w.hold(ctx)
	case "sdk":
		err = w.sdk(ctx)
	default:
		w.run(ctx)
	}
	return errors.Join(err, noted.Close())
}

// loopWorker is a worker made of plain calls.
type loopWorker struct {
	client *client.Client
	id     string
	plan   workerPlan
}

func (w *loopWorker) claim(ctx context.Context, most int) []api.ClaimedJob {
	wait := int64(500)
	claimed, err := w.client.Claim(ctx, api.ClaimRequest{WorkerID: w.id, Queues: []string{w.plan.Queue}, Max: &most, WaitMS: &wait})
	if err != nil {
		pace(ctx, 50*time.Millisecond)
		return nil
	}
	return claimed.Jobs
}

// run claims and ends jobs until ctx ends; jobs in hand are ended first.
func (w *loopWorker) run(ctx context.Context) {
	for ctx.Err() == nil {
		jobs := w.claim(ctx, max(w.plan.Max, 1))
		if len(jobs) == 0 {
			continue
		}
		leases := make([]api.Lease, len(jobs))
		for i, job := range jobs {
			leases[i] = api.Lease{JobID: job.ID, LeaseToken: job.LeaseToken}
		}
		var group sync.WaitGroup
		if w.plan.HoldMS > 0 {
			pace(ctx, time.Duration(w.plan.HoldMS)*time.Millisecond/2)
			_, _ = w.client.Heartbeat(ctx, w.id, leases) // refused or lost: the outcome tells
			pace(ctx, time.Duration(w.plan.HoldMS)*time.Millisecond/2)
		}
		for _, job := range jobs {
			group.Go(func() { w.end(context.WithoutCancel(ctx), job) })
		}
		group.Wait()
	}
}

// end tells the outcome until it is answered, for as long as the lease may last.
func (w *loopWorker) end(ctx context.Context, job api.ClaimedJob) {
	ctx, cancel := context.WithTimeout(ctx, stack.Patience(10*time.Second))
	defer cancel()
	for ctx.Err() == nil {
		err := w.outcome(ctx, job)
		if status := client.Status(err); err == nil || (status >= 400 && status <= 499) {
			return
		}
		pace(ctx, 50*time.Millisecond)
	}
}

// outcome is the same for the same attempt: most complete, some go another way.
func (w *loopWorker) outcome(ctx context.Context, job api.ClaimedJob) error {
	soon := int64(20)
	choice := fnv.New32a()
	fmt.Fprint(choice, job.ID, job.Epoch)
	var err error
	switch n := choice.Sum32() % 100; {
	case w.plan.Waits && job.Type == "load" && len(job.Signals) < 2:
		_, err = w.client.ReportWait(ctx, job.ID, api.WaitRequest{
			LeaseToken: job.LeaseToken, For: []string{"a", "b"}, Mode: api.WaitAll, TimeoutMS: new(time.Hour.Milliseconds()), Checkpoint: json.RawMessage(`"asked"`),
		})
	case n < 4:
		_, err = w.client.Fail(ctx, job.ID, api.FailRequest{
			LeaseToken: job.LeaseToken, Used: w.plan.Used, RetryAfterMS: &soon, Error: &api.JobError{Type: "chosen", Message: "this attempt is meant to fail"},
		})
	case n < 7:
		_, err = w.client.Snooze(ctx, job.ID, api.SnoozeRequest{LeaseToken: job.LeaseToken, Used: w.plan.Used, DelayMS: &soon})
	case n < 10:
		_, err = w.client.Release(ctx, job.ID, api.ReleaseRequest{LeaseToken: job.LeaseToken, Used: w.plan.Used})
	default:
		_, err = w.client.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: job.Payload, Used: w.plan.Used, Submit: w.children(job)})
	}
	return err
}

// children are those of a job of the load: they name it, and the attempt.
func (w *loopWorker) children(job api.ClaimedJob) []api.SubmitRequest {
	if job.Type != "load" || w.plan.Children == 0 {
		return nil
	}
	payload, _ := json.Marshal(map[string]any{"parent": job.ID, "epoch": job.Epoch})
	return slices.Repeat([]api.SubmitRequest{{Type: "child", Queue: w.plan.Queue, Payload: payload}}, w.plan.Children)
}

// hold claims Max jobs, says so on standard output, and ends them when somebody who
// has stopped this process lets it go on.
func (w *loopWorker) hold(ctx context.Context) error {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	var jobs []api.ClaimedJob
	for len(jobs) < w.plan.Max {
		jobs = append(jobs, w.claim(ctx, w.plan.Max-len(jobs))...)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	held := make([]string, len(jobs))
	leases := make([]api.Lease, len(jobs))
	for i, job := range jobs {
		held[i], leases[i] = job.ID, api.Lease{JobID: job.ID, LeaseToken: job.LeaseToken}
	}
	line, err := json.Marshal(held)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	select {
	case <-goesOn:
	case <-ctx.Done():
	}
	_, _ = w.client.Heartbeat(ctx, w.id, leases) // what it says is noted
	for _, job := range jobs {
		_, _ = w.client.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: json.RawMessage(`"late"`)}) // likewise
	}
	return nil
}

// sdk runs package worker, whose handlers take HoldMS unless they are told to stop.
func (w *loopWorker) sdk(ctx context.Context) error {
	runner, err := worker.New(worker.Options{
		Client: w.client, WorkerID: w.id, Queues: []string{w.plan.Queue}, Concurrency: max(w.plan.Max, 1), Wait: time.Second, Grace: time.Second,
	})
	if err != nil {
		return err
	}
	worker.Handle(runner, "load", func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
		fmt.Println(job.ID)
		select {
		case <-time.After(time.Duration(w.plan.HoldMS) * time.Millisecond):
			return job.Raw, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	return runner.Run(ctx)
}
