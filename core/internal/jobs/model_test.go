package jobs_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The queue against a model of it: random steps by several workers through two
// stores on one database, as two cores would take them. The model knows jobs as a
// map and the rules as DESIGN §2 words them; it predicts every answer, errors
// included, and after each step all rows are compared with it.
//
// Many short lives teach less than fewer long ones, so that a run is a few worlds of
// 100 steps on average. -rapid.checks and -rapid.steps say otherwise.
func TestQueueIsItsModel(t *testing.T) {
	t.Parallel()
	unlessGiven(t, "rapid.checks", strconv.Itoa(celltest.Rounds(4, 12)))
	unlessGiven(t, "rapid.steps", "100")
	unlessGiven(t, "rapid.nofailfile", "true") // the tests write no file into the tree; the seed is logged
	url := celltest.URL(t)
	stores := [2]*cell.Cell{celltest.OpenURL(t, url), celltest.OpenURL(t, url)}
	direct := celltest.Connect(t, url)
	if _, err := direct.Exec(t.Context(), `SET synchronous_commit = off`); err != nil { // of what the test itself does
		t.Fatal(err)
	}
	steps := 0
	defer func() { t.Logf("%d steps", steps) }()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t.Context(), rt, stores, direct)
		defer w.clear()
		defer func() { steps += w.steps }()
		rt.Repeat(w.actions())
		w.check(rt)
		w.checkGets(w.order)
	})
}

// unlessGiven changes the default of a flag.
func unlessGiven(t *testing.T, name, value string) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// world is one case: two tenants with two lanes each, three workers, one of them
// the platform's.
type world struct {
	*rapid.T
	ctx    context.Context
	stores [2]*cell.Cell
	direct *pgx.Conn

	tenants [2]tenant.ID
	lanes   []lanes.Lane
	workers []*modelWorker
	jobs    map[uuid.UUID]*modelJob
	// order is that of the jobs' submits: a draw from a map could not be repeated.
	order []uuid.UUID
	keys  map[modelKey]remembered
	// tick counts the statements that make jobs ready.
	tick  int
	steps int
}

type modelWorker struct {
	id    string
	owner tenant.ID
	// known: it has claimed; dead: it had no heartbeat for long.
	known, dead bool
}

func newWorld(ctx context.Context, t *rapid.T, stores [2]*cell.Cell, direct *pgx.Conn) *world {
	w := &world{T: t, ctx: ctx, stores: stores, direct: direct, jobs: map[uuid.UUID]*modelJob{}, keys: map[modelKey]remembered{}}
	for i := range w.tenants {
		id := uuid.Must(uuid.NewV7())
		if _, err := stores[i].Tenants.Create(ctx, id, api.TenantRequest{Name: "model"}); err != nil {
			t.Fatal(err)
		}
		w.tenants[i] = id
		for _, tags := range [][]string{nil, {"gpu"}} {
			made, err := stores[1-i].Lanes.Ensure(ctx, id, []lanes.Ask{{Key: lanes.NewKey(id, "default", "test", tags)}})
			if err != nil {
				t.Fatal(err)
			}
			w.lanes = append(w.lanes, made[0].Lane)
		}
	}
	w.workers = []*modelWorker{{id: "w1", owner: w.tenants[0]}, {id: "w2", owner: w.tenants[1]}, {id: "p", owner: tenant.Platform}}
	return w
}

// clear leaves nothing to the next world: reapers and their like see all tenants.
func (w *world) clear() {
	for _, table := range []string{"jobs", "finished_jobs", "dead_letters", "attempts", "idempotency_keys", "workers", "usage_log", "usage_credits", "usage_counts", "job_signals", "job_waits"} {
		if _, err := w.direct.Exec(w.ctx, `DELETE FROM `+table); err != nil {
			w.Error(err)
		}
	}
}

// actions are the steps, each with its share: steps with running jobs come more
// often than what ends them, so that they live through much.
func (w *world) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){"": w.check}
	for _, step := range []struct {
		share int
		name  string
		do    func(*rapid.T)
	}{
		{2, "submit", w.submit},
		{1, "submit keyed", w.submitKeyed},
		{6, "claim", w.claim},
		{1, "heartbeat", w.heartbeat},
		{1, "complete", w.endOne(api.KindComplete)},
		{2, "fail", w.endOne(api.KindFail)},
		{1, "snooze", w.endOne(api.KindSnooze)},
		{1, "release", w.endOne(api.KindRelease)},
		{2, "wait", w.endOne(api.KindWait)},
		{2, "signal", w.signal},
		{1, "end stale", w.endStale},
		{1, "end again", w.endAgain},
		{1, "end many", w.endMany},
		{1, "give back", w.giveBack},
		{3, "expire", w.expire},
		{2, "reap", w.reap},
		{2, "come due", w.comeDue},
		{2, "promote", w.promote},
		{1, "run late", w.runLate},
		{1, "expire deadlines", w.expireDeadlines},
		{1, "worker dies", w.workerDies},
		{1, "reap dead", w.reapDead},
		{1, "cancel", w.cancel},
		{1, "cancel running", w.cancelRunning},
		{2, "redrive", w.redrive},
		{1, "discard", w.discard},
	} {
		for i := range step.share {
			actions[fmt.Sprint(step.name, " ", i)] = step.do
		}
	}
	return actions
}

// ---- draws

func (w *world) store() *cell.Cell { return w.stores[rapid.IntRange(0, 1).Draw(w.T, "core")] }

// some gives up to most of the jobs that match, in random order; the step is
// skipped when none does.
func (w *world) some(t *rapid.T, most int, match func(*modelJob) bool) []*modelJob {
	var found []*modelJob
	for _, id := range w.order {
		if match(w.jobs[id]) {
			found = append(found, w.jobs[id])
		}
	}
	if len(found) == 0 {
		t.Skip("no such job")
	}
	n := rapid.IntRange(1, min(most, len(found))).Draw(t, "n")
	for i := range n { // the ids are new in each run: what is drawn is their place
		k := rapid.IntRange(i, len(found)-1).Draw(t, "job")
		found[i], found[k] = found[k], found[i]
	}
	return found[:n]
}

func (w *world) one(t *rapid.T, match func(*modelJob) bool) *modelJob { return w.some(t, 1, match)[0] }

// change changes one row with SQL, without the store.
func (w *world) change(j *modelJob, sql string) {
	tag, err := w.direct.Exec(w.ctx, sql, j.id)
	if err != nil || tag.RowsAffected() != 1 {
		w.Fatalf("%s: %d rows, %v", sql, tag.RowsAffected(), err)
	}
	j.changed = true
}

func is(states ...string) func(*modelJob) bool {
	return func(j *modelJob) bool { return slices.Contains(states, j.state) }
}
