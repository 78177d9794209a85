package conformance_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// newBudget makes the budget of the case, 1000 in 30 days, and gives its name.
func (x *trial) newBudget() string {
	x.Helper()
	if made := x.putBudget(); made.Available == nil || *made.Available != 1000 {
		x.Fatalf("the budget is %s", raw(x, made))
	}
	return x.queue
}

// putBudget makes the budget of the case or opens it. A job that waited for it may have ended before the answer is made.
func (x *trial) putBudget() api.Budget {
	x.Helper()
	made := must[api.Budget](x, command{Do: "put_budget", Budget: x.queue, Request: json.RawMessage(`{"unit":"tokens","amount":1000,"per_ms":2592000000}`)})
	if made.Name != x.queue || made.Unit != "tokens" || made.ClosedUntil != nil {
		x.Fatalf("the budget is %s", raw(x, made))
	}
	return made
}

// costly is scripted for a job with costs, submitted by the client that is tested.
func (x *trial) costly(costs api.Amounts, deliveries ...[]step) string {
	x.Helper()
	return must[submitted](x, command{Do: "submit", Request: raw(x, api.SubmitRequest{
		Type: "script", Queue: x.queue, Payload: raw(x, script{Deliveries: deliveries}), Costs: costs,
	})}).ID
}

// has waits until so much of a budget is available and reserved.
func (x *trial) has(budget string, available, reserved int64) {
	x.Helper()
	var now api.Budget
	x.Cleanup(func() {
		if x.Failed() {
			x.Logf("the budget was last %s", raw(x, now))
		}
	})
	stack.Eventually(x.T, time.Minute, "the budget is as wanted", func() bool {
		now = must[api.Budget](x, command{Do: "budget", Budget: budget})
		return now.Available != nil && *now.Available == available && now.Reserved == reserved
	})
}

func spends(x *trial) {
	tokens := x.newBudget()
	costs := api.Amounts{tokens: 100}
	use := func(amount float64) step { return step{Do: "used", Budget: tokens, Amount: amount} }
	w := x.work(1)

	job := x.costly(costs, []step{use(30), use(40), {Do: "go"}, {Do: "return"}}) // the later one counts
	if stored := must[api.Job](x, command{Do: "get", Job: job}); stored.Costs[tokens] != 100 || len(stored.Costs) != 1 {
		x.Errorf("the costs are %v", stored.Costs)
	}
	w.started(job, 1)
	x.has(tokens, 900, 100)
	w.goOn(job)
	x.completes(job, "null", 1, 1)
	x.has(tokens, 960, 0)

	x.completes(x.costly(costs,
		[]step{use(5), {Do: "fail", Message: "again", RetryAfterMS: new(int64(0))}},
		[]step{use(6), {Do: "snooze", DelayMS: 1, Message: "later"}},
		[]step{{Do: "return"}}, // says nothing: what was reserved
	), "null", 2, 3)
	x.has(tokens, 849, 0)
	if e := x.dies(x.costly(costs, []step{use(0), {Do: "large"}}), api.ReasonPermanent); e.Type != "result" {
		x.Errorf("of a large result: %+v", e)
	}
	x.has(tokens, 849, 0)
	w.stop()

	hasty := x.begin(x.driver, command{Concurrency: 1, GraceMS: 1})
	released := x.costly(costs, []step{use(10), {Do: "ended"}, {Do: "rethrow"}})
	hasty.started(released, 1)
	hasty.stop()
	if job := stack.Get(x.T, x.c, released); job.State != api.StateQueued || job.Attempt != 0 {
		x.Errorf("after the stop the job is %s at attempt %d", job.State, job.Attempt)
	}
	if _, err := x.c.Cancel(x.Context(), released); err != nil {
		x.Fatal(err)
	}
	x.has(tokens, 839, 0)
	x.accounts(tokens)
	x.work(1)
	if x.subject.name != "Go" { // its Used returns no error
		x.refusesAmounts(use(-1), use(1.5), use(1<<51), step{Do: "used", Budget: "no name", Amount: 1})
	}
	x.front.add(refuse(http.MethodPost, "/complete", 1, http.StatusUnprocessableEntity, problem.InvalidRequest, 0))
	refused := x.scripted([]step{use(9), {Do: "return"}})
	x.dies(refused, api.ReasonPermanent)
	var sent api.FailRequest
	if in := x.front.requests(http.MethodPost, refused+"/fail"); len(in) != 1 || json.Unmarshal(in[0].body, &sent) != nil || sent.Used[tokens] != 9 {
		x.Errorf("the failure in place of a refused result: %d requests, used %v", len(in), sent.Used)
	}
}

