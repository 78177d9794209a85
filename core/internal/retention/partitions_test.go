package retention_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const someDays = 24 * time.Hour

// attachDay makes the partition of a day in the past, under the name that core gives.
func (f *fixture) attachDay(table string, age int) (name string) {
	f.Helper()
	at := time.Now().UTC().AddDate(0, 0, -age)
	name = table + "_" + at.Format("20060102")
	f.Exec(`CREATE TABLE ` + name + ` (LIKE ` + table + ` INCLUDING ALL)`)
	f.Exec(`ALTER TABLE ` + table + ` ATTACH PARTITION ` + name + ` FOR VALUES FROM ('` + at.Format(time.DateOnly) +
		` 00:00+00') TO ('` + at.AddDate(0, 0, 1).Format(time.DateOnly) + ` 00:00+00')`)
	return name
}

func (f *fixture) retaining(retention retention.Periods) *cell.Cell {
	f.Helper()
	store, err := cell.Open(f.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Second}, Retention: retention})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(store.Close)
	return store
}

const dropDaysSQL = `DO $$ DECLARE name text; BEGIN
	FOR name IN SELECT inhrelid::regclass FROM pg_inherits
		WHERE inhparent IN ('finished_jobs'::regclass, 'attempts'::regclass)
	LOOP EXECUTE 'DROP TABLE ' || name; END LOOP; END $$`

// Only pg_inherits says what is a partition. Other tables, whatever they are
// called, are neither dropped nor in the way.
func TestForeignTablesAreNoPartitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store := f.retaining(retention.Periods{Finished: 7 * someDays, DeadLetters: 30 * someDays})
	today := "finished_jobs_" + time.Now().UTC().Format("20060102")
	f.Exec(dropDaysSQL)
	foreign := []string{"finished_jobs_19990101", "attempts_archived", "attempts_20000231", today}
	for _, name := range foreign {
		f.Exec(`CREATE TABLE ` + name + ` AS SELECT 1 AS mine`)
	}
	due := []string{f.attachDay("finished_jobs", 9), f.attachDay("attempts", 31)}
	recent := f.attachDay("attempts", 9)

	dropped, err := store.Retention.DropPartitions(t.Context())
	if err != nil || len(dropped) != 2 || !slices.Contains(due, dropped[0].Name) || !slices.Contains(due, dropped[1].Name) {
		t.Errorf("dropped %+v, %v; want %v", dropped, err, due)
	}
	if err := store.Retention.MakePartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(foreign, recent) {
		if f.Count(`pg_class WHERE relname = '`+name+`'`) != 1 {
			t.Errorf("%s is gone", name)
		}
	}
	f.Submit(f.Job())
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
}

