package gate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

const minute = int64(60_000)

func costing(amount int64) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.Costs = api.Amounts{"tokens": amount} }
}

func using(amount int64) func(*jobs.Ending) {
	return func(e *jobs.Ending) { e.Used = api.Amounts{"tokens": amount} }
}

func (f *fixture) budget(name string, request api.BudgetRequest) {
	f.Helper()
	request.Unit = "tokens"
	if err := f.Store.Budgets.Put(f.Context(), f.Tenant, name, request); err != nil {
		f.Fatal(err)
	}
	f.pass()
}

func newBudgetFixture(t *testing.T, amount int64) *fixture {
	t.Helper()
	f := newFixture(t, nil)
	f.budget("tokens", api.BudgetRequest{Amount: amount, PerMS: new(minute)})
	return f
}

// submit stores jobs, and lets them pass.
func (f *fixture) submit(requests ...api.SubmitRequest) []uuid.UUID {
	f.Helper()
	ids := f.batch(f.D, requests...)
	f.pass()
	return ids
}

// wants says what is available, reserved and waits.
func (f *fixture) wants(available, reserved, waiting int64) {
	f.Helper()
	got, err := f.Store.Budgets.Get(f.Context(), f.Tenant, "tokens", new(""))
	if err != nil {
		f.Fatal(err)
	}
	if *got.Available != available || got.Reserved != reserved || got.Waiting != waiting {
		f.Errorf("%d available, %d reserved, %d wait; expected %d, %d, %d", *got.Available, got.Reserved, got.Waiting, available, reserved, waiting)
	}
}

func ids(found []claim.Job) []uuid.UUID {
	made := make([]uuid.UUID, len(found))
	for i := range found {
		made[i] = found[i].ID
	}
	return made
}

// Attempts reserve what they may use when they start, and no more than the budget has starts.
func TestAClaimReserves(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	accepted := f.submit(of("a", 5, costing(40))...)
	f.wants(100, 0, 3)
	started := f.take(10)
	if !slices.Equal(ids(started), accepted[:2]) {
		t.Fatalf("%d started", len(started))
	}
	f.pass()
	f.wants(20, 80, 3)
	if more := f.take(10); len(more) != 0 {
		t.Errorf("%d started above the budget", len(more))
	}
	if got := f.Get(accepted[2]); got.State != api.StateQueued || got.Costs["tokens"] != 40 {
		t.Errorf("%+v", got)
	}
	// what it has not used is free at once
	f.end(started[:1], using(10))
	f.wants(50, 40, 2)
	next := f.take(10)
	if !slices.Equal(ids(next), accepted[2:3]) {
		t.Fatalf("%d started after a settlement", len(next))
	}
	// without a report it has used what it reserved
	f.end(started[1:])
	f.wants(10, 40, 2)
	// and what was used above that is owed
	f.end(next, using(100))
	f.wants(-50, 0, 2)
	if got, err := f.Store.Budgets.Get(t.Context(), f.Tenant, "tokens", new("ada")); err != nil || *got.Available != -50 {
		t.Errorf("of a subject that it does not have: %+v, %v", got, err)
	}
	usage, err := f.Store.Budgets.Usage(t.Context(), f.Tenant, "tokens", "2000-01-01", "2100-01-01")
	if err != nil || len(usage.Days) != 1 || usage.Days[0].Reserved != 120 || usage.Days[0].Used != 150 || usage.Days[0].Overdrawn != 60 {
		t.Errorf("%+v, %v", usage, err)
	}
}

// A lost lease, a failed attempt and a cancelled one have used what they reserved; a released one nothing.
func TestHowAttemptsSettle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change    func(*jobs.Ending)
		available int64
	}{
		"failed":   {func(e *jobs.Ending) { e.Kind, e.Error, e.Permanent = api.KindFail, &api.JobError{Type: "E"}, true }, 60},
		"snoozed":  {func(e *jobs.Ending) { e.Kind, e.Delay = api.KindSnooze, time.Hour }, 60},
		"released": {func(e *jobs.Ending) { e.Kind = api.KindRelease }, 100},
		"throttled": {func(e *jobs.Ending) {
			e.Kind, e.Error, e.Throttle = api.KindFail, &api.JobError{Type: "E"}, map[string]api.Throttle{"tokens": {RetryAfterMS: minute}}
		}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newBudgetFixture(t, 100)
			f.submit(of("a", 1, costing(40))...)
			f.end(f.take(1), c.change)
			f.wants(c.available, 0, 0)
		})
	}
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		f := newBudgetFixture(t, 100)
		f.submit(of("a", 1, costing(40))...)
		found := f.take(1)
		f.Exec(`UPDATE jobs SET lease_expires_at = now() - interval '1 minute' WHERE id = $1`, found[0].ID)
		if _, err := f.Store.Jobs.Reap(t.Context(), time.Now().Add(-time.Hour), 10, func() float64 { return 0 }); err != nil {
			t.Fatal(err)
		}
		f.pass()
		f.wants(60, 0, 0)
		if again := f.take(1); len(again) != 1 {
			t.Error("the next attempt has no budget")
		}
		f.pass()
		f.wants(20, 40, 0)
	})
}