// refusesAmounts checks that the attempt fails where the handler says one of these.
func (x *trial) refusesAmounts(all ...step) {
	x.Helper()
	for _, wrong := range all {
		failed := x.scripted([]step{wrong})
		stack.Eventually(x.T, time.Minute, "the attempt fails", func() bool { return stack.Get(x.T, x.c, failed).LastError != nil })
		if e := stack.Get(x.T, x.c, failed).LastError; !strings.Contains(e.Message, "whole number from 0 to 2") && !strings.Contains(e.Message, "cannot be the name of a budget") {
			x.Errorf("the error is %+v", e)
		}
		if _, err := x.c.Cancel(x.Context(), failed); err != nil {
			x.Fatal(err)
		}
	}
}

// accounts checks the usage and the list, and deletes the budget.
func (x *trial) accounts(tokens string) {
	x.Helper()
	day := func(days int) string { return time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }
	usages := must[api.BudgetUsages](x, command{Do: "budget_usage", Budget: tokens, From: day(-1), To: day(0)})
	var all api.BudgetUsage
	for _, one := range usages.Days {
		all.Reserved, all.Used = all.Reserved+one.Reserved, all.Used+one.Used
	}
	if all.Reserved != 600 || all.Used != 161 || usages.Unit != "tokens" {
		x.Errorf("the usage is %+v", usages)
	}
	if page := must[listed](x, command{Do: "budgets", Size: 200}); !slices.Contains(page.IDs, tokens) {
		x.Errorf("the budgets are %v", page.IDs)
	}
	must[json.RawMessage](x, command{Do: "delete_budget", Budget: tokens})
	if failed := fails(x, command{Do: "budget", Budget: tokens}); failed.Code != string(problem.NotFound) {
		x.Errorf("a deleted budget: %+v", failed)
	}
	unknown := fails(x, command{Do: "submit", Request: raw(x, api.SubmitRequest{Type: "script", Queue: x.queue, Costs: api.Amounts{tokens: 1}})})
	if unknown.Status != http.StatusBadRequest {
		x.Errorf("costs of a budget that there is not: %+v", unknown)
	}
}

func throttles(x *trial) {
	tokens := x.newBudget()
	costs := api.Amounts{tokens: 10}
	x.work(1)
	job := x.costly(costs, []step{{Do: "throttled", Budget: tokens, DelayMS: 3_600_000, Message: "429 from the provider"}})
	stack.Eventually(x.T, time.Minute, "the job is put back", func() bool { return stack.Get(x.T, x.c, job).State == api.StateScheduled })
	back := stack.Get(x.T, x.c, job)
	if back.Attempt != 0 || back.LastError == nil || back.LastError.Type != "throttled" || back.LastError.Message != "429 from the provider" {
		x.Errorf("attempt %d, error %+v", back.Attempt, back.LastError)
	}
	x.has(tokens, 1000, 0) // it has used nothing
	closed := must[api.Budget](x, command{Do: "budget", Budget: tokens})
	if closed.ClosedUntil == nil || back.RunAt == nil || closed.ClosedUntil.Sub(back.RunAt.Time).Abs() > time.Minute {
		x.Fatalf("the budget is closed until %v, the job comes back at %v", closed.ClosedUntil, back.RunAt)
	}

	other := x.costly(costs, []step{{Do: "return"}})
	stack.Eventually(x.T, time.Minute, "another job waits for the budget", func() bool {
		return must[api.Budget](x, command{Do: "budget", Budget: tokens}).Waiting == 1
	})
	if waiting := stack.Get(x.T, x.c, other); waiting.State != api.StateQueued || waiting.Epoch != 0 {
		x.Errorf("a job of a closed budget is %s, epoch %d", waiting.State, waiting.Epoch)
	}
	x.completes(x.scripted([]step{{Do: "return"}}), "null", 1, 1) // what costs nothing runs
	x.putBudget()
	x.completes(other, "null", 1, 1)
	x.has(tokens, 990, 0)
	if _, err := x.c.Cancel(x.Context(), job); err != nil {
		x.Fatal(err)
	}
}

