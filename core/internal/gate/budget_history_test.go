package gate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What PostgreSQL saw of budgets: each attempt with what it reserved, and each settlement with its time before the commit.
const budgetHistorySQL = `
CREATE TABLE starts (at timestamptz, reserved bigint);
CREATE TABLE settled (at timestamptz, started_at timestamptz, reserved bigint, used bigint);
CREATE FUNCTION note_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO starts VALUES (NEW.started_at, (NEW.costs ->> 'tokens')::bigint);
  RETURN NULL;
END $$;
CREATE TRIGGER starts AFTER UPDATE ON jobs FOR EACH ROW WHEN (NEW.state = 'running' AND OLD.state = 'queued') EXECUTE FUNCTION note_start();
CREATE FUNCTION note_settled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO settled VALUES (clock_timestamp(), NEW.started_at, NEW.reserved, NEW.used);
  RETURN NULL;
END $$;
CREATE TRIGGER settled AFTER INSERT ON budget_settlements FOR EACH ROW EXECUTE FUNCTION note_settled();`

const (
	historyHolds = 1000
	historySpan  = 100 * time.Millisecond
)

// submitCosting submits jobs that cost something, of few keys.
func (h *history) submitCosting(core *enginetest.Core) error {
	requests := of(fmt.Sprint("k", rand.IntN(h.keys)), 1+rand.IntN(4), func(r *api.SubmitRequest) {
		r.Costs, r.Priority = api.Amounts{"tokens": 20 + rand.Int64N(130)}, new(rand.IntN(3))
	})
	if rand.IntN(4) == 0 {
		requests[0].DelayMS = new(int64(1 + rand.IntN(50)))
	}
	call := h.Call(requests...)
	call.Batch = len(requests) > 1
	return core.Submit(h.Context(), []submitsCall{call})[0].Err
}

// workCosting claims such jobs, and ends them in each way that there is.
func (h *history) workCosting(core *enginetest.Core) error {
	found, err := core.Claim(h.Context(), claims.Call{Owner: h.Tenant, WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: 1 + rand.IntN(4)})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.claimed += len(found)
	h.mu.Unlock()
	endings := enginetest.Endings(found)
	for i := range endings {
		e := &endings[i]
		if rand.IntN(3) > 0 { // mostly less than it had reserved
			e.Used = api.Amounts{"tokens": rand.Int64N(100)}
		}
		switch rand.IntN(12) {
		case 0:
			e.Kind, e.Error, e.RetryAfter = api.KindFail, &api.JobError{Type: "E"}, new(10*time.Millisecond)
		case 1:
			e.Kind, e.Error, e.Permanent = api.KindFail, &api.JobError{Type: "E"}, true
		case 2:
			e.Kind, e.Delay, e.Throttle = api.KindSnooze, 10*time.Millisecond, map[string]api.Throttle{"tokens": {RetryAfterMS: 1 + rand.Int64N(20)}}
		case 3:
			e.Kind = api.KindRelease
		case 4: // it used more than it had reserved
			e.Used = api.Amounts{"tokens": 200 + rand.Int64N(100)}
		case 5: // its worker is lost
			if err := h.expire(e.Lease.Job); err != nil {
				return err
			}
		}
	}
	for _, ended := range h.Store.Jobs.End(h.Context(), endings) {
		if ended.Err != nil && !isLost(ended.Err) {
			return ended.Err
		}
	}
	return nil
}

// loseAll ends all leases that are left.
func (h *history) loseAll() {
	h.Helper()
	for range 100 {
		h.Exec(`UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE state = 'running'`)
		reaped, err := h.Store.Jobs.Reap(h.Context(), time.Now().Add(-time.Hour), 1000, celltest.Half)
		if err == nil && len(reaped) == 0 {
			return
		}
	}
	h.Fatal("leases are left")
}

// In no time of the budget is more reserved and used together than it holds, with two cores, settlements of all kinds, lost leases
// and killed sessions; and when all is quiet, its usage is the sum of what was reported.
func TestABudgetIsExact(t *testing.T) {
	t.Parallel()
	h := newHistory(t, nil)
	h.Exec(budgetHistorySQL)
	h.budget("tokens", api.BudgetRequest{Amount: 10 * historyHolds, PerMS: new(int64(1000)), Burst: new(int64(historyHolds))})
	kills := 0
	var all sync.WaitGroup
	failed := make(chan error, 100)
	again := func(every time.Duration, what func() error) {
		all.Go(func() {
			pace := time.NewTicker(every)
			defer pace.Stop()
			for ; h.stop.Err() == nil; <-pace.C {
				if err := what(); err != nil && !killed(err) {
					failed <- err
					return
				}
			}
		})
	}
	for _, core := range h.cores {
		again(3*time.Millisecond, func() error { return h.submitCosting(core) })
		again(time.Millisecond, func() error { return h.workCosting(core) })
		again(time.Millisecond, func() error { return h.workCosting(core) })
		again(time.Millisecond, func() error { return h.sweep(core) })
	}
	killer := celltest.Connect(t, h.URL)
	again(300*time.Millisecond, func() error { kills++; return h.killSessions(killer) })
	all.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	h.loseAll()
	starts := collect[struct {
		At       time.Time
		Reserved int64
	}](h, `SELECT at, reserved FROM starts ORDER BY at`)
	settled := collect[struct {
		At, StartedAt  time.Time
		Reserved, Used int64
	}](h, `SELECT at, started_at, reserved, used FROM settled ORDER BY at`)
	most := int64(0)
	for i := range starts {
		at := starts[i].At
		sum := int64(0)
		for _, one := range starts {
			if one.At.After(at.Add(-historySpan)) && !one.At.After(at) {
				sum += one.Reserved
			}
		}
		for _, one := range settled { // it may have been seen by the claim
			if one.StartedAt.After(at.Add(-historySpan)) && !one.StartedAt.After(at) && !one.At.After(at) {
				sum -= max(one.Reserved-one.Used, 0)
			}
		}
		if most = max(most, sum); sum > historyHolds {
			t.Fatalf("%d were reserved and used within %v", sum, historySpan)
		}
	}
	usage, err := h.Store.Budgets.Usage(t.Context(), h.Tenant, "tokens", "2000-01-01", "2100-01-01")
	if err != nil {
		t.Fatal(err)
	}
	var got, want api.BudgetUsage
	for _, day := range usage.Days {
		got.Reserved, got.Used, got.Overdrawn = got.Reserved+day.Reserved, got.Used+day.Used, got.Overdrawn+day.Overdrawn
	}
	for _, one := range collect[struct{ Reserved, Used int64 }](h, `SELECT reserved, used FROM settled`) {
		want.Reserved, want.Used, want.Overdrawn = want.Reserved+one.Reserved, want.Used+one.Used, want.Overdrawn+max(one.Used-one.Reserved, 0)
	}
	if got != want {
		t.Errorf("the usage is %+v, of what was reported it is %+v", got, want)
	}
	if len(starts) < 50 || len(settled) < 50 {
		t.Errorf("%d starts, %d settlements", len(starts), len(settled))
	}
	t.Logf("%d starts, %d settlements, %d of %d used at most, %d times sessions were killed", len(starts), len(settled), most, historyHolds, kills)
}

func collect[T any](h *history, sql string) []T {
	h.Helper()
	rows, err := h.Direct.Query(h.Context(), sql)
	if err != nil {
		h.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		h.Fatal(err)
	}
	return slices.Clip(found)
}