// A budget that is closed starts nothing until its time, and jobs that had passed go back without using an attempt.
func TestAClosedBudgetStartsNothing(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	accepted := f.submit(of("a", 3, costing(10))...)
	first := f.take(1)
	f.end(first, func(e *jobs.Ending) {
		e.Kind, e.Delay, e.Throttle = api.KindSnooze, time.Hour, map[string]api.Throttle{"tokens": {RetryAfterMS: 500}}
	})
	if started := f.take(3); len(started) != 0 {
		t.Fatalf("%d started while the budget was closed", len(started))
	}
	f.pass()
	f.wants(100, 0, 2)
	if got := f.Get(accepted[1]); got.Attempt != 0 || got.State != api.StateQueued {
		t.Errorf("%+v", got)
	}
	var started []uuid.UUID
	celltest.Eventually(t, "they start when it is open again", func() bool {
		f.pass()
		started = append(started, ids(f.take(3))...)
		return len(started) == 2
	})
	if !slices.Equal(started, accepted[1:]) {
		t.Errorf("%v started, not %v", started, accepted[1:])
	}
}

// What was used is free again after the time of the budget, and what waits passes then.
func TestABudgetIsThereAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.budget("tokens", api.BudgetRequest{Amount: 10, PerMS: new(int64(1000))})
	f.submit(of("a", 2, costing(10))...)
	f.end(f.take(2))
	began := time.Now()
	celltest.Eventually(t, "it is there again", func() bool {
		f.pass()
		return len(f.take(1)) == 1
	})
	if waited := time.Since(began); waited < 700*time.Millisecond {
		t.Errorf("the second started after %v", waited)
	}
}

// Keys take turns for a budget, by what their jobs cost, and priorities come first.
func TestKeysTakeTurnsForABudget(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	f.submit(of("first", 1, costing(100))...)
	running := f.take(1)
	f.pass()
	f.submit(of("loud", 20, costing(10))...)
	f.submit(of("quiet", 2, costing(10))...)
	urgent := f.submit(of("loud", 1, costing(10), at(9))...)
	f.end(running, using(60))
	started := f.take(20)
	if len(started) != 4 || started[0].ID != urgent[0] {
		t.Fatalf("%d started", len(started))
	}
	if got := f.keys(started[1:]); !slices.Contains(got, "quiet") {
		t.Errorf("%v started", got)
	}
}

// A job that costs of two budgets starts when both can pay, and holds up nobody else meanwhile.
func TestTwoBudgets(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	f.budget("calls", api.BudgetRequest{Amount: 1, PerMS: new(minute)})
	both := func(r *api.SubmitRequest) { r.Costs = api.Amounts{"tokens": 10, "calls": 1} }
	accepted := f.submit(of("a", 2, both)...)
	others := f.submit(of("b", 2, costing(40))...)
	started := f.take(10)
	if want := []uuid.UUID{accepted[0], others[0], others[1]}; !slices.Equal(sorted(ids(started)), sorted(want)) {
		t.Fatalf("%d started", len(started))
	}
	f.pass()
	f.end(started[:1], func(e *jobs.Ending) { e.Used = api.Amounts{"calls": 0} })
	if next := f.take(10); !slices.Equal(ids(next), accepted[1:]) {
		t.Errorf("%d started", len(next))
	}
}

