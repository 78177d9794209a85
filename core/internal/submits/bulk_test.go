package submits_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

func (f *fixture) bulk(request api.BulkRequest) api.Bulk {
	f.Helper()
	if fields := request.Validate(); len(fields) > 0 {
		f.Fatal(fields)
	}
	made, err := f.Store.DeadLetters.CreateBulk(f.Context(), f.Tenant, "", uuid.Must(uuid.NewV7()), &request)
	if err != nil {
		f.Fatal(err)
	}
	return made
}

// run works a bulk action off, and gives it as it is then.
func (f *fixture) run(made api.Bulk) api.Bulk {
	f.Helper()
	for {
		f.Exec(`UPDATE redrives SET next_at = now() WHERE id = $1`, made.ID)
		if _, err := f.D.StepRedrive(f.Context(), deadletter.DueRedrive{ID: uuid.MustParse(made.ID), TenantID: f.Tenant}, 0.5); err != nil {
			f.Fatal(err)
		}
		now, err := f.Store.DeadLetters.GetBulk(f.Context(), f.Tenant, "", uuid.MustParse(made.ID))
		if err != nil {
			f.Fatal(err)
		}
		if now.State != api.RedriveRunning || now.Waiting != nil {
			return now
		}
	}
}

func (f *fixture) did(made api.Bulk) string {
	f.Helper()
	now := f.run(made)
	if now.State != api.RedriveDone {
		f.Errorf("%+v", now)
	}
	return fmt.Sprint(now.Done, " of ", made.Matched, ", refused ", now.Refusals)
}

func (f *fixture) states(queue string) string {
	f.Helper()
	rows, err := f.Direct.Query(f.Context(), `SELECT state || ' ' || priority AS s FROM jobs WHERE queue = $1 ORDER BY created_at, id`, queue)
	if err != nil {
		f.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.Fatal(err)
	}
	return fmt.Sprint(all)
}

// Each action changes what matches, and nothing else.
func TestBulkActions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := func(queue string, more ...func(*api.SubmitRequest)) api.SubmitRequest {
		job := api.SubmitRequest{Type: "test", Queue: queue}
		for _, change := range more {
			change(&job)
		}
		return job
	}
	ada := func(job *api.SubmitRequest) { job.User = new("ada") }
	later := func(job *api.SubmitRequest) { job.DelayMS = new(int64(3_600_000)) }
	f.Submit(in("a", ada), in("a"), in("a", later), in("b", ada))
	first := f.ClaimCall("a")
	first.Max = 1 // of two that are ready
	f.Claim(first)
	filter := api.BulkFilter{Queue: new("a")}
	priority := api.BulkRequest{Action: api.BulkSetPriority, Filter: filter, To: &api.BulkTarget{Priority: new(9)}}
	if matched, err := f.Store.DeadLetters.CountBulk(t.Context(), f.Tenant, "", &priority); err != nil || matched.Matched != 3 {
		t.Errorf("%+v %v", matched, err)
	}
	if matched, err := f.Store.DeadLetters.CountBulk(t.Context(), f.Tenant, "ada", &priority); err != nil || matched.Matched != 1 {
		t.Errorf("of ada: %+v %v", matched, err)
	}
	made := f.bulk(priority)
	f.Submit(in("a")) // later than the request
	if got := f.did(made); got != "2 of 3, refused map[job_started:1]" || f.states("a") != "[running 5 queued 9 scheduled 9 queued 5]" || f.states("b") != "[queued 5]" {
		t.Errorf("priority: %s: %s, %s", got, f.states("a"), f.states("b"))
	}
	if got := f.did(f.bulk(api.BulkRequest{Action: api.BulkRunNow, Filter: filter})); got != "3 of 4, refused map[job_started:1]" || f.states("a") != "[running 5 queued 9 queued 9 queued 5]" {
		t.Errorf("run now: %s: %s", got, f.states("a"))
	}
	if got := f.did(f.bulk(api.BulkRequest{Action: api.BulkDelay, Filter: api.BulkFilter{State: []string{api.StateQueued}}, To: &api.BulkTarget{DelayMS: new(int64(3_600_000))}})); got != "4 of 4, refused map[]" || f.states("a") != "[running 5 scheduled 9 scheduled 9 scheduled 5]" {
		t.Errorf("delay: %s: %s", got, f.states("a"))
	}
	if _, err := f.D.PutQueue(t.Context(), f.Tenant, "c", api.QueueRequest{MaxActive: new(int64(2))}); err != nil {
		t.Fatal(err)
	}
	if got := f.did(f.bulk(api.BulkRequest{Action: api.BulkMove, Filter: api.BulkFilter{State: []string{api.StateScheduled}}, To: &api.BulkTarget{Queue: new("c")}})); got != "2 of 4, refused map[queue_full:2]" || f.states("c") != "[scheduled 9 scheduled 9]" {
		t.Errorf("move: %s: %s", got, f.states("c"))
	}
	if got := f.did(f.bulk(api.BulkRequest{Action: api.BulkCancel, Filter: api.BulkFilter{Queue: new("a")}})); got != "2 of 2, refused map[]" || f.Count(`SELECT count(*) FROM jobs WHERE cancel_requested`) != 1 {
		t.Errorf("cancel: %s: %s", got, f.states("a"))
	}
	if got := f.did(f.bulk(api.BulkRequest{Action: api.BulkRerun, Filter: api.BulkFilter{State: []string{api.StateCancelled}}})); got != "1 of 1, refused map[]" || f.Count(`SELECT count(*) FROM jobs WHERE rerun_of IS NOT NULL`) != 1 {
		t.Errorf("rerun: %s", got)
	}
	if got := f.did(f.bulk(api.BulkRequest{Action: api.BulkDelete, Filter: api.BulkFilter{}})); got != "1 of 1, refused map[]" || f.Count(`SELECT count(*) FROM finished_jobs`) != 0 {
		t.Errorf("delete: %s", got)
	}
	if drifts, err := f.Store.Counts.Verify(t.Context()); err != nil || len(drifts) > 0 {
		t.Errorf("%v %v", drifts, err)
	}
}

