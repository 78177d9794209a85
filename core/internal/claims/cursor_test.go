package claims_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// cursorRun is several cores on one database that lose hints, while jobs appear in
// every way in which a cursor can pass them.
type cursorRun struct {
	*fixture
	random *rand.Rand
	cores  []*enginetest.Core
	lanes  []lanes.Lane
	few    chan struct{}

	mu       sync.Mutex
	appeared map[uuid.UUID]time.Time // when a job was committed, at the latest
	how      map[uuid.UUID]string
	claimed  map[uuid.UUID]time.Time
}

// No job is passed by for good: whatever commits late, rolls back, lies before a
// cursor because a clock was set back, or belongs to a lane that another core created,
// some claim finds it, within the scan's second and one more. (The bound here is a
// hang guard.)
func TestWhatACursorPassedIsFound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(celltest.Rounds(1, 3)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := newCursorRun(t, seed)
			r.play(6 * time.Second)
			r.settle(30 * time.Second)
		})
	}
}

func newCursorRun(t *testing.T, seed uint64) *cursorRun {
	t.Helper()
	r := &cursorRun{
		fixture: newFixture(t), random: rand.New(rand.NewPCG(seed, 1)),
		few: make(chan struct{}, 4), appeared: map[uuid.UUID]time.Time{}, how: map[uuid.UUID]string{}, claimed: map[uuid.UUID]time.Time{},
	}
	for range 3 {
		store := celltest.OpenURL(t, r.URL)
		var d *enginetest.Core
		d = r.NewCoreWith(engine.Options{Store: store, Hints: publish.Hints{Ready: func(ready []jobs.Waiting) { r.publishHalf(d, ready) }}})
		r.cores = append(r.cores, d)
	}
	for _, request := range []api.SubmitRequest{enginetest.In("a"), enginetest.In("b"), {Type: "test", Queue: "a", Tags: []string{"x"}}} {
		f := r.fixture
		f.D = r.cores[0]
		f.Lane(request)
	}
	lanes, err := r.Store.Lanes.After(t.Context(), 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lane := range lanes {
		r.lanes = append(r.lanes, lane.Lane)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	t.Cleanup(func() { stop(); group.Wait() })
	for i, d := range r.cores {
		group.Go(func() { _ = d.Run(ctx) })
		for n := range 2 {
			group.Go(func() { r.work(ctx, d, fmt.Sprintf("w%d-%d", i, n)) })
		}
	}
	return r
}

// publishHalf loses half of the hints.
func (r *cursorRun) publishHalf(from *enginetest.Core, ready []jobs.Waiting) {
	for _, other := range r.cores {
		if other != from && rand.IntN(2) == 0 {
			go other.WakeHere(ready)
		}
	}
}

func (r *cursorRun) work(ctx context.Context, d *enginetest.Core, id string) {
	for ctx.Err() == nil {
		found, err := d.Claim(ctx, claims.Call{
			Owner: tenant.Platform, WorkerID: id, Queues: []string{"a", "b", "new"}, Tags: &[]string{"x"}, Max: 3, Wait: time.Second,
		})
		if err != nil && ctx.Err() == nil {
			r.Errorf("claim: %v", err)
		}
		endings := make([]jobs.Ending, len(found))
		r.mu.Lock()
		for i := range found {
			if _, twice := r.claimed[found[i].ID]; twice {
				r.Errorf("job %v (%s) was claimed twice", found[i].ID, r.how[found[i].ID])
			}
			r.claimed[found[i].ID] = time.Now()
			endings[i] = jobs.Ending{Lease: found[i].Lease(), Kind: api.KindComplete}
		}
		r.mu.Unlock()
		d.End(ctx, endings)
	}
}

// play makes jobs appear for a while, and until they have in three ways: a busy machine does little in that time.
func (r *cursorRun) play(howLong time.Duration) {
	var group sync.WaitGroup
	for end := time.Now().Add(howLong); time.Now().Before(end) || len(r.ways()) < 3; {
		lane := r.lanes[r.random.IntN(len(r.lanes))]
		priority, hold := r.random.IntN(10), time.Duration(r.random.IntN(1500))*time.Millisecond
		switch r.random.IntN(10) {
		case 0, 1, 2, 3, 4:
			r.submitSome(1 + r.random.IntN(5))
		case 5, 6:
			group.Go(func() { r.lateCommit(lane, priority, hold) })
		case 7:
			group.Go(func() { r.rolledBack(hold / 3) })
		case 8:
			r.setBack(lane, priority)
		default:
			r.spoil()
		}
		<-time.After(time.Duration(r.random.IntN(30)) * time.Millisecond)
	}
	group.Wait()
}

// ways counts the jobs by how they appeared.
func (r *cursorRun) ways() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for _, how := range r.how {
		counts[how]++
	}
	return counts
}

func (r *cursorRun) note(id uuid.UUID, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.appeared[id], r.how[id] = time.Now(), how
}

// submitSome stores jobs through one of the cores, now and then the first ones of a
// lane that the others do not know.
func (r *cursorRun) submitSome(n int) {
	call := submits.Call{Tenant: r.Tenant, Batch: true}
	for range n {
		priority := r.random.IntN(10)
		request := api.SubmitRequest{Type: "test", Queue: []string{"a", "b", "new"}[r.random.IntN(3)], Priority: &priority}
		call.IDs, call.Jobs = append(call.IDs, uuid.Must(uuid.NewV7())), append(call.Jobs, request)
	}
	if r.random.IntN(5) == 0 {
		call.Tenant = r.NewTenant()
	}
	r.Accepted(r.cores[r.random.IntN(len(r.cores))].Submit(r.Context(), []submits.Call{call})...)
	for _, id := range call.IDs {
		r.note(id, "submitted")
	}
}

// connect gives a connection of few.
func (r *cursorRun) connect() (conn *pgx.Conn, done func()) {
	r.few <- struct{}{}
	conn = celltest.Connect(r, r.URL)
	return conn, func() {
		_ = conn.Close(context.WithoutCancel(r.Context()))
		<-r.few
	}
}

const insertReadySQL = `
INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts,
                  retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, size)
VALUES ($1, $2, $3, $4, 'test', 'queued', $5, '{}', '{}', '{}', 3, 1000, 1000, 0,
        statement_timestamp(), statement_timestamp(), statement_timestamp() - $6::interval, 6)`

// lateCommit stores a job whose ready_at lies before its commit, without a notification.
func (r *cursorRun) lateCommit(lane lanes.Lane, priority int, hold time.Duration) {
	conn, done := r.connect()
	defer done()
	tx, err := conn.Begin(r.Context())
	if err != nil {
		r.Error(err)
		return
	}
	id := uuid.Must(uuid.NewV7())
	if _, err := tx.Exec(r.Context(), insertReadySQL, id, lane.Tenant, lane.ID, lane.Queue, priority, time.Duration(0)); err != nil {
		r.Error(err)
		return
	}
	<-time.After(hold)
	r.note(id, "committed late")
	if err := tx.Commit(r.Context()); err != nil {
		r.Error(err)
	}
}

// rolledBack locks jobs that wait, as the claim of a core does that then dies.
func (r *cursorRun) rolledBack(hold time.Duration) {
	conn, done := r.connect()
	defer done()
	tx, err := conn.Begin(r.Context())
	if err == nil {
		_, err = tx.Exec(r.Context(), `SELECT id FROM jobs WHERE state = 'queued' ORDER BY ready_at DESC LIMIT 5 FOR UPDATE SKIP LOCKED`)
	}
	if err != nil {
		r.Error(err)
		return
	}
	<-time.After(hold)
	if err := tx.Rollback(r.Context()); err != nil {
		r.Error(err)
	}
}

// setBack stores a job as a server does whose clock was set back.
func (r *cursorRun) setBack(lane lanes.Lane, priority int) {
	id := uuid.Must(uuid.NewV7())
	r.note(id, "before every cursor")
	r.Exec(insertReadySQL, id, lane.Tenant, lane.ID, lane.Queue, priority, time.Duration(1+r.random.IntN(3600))*time.Second)
}

// spoil makes one core's cursors plain wrong.
func (r *cursorRun) spoil() {
	r.cores[r.random.IntN(len(r.cores))].SpoilCursors(time.Now().Add(time.Hour))
}

// settle waits until every job was claimed.
func (r *cursorRun) settle(guard time.Duration) {
	r.Helper()
	celltest.EventuallyWithin(r, guard, "every job to be claimed", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.claimed) >= len(r.appeared)
	})
	slowest := map[string]time.Duration{}
	counts := map[string]int{}
	for id, at := range r.appeared {
		how := r.how[id]
		slowest[how] = max(slowest[how], r.claimed[id].Sub(at))
		counts[how]++
	}
	for how, n := range counts {
		if slowest[how] > 10*time.Second { // a hang guard: five times what is promised
			r.Errorf("a job that was %s waited for %v", how, slowest[how])
		}
		r.Logf("%d %s, the slowest claimed after %v", n, how, slowest[how].Round(time.Millisecond))
	}
}