// A detach that waits for an old reader holds up its own table's days only, and is
// finished first when the reader has gone.
func TestAPendingDetachHoldsUpItsTableOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store := f.retaining(retention.Periods{Finished: 7 * someDays, DeadLetters: 7 * someDays})
	stuck, later, other := f.attachDay("finished_jobs", 20), f.attachDay("finished_jobs", 30), f.attachDay("attempts", 20)

	reader := celltest.Connect(t, f.URL)
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM `+stuck); err != nil {
		t.Fatal(err)
	}
	// As a core leaves it that ended while it waited.
	f.Exec(`SET statement_timeout = 50`)
	if _, err := f.Direct.Exec(t.Context(), `ALTER TABLE finished_jobs DETACH PARTITION `+stuck+` CONCURRENTLY`); err == nil {
		t.Fatal("the detach did not wait for the reader")
	}
	f.Exec(`RESET statement_timeout`)
	stop := f.cancelWaiting(`%DETACH PARTITION%`)
	dropped, err := store.Retention.DropPartitions(t.Context())
	stop()
	if err == nil || !strings.Contains(err.Error(), stuck) || len(dropped) != 1 || dropped[0].Name != other {
		t.Errorf("dropped %+v, %v; want %s, and word of %s", dropped, err, other, stuck)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	dropped, err = store.Retention.DropPartitions(t.Context())
	if err != nil || len(dropped) != 2 || dropped[0].Name != stuck || dropped[1].Name != later {
		t.Errorf("then dropped %+v, %v", dropped, err)
	}
}

// cancelWaiting cancels statements like pattern that wait for a lock, as their own time
// limit would, until it is stopped.
func (f *fixture) cancelWaiting(pattern string) (stop func()) {
	conn := celltest.Connect(f, f.URL)
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := conn.Exec(f.Context(), `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND query LIKE $1 AND wait_event_type = 'Lock'`, pattern); err != nil {
				f.Error(err)
				return
			}
			select {
			case <-stopping:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { close(stopping); <-done }
}

// On a machine that slept for longer than the days that lie ready no job can end, were
// it not that the statement which finds no partition makes it.
func TestWhatEndsMakesItsPartition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.Submit(f.Job(), f.Job(), f.Job(), f.Job(), f.Job(func(j *submit.NewJob) { j.MaxAttempts = 1 }))
	one, two, three, four := f.ClaimOne(), f.ClaimOne(), f.ClaimOne(), f.ClaimOne()
	for name, end := range map[string]func(){
		"complete": func() { f.MustEnd(jobs.Ending{Lease: one.Lease(), Kind: api.KindComplete}) },
		"fail": func() {
			f.MustEnd(jobs.Ending{Lease: two.Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}})
		},
		"reap": func() {
			f.Expire(three.ID)
			if reaped := f.Reap(); len(reaped) != 1 || reaped[0].ID != three.ID {
				t.Errorf("reaped %+v", reaped)
			}
		},
		"deadline": func() {
			f.Exec(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 second' WHERE id = $1`, four.ID)
			if expired, err := f.Store.Jobs.ExpireDeadlines(t.Context(), jobs.AllTime, 10); err != nil || len(expired) != 1 {
				t.Errorf("expired %+v, %v", expired, err)
			}
		},
		"cancel": func() {
			if _, did, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", ids[4]); err != nil || did != jobs.CancelEnded {
				t.Errorf("%v %v", did, err)
			}
		},
	} {
		f.Exec(dropDaysSQL)
		end()
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

var dayOf = regexp.MustCompile(`^(finished_jobs|attempts)_\d{8}$`)

// A look-up by id opens the partitions from the id's own time on, also where the plan
// was made for any id. Without that each day within the retention costs each look-up.
func TestLookUpsOpenNoEarlierDay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for age := 2; age <= 40; age++ {
		f.attachDay("finished_jobs", age)
		f.attachDay("attempts", age)
	}
	recorded := &celltest.Statements{}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 2, PoolWait: 5 * time.Second, Tracer: recorded}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	id := f.Submit(f.Job())[0]
	lease := f.ClaimOne().Lease()
	f.MustEnd(jobs.Ending{Lease: lease, Kind: api.KindComplete})
	found, err := store.JobReads.Get(t.Context(), f.Tenant, "", id)
	if err != nil || found.State != api.StateCompleted {
		t.Fatalf("%+v %v", found, err)
	}
	if looks, err := store.JobReads.Snapshots(t.Context(), []uuid.UUID{id}); err != nil || looks[id].State != api.StateCompleted {
		t.Fatalf("%v %v", looks, err)
	}
	if _, err := store.JobReads.Attempts(t.Context(), f.Tenant, "", id, 0, 10); err != nil {
		t.Fatal(err)
	}
	if again := store.Jobs.End(t.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindComplete}})[0]; !again.Replayed {
		t.Fatalf("%+v", again)
	}
	conn := celltest.Connect(t, f.URL)
	for _, setting := range []string{"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off"} {
		if _, err := conn.Exec(t.Context(), "SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	looked := 0
	for sql, args := range recorded.Seen() {
		if !strings.Contains(sql, "FROM finished_jobs") && !strings.Contains(sql, "FROM attempts") {
			continue
		}
		looked++
		days := map[string]int{} // by table
		plan, _ := celltest.Explain(t, conn, sql, args)
		plan.Walk(func(n *celltest.PlanNode) {
			if dayOf.MatchString(n.Relation) {
				days[strings.TrimRight(n.Relation, "0123456789")]++
			}
		})
		if len(days) == 0 {
			t.Errorf("no day is opened by\n%s", sql)
		}
		for table, opened := range days {
			if opened > 10 { // from the day before the id's to the last that is made ahead
				t.Errorf("%d days of %s are opened by\n%s", opened, table, sql)
			}
		}
	}
	if looked != 4 {
		t.Errorf("%d statements looked up ids", looked)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	young, old := uuid.Must(uuid.NewV7()), uuid.MustParse("018f2f6e-0000-7000-8000-000000000000")
	if since := retention.Since(young, old); time.Since(since) < 30*someDays || since.IsZero() {
		t.Errorf("the older one decides: %v", since)
	}
	if since := retention.Since(young); time.Since(since) < someDays || time.Since(since) > someDays+time.Hour {
		t.Errorf("a day is left for clocks that differ: %v", since)
	}
	if since := retention.Since(young, uuid.New()); !since.IsZero() {
		t.Errorf("the time of an id that is no UUID v7 is not known: %v", since)
	}
	now := time.Now()
	if retention.ValidID(uuid.New(), now) || !retention.ValidID(young, now.Add(-11*time.Hour)) || retention.ValidID(young, now.Add(-13*time.Hour)) {
		t.Error("a new id has to be a UUID v7 of about now")
	}
}

// Whoever waits for another that makes the partitions waits no longer than it may.
func TestWaitForPartitionsEndsWithTheContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	f.Exec(dropDaysSQL)
	// Another call makes them, and waits for another core that does.
	if _, err := f.Direct.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, f.Store.LockKey(store.LockPartitions, tenant.Platform)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	another := f.Submit(f.Job())[0]
	group.Go(func() {
		if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", another); err != nil {
			t.Error(err)
		}
	})
	celltest.Eventually(t, "the other call to wait", func() bool { return f.WaitForLocks() == 1 })
	for within := 300 * time.Millisecond; ; within *= 4 { // a slow machine does not come as far as there
		_, _, err := f.Store.Jobs.Cancel(f.Within(within), f.Tenant, "", id)
		if errors.Is(err, store.ErrUnavailable) && errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err == nil || within > time.Minute {
			t.Fatalf("while another makes them: %v", err)
		}
	}
	f.Exec(`SELECT pg_advisory_unlock_all()`)
	group.Wait()
	if _, did, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", id); err != nil || did != jobs.CancelEnded {
		t.Errorf("%v %v", did, err)
	}
}