// A rerun waits while a cap is full, and submits no job twice.
func TestBulkRerunWaitsForACap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.Submit(plainJobs(5)...)
	f.did(f.bulk(api.BulkRequest{Action: api.BulkCancel, Filter: api.BulkFilter{}}))
	if _, err := f.D.PutQueue(t.Context(), f.Tenant, api.DefaultQueue, api.QueueRequest{MaxActive: new(int64(2))}); err != nil {
		t.Fatal(err)
	}
	made := f.bulk(api.BulkRequest{Action: api.BulkRerun, Filter: api.BulkFilter{}})
	for round := range 3 {
		now := f.run(made)
		if want := int64(min(2*round+2, len(ids))); now.Done != want || (now.Waiting != nil) != (now.Done < 5) {
			t.Errorf("round %d: %+v", round, now)
		}
		for _, job := range f.Claim(f.ClaimCall(api.DefaultQueue)) {
			f.complete(job)
		}
		for _, job := range f.Claim(f.ClaimCall(api.DefaultQueue)) {
			f.complete(job)
		}
	}
	var of []uuid.UUID
	rows, err := f.Direct.Query(t.Context(), `SELECT rerun_of FROM jobs WHERE rerun_of IS NOT NULL UNION ALL SELECT rerun_of FROM finished_jobs WHERE rerun_of IS NOT NULL`)
	if err == nil {
		of, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	}
	slices.SortFunc(of, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if err != nil || fmt.Sprint(of) != fmt.Sprint(ids) {
		t.Errorf("%v: %v of %v", err, of, ids)
	}
}