func sorted(all []uuid.UUID) []uuid.UUID {
	slices.SortFunc(all, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return all
}

// Jobs that are past a budget, and do not start because their queue is paused, do not keep it from others.
func TestAPausedQueueKeepsNoBudget(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	paused := func(r *api.SubmitRequest) { r.Queue = "paused" }
	f.submit(of("a", 10, costing(50), paused)...)
	waits := f.submit(of("b", 1, costing(50))...)
	if started := f.take(1); len(started) != 0 {
		t.Fatal("it does not wait: the test shows nothing")
	}
	celltest.Eventually(t, "it starts beside the other queue's jobs", func() bool {
		f.pass()
		return slices.Equal(ids(f.take(1)), waits)
	})
}

// An account that has not been used for long is forgotten, and its sums stay.
func TestOldAccountsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.budget("tokens", api.BudgetRequest{Amount: 10, PerMS: new(minute), By: new(api.BudgetByKey)})
	for range 2 {
		f.submit(of("old", 1, costing(4))...)
		f.end(f.take(1), using(3))
	}
	f.Exec(`UPDATE budget_log SET since = now() - interval '39 days', day = day - 39`)
	forget := func(accounts int) {
		t.Helper()
		if err := f.Store.Budgets.Forget(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		if n := f.Count(`SELECT count(DISTINCT subject) FROM budget_log`); n != accounts {
			t.Errorf("%d accounts", n)
		}
		usage, err := f.Store.Budgets.Usage(t.Context(), f.Tenant, "tokens", "2000-01-01", "2100-01-01")
		reserved, used := int64(0), int64(0)
		for _, day := range usage.Days {
			reserved, used = reserved+day.Reserved, used+day.Used
		}
		if err != nil || reserved != 8 || used != 6 {
			t.Errorf("%+v, %v", usage, err)
		}
	}
	forget(1)
	f.Exec(`UPDATE budget_log SET since = now() - interval '41 days'`)
	forget(1) // a settlement is not in it
	f.Exec(`UPDATE budget_settlements SET at = now() - interval '1 day'`)
	if err := f.Store.Budgets.Fold(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	forget(1) // it has just been written
	f.Exec(`UPDATE budget_log SET since = now() - interval '41 days', running = 0`)
	forget(0)
	f.Exec(`INSERT INTO budget_days SELECT * FROM budget_days`)
	f.Exec(`UPDATE budget_days SET day = day - 3, reserved = 2, used = 1, overdrawn = 0`)
	if err := f.Store.Budgets.Forget(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if days, sums := f.Count(`SELECT count(*) FROM budget_days`), f.Count(`SELECT count(DISTINCT day) FROM budget_days`); days != sums {
		t.Errorf("%d rows of %d days", days, sums)
	}
}

// Each user has an amount of its own; jobs without user share one.
func TestABudgetByUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.budget("tokens", api.BudgetRequest{Amount: 10, PerMS: new(minute), By: new(api.BudgetByUser)})
	by := func(user string) func(*api.SubmitRequest) {
		return func(r *api.SubmitRequest) { r.Key, r.User = nil, &user }
	}
	for _, user := range []string{"ada", "bob"} {
		f.submit(of("", 3, costing(10), by(user))...)
	}
	if started := f.take(10); len(started) != 2 {
		t.Fatalf("%d started", len(started))
	}
	got, err := f.Store.Budgets.Get(t.Context(), f.Tenant, "tokens", new("ada"))
	if err != nil || *got.Available != 0 || got.Reserved != 20 || got.Waiting != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = f.Store.Budgets.Get(t.Context(), f.Tenant, "tokens", nil); err != nil || got.Available != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Jobs with costs and neither key nor user come and go like others, and show no key.
func TestCostsWithoutAKey(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	f.Put(api.DefaultQueue, api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: new(int64(1))}})
	without := func(r *api.SubmitRequest) { r.Key = nil }
	accepted := f.submit(of("", 3, costing(50), without)...)
	started := f.take(10)
	if !slices.Equal(ids(started), accepted[:2]) {
		t.Fatalf("%d started: a limit by key is not theirs", len(started))
	}
	if got := f.Get(accepted[2]); got.Key != nil {
		t.Errorf("%+v", got)
	}
}

// A budget that is deleted holds up nobody.
func TestADeletedBudgetHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	f.submit(of("a", 4, costing(50))...)
	running := f.take(4)
	if err := f.Store.Budgets.Delete(t.Context(), f.Tenant, "tokens"); err != nil {
		t.Fatal(err)
	}
	f.pass()
	if started := f.take(4); len(running) != 2 || len(started) != 2 {
		t.Errorf("%d and %d started", len(running), len(started))
	}
	f.end(running, using(3))
	if err := f.Store.Budgets.Fold(t.Context(), 100); err != nil {
		t.Error(err)
	}
}

// A job that waits for a budget keeps its place in the order of its key, and a cancelled one makes room.
func TestOrderAndBudget(t *testing.T) {
	t.Parallel()
	f := newBudgetFixture(t, 100)
	f.Put(api.DefaultQueue, api.QueueRequest{Keys: &api.KeySettingsRequest{Order: new(api.KeyOrderFIFO)}})
	f.submit(of("other", 1, costing(100))...)
	running := f.take(1)
	f.pass()
	first := f.submit(of("a", 1, costing(50))...)
	second := f.submit(of("a", 1)...)
	if started := f.take(10); len(started) != 0 {
		t.Fatalf("%d started before the first of the key", len(started))
	}
	f.end(running, using(0))
	if started := f.take(10); !slices.Equal(ids(started), first) {
		t.Fatalf("%d started", len(started))
	} else {
		f.end(started)
	}
	if started := f.take(10); !slices.Equal(ids(started), second) {
		t.Errorf("%d started", len(started))
	}
}