// A Retry-After header is seconds or a date; whatever else it is closes the budget for 10 seconds.
func TestThrottledOf(t *testing.T) {
	t.Parallel()
	longest := api.MaxDelay.Milliseconds()
	at := func(zone string) string { return time.Now().UTC().Add(time.Hour).Format(zone) }
	cases := []struct {
		header   any
		low, top int64
	}{
		{nil, 10_000, 10_000},
		{"", 10_000, 10_000},
		{"soon", 10_000, 10_000},
		{"1.5", 10_000, 10_000},
		{"-3", 10_000, 10_000},
		{"17643456000", 10_000, 10_000}, // a moment, not a time
		{"0", 1000, 1000},
		{"1", 1000, 1000},
		{" 120 ", 120_000, 120_000},
		{"999999999", longest, longest},
		{at(http.TimeFormat), 3_000_000, 3_600_000},
		{at("Monday, 02-Jan-06 15:04:05 GMT"), 3_000_000, 3_600_000},
		{at(time.ANSIC), 3_000_000, 3_600_000},
		{"Wed, 21 Oct 2015 07:28:00 GMT", 1000, 1000},
		{"Wed, 21 Oct 2915 07:28:00 GMT", longest, longest},
		{"Wed, 99 Oct 2915 07:28:00 GMT", 10_000, 10_000},
	}
	var headers []any
	for _, one := range cases {
		headers = append(headers, one.header)
	}
	asked, err := json.Marshal(headers)
	if err != nil {
		t.Fatal(err)
	}
	for language, command := range map[string][]string{
		"typescript": {"node", "--input-type=module", "--eval", `
import { pathToFileURL } from 'node:url';
const { Throttled } = await import(pathToFileURL('forgequeue.js').href);
console.log(JSON.stringify(JSON.parse(process.env.HEADERS).map((header) => Throttled.of('tokens', header).delayMs)));
for (const make of [() => new Throttled('', 1), () => new Throttled('tokens', NaN), () => new Throttled('tokens', -1)]) {
  try { make(); process.exit(2); } catch (error) { if (!/cannot be/.test(error.message)) throw error; }
}
if (new Throttled('tokens', Infinity).delayMs !== 366 * 24 * 3600_000 || new Throttled('tokens', 0).delayMs !== 1) process.exit(3);`},
		"python": {"python3", "-c", `
import json, os, sys
sys.path.insert(0, ".")
import forgequeue
print(json.dumps([int(forgequeue.Throttled.of("tokens", header).delay * 1000) for header in json.loads(os.environ["HEADERS"])]))
for budget, delay in (("", 1), ("tokens", float("nan")), ("tokens", -1)):
    try:
        forgequeue.Throttled(budget, delay)
    except forgequeue.ForgeQueueError as error:
        assert "cannot be" in str(error), error
    else:
        sys.exit(2)
assert forgequeue.Throttled("tokens", float("inf")).delay == 366 * 24 * 3600 and forgequeue.Throttled("tokens", 0).delay == 0.001`},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			process := exec.CommandContext(t.Context(), stack.Need(t, command[0]), command[1:]...)
			// A zone of its own shows whether a date is taken as UTC.
			process.Dir, process.Env = packageFolder(t, language), append(os.Environ(), "HEADERS="+string(asked), "TZ=Asia/Tokyo", "PYTHONDONTWRITEBYTECODE=1")
			text, err := process.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			var delays []int64
			if err := json.Unmarshal(text, &delays); err != nil || len(delays) != len(cases) {
				t.Fatalf("%v: %s", err, text)
			}
			for i, one := range cases {
				if delays[i] < one.low || delays[i] > one.top {
					t.Errorf("%v is %d ms, want %d to %d", one.header, delays[i], one.low, one.top)
				}
			}
		})
	}
}