// Two cores, whose sessions are killed, change the priority of many jobs and cancel some, while workers claim: each job is changed once, or
// had started.
func TestBulkUnderClaimsAndKills(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := celltest.Rounds(3000, 10_000)
	if os.Getenv("FORGEQUEUE_FAULTS") == "long" {
		n = 100_000
	}
	f.Lane(plainJobs(1)[0])
	f.Exec(`INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, created_at, run_at, ready_at, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, size, tags, metadata, payload)
		SELECT gen_random_uuid(), tenant_id, id, 'default', 'test', 'queued', 5, now(), now(), now(), 3, 1000, 1000, 0, 0, '{}', '{}', 'null' FROM lanes CROSS JOIN generate_series(1, $2) WHERE tenant_id = $1`, f.Tenant, n)
	f.Exec(`ANALYZE jobs`)
	f.Exec(`CREATE TABLE changed (id uuid)`)
	f.Exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO changed VALUES (NEW.id); RETURN NULL; END $$`)
	f.Exec(`CREATE TRIGGER note AFTER UPDATE ON jobs FOR EACH ROW WHEN (OLD.priority <> NEW.priority) EXECUTE FUNCTION note()`)
	made := f.bulk(api.BulkRequest{Action: api.BulkSetPriority, Filter: api.BulkFilter{Type: new("test")}, To: &api.BulkTarget{Priority: new(1)}})
	if made.Matched != int64(n) {
		t.Fatalf("%+v", made)
	}
	other := f.NewCore(celltest.OpenURL(t, f.URL))
	killer, watching := celltest.Connect(t, f.URL), celltest.Connect(t, f.URL)
	spared := []uint32{killer.PgConn().PID(), watching.PgConn().PID(), f.Direct.PgConn().PID()}
	var over atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer over.Store(true)
	claimed := map[uuid.UUID]int16{}
	all.Go(func() {
		for !over.Load() {
			call := f.ClaimCall(api.DefaultQueue)
			call.Max = 2 // not all of them before they are reached
			_ = wait.For(t.Context(), 2*time.Millisecond)
			found, err := f.D.Claim(t.Context(), call)
			if err != nil {
				continue // its session was killed
			}
			for _, job := range found {
				claimed[job.ID] = job.Priority
			}
		}
	})
	all.Go(func() {
		for !over.Load() {
			_, _ = killer.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL($1) AND random() < 0.3`, spared)
			_, _ = killer.Exec(t.Context(), `SELECT pg_sleep(0.2)`)
		}
	})
	for _, core := range []*enginetest.Core{f.D, other} {
		all.Go(func() {
			for !over.Load() {
				_, _ = core.StepRedrive(t.Context(), deadletter.DueRedrive{ID: uuid.MustParse(made.ID), TenantID: f.Tenant}, 0)
			}
		})
	}
	var now api.Bulk
	celltest.Eventually(t, "the action is done", func() bool {
		_, _ = watching.Exec(t.Context(), `UPDATE redrives SET failures = 0 WHERE id = $1`, made.ID) // by the kills
		var err error
		now, err = f.Store.DeadLetters.GetBulk(context.WithoutCancel(t.Context()), f.Tenant, "", uuid.MustParse(made.ID))
		return err == nil && now.State != api.RedriveRunning
	})
	over.Store(true)
	all.Wait()
	var changed, twice int
	if err := watching.QueryRow(t.Context(), `SELECT count(DISTINCT id), count(*) - count(DISTINCT id) FROM changed`).Scan(&changed, &twice); err != nil {
		t.Fatal(err)
	}
	before := 0
	for priority := range maps.Values(claimed) {
		if priority == 5 {
			before++
		}
	}
	t.Logf("%d jobs: %d changed, %d refused; %d were claimed before they were reached", n, now.Done, now.Refused, before)
	if now.State != api.RedriveDone || twice != 0 || int64(changed) != now.Done || now.Done+now.Refused != int64(n) || now.Refusals["job_started"] != now.Refused || now.Refused == 0 {
		t.Errorf("%+v: %d changed, %d twice", now, changed, twice)
	}
}

// A bulk action is stopped in the middle, and goes no faster than it may.
func TestBulkIsPacedAndCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(plainJobs(50)...)
	rate := 20.0
	made := f.bulk(api.BulkRequest{Action: api.BulkCancel, Filter: api.BulkFilter{}, RatePerSecond: &rate})
	due := deadletter.DueRedrive{ID: uuid.MustParse(made.ID), TenantID: f.Tenant}
	begun := time.Now()
	for time.Since(begun) < time.Second {
		if _, err := f.D.StepRedrive(t.Context(), due, 0.5); err != nil {
			t.Fatal(err)
		}
	}
	stopped, err := f.Store.DeadLetters.CancelBulk(t.Context(), f.Tenant, "", due.ID)
	if most := int64(time.Since(begun).Seconds()*rate) + 2; err != nil || stopped.State != api.RedriveCancelled || stopped.Done < 2 || stopped.Done > most {
		t.Errorf("at most %d: %+v, %v", most, stopped, err)
	}
	if worked, err := f.D.StepRedrive(t.Context(), due, 0.5); err != nil || worked || int64(f.Count(`SELECT count(*) FROM jobs`)) != 50-stopped.Done {
		t.Errorf("%v %v", worked, err)
	}
	if _, err := f.Store.DeadLetters.GetRedrive(t.Context(), f.Tenant, "", due.ID); err == nil {
		t.Error("it is a redrive")
	}
}
