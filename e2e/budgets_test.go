package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	sdk "github.com/forgequeue/forgequeue/shared/worker"
)

// A budget by the public API, with a worker of the Go client: costs of jobs, of a type and of a queue, what waits and why, what was
// used, a refusal of the provider, and the usage.
func TestBudget(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	c := cluster.Client(t, cluster.NewTenant(t, "budgeted").Key)
	ctx := t.Context()
	if _, err := c.PutBudget(ctx, "openai", api.BudgetRequest{Unit: "tokens", Amount: 1000, PerMS: new(int64(60_000))}); err != nil {
		t.Fatal(err)
	}
	refused := func(costs api.Amounts, code problem.Code, field string) {
		t.Helper()
		_, err := c.Submit(ctx, api.SubmitRequest{Type: "answer", Costs: costs})
		if p, ok := problem.From(err); !ok || p.Status != http.StatusBadRequest || p.Code != code || len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%v: %v", costs, err)
		}
	}
	refused(api.Amounts{"openai": 1001}, problem.CostAboveBudget, "costs.openai")
	refused(api.Amounts{"open": 1}, problem.InvalidRequest, "costs.open")
	if _, err := c.PutQueue(ctx, api.DefaultQueue, api.QueueRequest{Costs: api.Amounts{"openai": 600}}); err != nil {
		t.Fatal(err)
	}
	first := stack.Submit(t, c, api.SubmitRequest{Type: "answer"}) // by its queue
	second := stack.Submit(t, c, api.SubmitRequest{Type: "answer", Costs: api.Amounts{"openai": 500}})
	free := stack.Submit(t, c, api.SubmitRequest{Type: "answer", Costs: api.Amounts{}})
	var why api.Explanation
	stack.Eventually(t, time.Minute, "the second waits for the budget", func() bool {
		var err error
		if why, err = c.Explain(ctx, second); err != nil {
			t.Fatal(err)
		}
		return len(why.Because) > 0 && why.Because[len(why.Because)-1].Code == api.WhyBudget && strings.Contains(why.Because[len(why.Because)-1].Detail, "openai")
	})

	var throttles atomic.Int32
	w, err := sdk.New(sdk.Options{Client: c, Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan struct{})
	sdk.Handle(w, "answer", func(ctx context.Context, job *sdk.Job[any]) (any, error) {
		switch job.ID {
		case first:
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			job.Used("openai", 200)
		case second:
			if throttles.Add(1) == 1 {
				return nil, sdk.Throttled(errors.New("429"), "openai", 300*time.Millisecond)
			}
			job.Used("openai", 700)
		}
		return nil, nil
	})
	stopped := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { stopped <- w.Run(running) }()
	stack.Eventually(t, time.Minute, "the first runs", func() bool { return stack.Get(t, c, first).State == api.StateRunning })
	if got, err := c.Budget(ctx, "openai", ""); err != nil || got.Reserved != 600 || *got.Available != 400 {
		t.Errorf("while the first runs: %+v, %v", got, err)
	}
	close(goOn)
	for _, id := range []string{first, second, free} {
		stack.Eventually(t, time.Minute, id+" completes", func() bool { return stack.Get(t, c, id).State == api.StateCompleted })
	}
	stop()
	<-stopped
	got, err := c.Budget(ctx, "openai", "")
	if err != nil || *got.Available != 100 || got.Reserved != 0 || got.Waiting != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if job := stack.Get(t, c, second); job.Attempt != 1 || throttles.Load() != 2 {
		t.Errorf("attempt %d, started %d times: a refusal used an attempt", job.Attempt, throttles.Load())
	}
	if _, err := c.BudgetUsage(ctx, "openai", "2000-01-01", ""); client.Status(err) != http.StatusBadRequest {
		t.Errorf("too many days: %v", err)
	}
	usage, err := c.BudgetUsage(ctx, "openai", time.Now().UTC().AddDate(0, 0, -2).Format(time.DateOnly), "")
	if err != nil {
		t.Fatal(err)
	}
	var sum api.BudgetUsage
	for _, day := range usage.Days {
		sum.Reserved, sum.Used, sum.Overdrawn = sum.Reserved+day.Reserved, sum.Used+day.Used, sum.Overdrawn+day.Overdrawn
	}
	if sum != (api.BudgetUsage{Reserved: 1600, Used: 900, Overdrawn: 200}) {
		t.Errorf("the usage is %+v", sum)
	}
	if err := c.DeleteBudget(ctx, "openai"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Budget(ctx, "openai", ""); client.Status(err) != http.StatusNotFound {
		t.Errorf("a deleted budget: %v", err)
	}
}
