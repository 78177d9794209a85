package submit_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// Two batches with the same dedupe_keys of several users take them in the order of the unique index, so one waits
// for the other, never in a circle. Each waits in its middle for a job that another session stores.
func TestBatchesTakeDedupeKeysInTheIndexsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	job := func(user string) submit.NewJob {
		return f.Job(func(j *submit.NewJob) { j.User, j.DedupeKey = &user, new("k") })
	}
	// The ids rise in this order, so an order by them takes u1 last in the second batch.
	first := []submit.NewJob{job("u1"), job("u8"), job("u2")}
	second := []submit.NewJob{job("u2"), job("u9"), job("u1")}
	holder := celltest.Connect(t, f.URL)
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := submit.Store(t.Context(), tx, []submit.Submission{{Tenant: f.Tenant, Batch: true, Jobs: []submit.NewJob{job("u8"), job("u9")}}}); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i, jobs := range [][]submit.NewJob{first, second} {
		conn := celltest.Connect(t, f.URL)
		group.Go(func() {
			if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				_, err := submit.Store(t.Context(), tx, []submit.Submission{{Tenant: f.Tenant, Batch: true, Jobs: jobs}})
				return err
			}); err != nil {
				t.Errorf("batch %d: %v", i, err)
			}
		})
		celltest.Eventually(t, "the batch to wait", func() bool {
			var waiting int
			if err := f.Direct.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
			return waiting == i+1
		})
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if n := f.Count("jobs"); n != 4 {
		t.Errorf("%d jobs, want one for each of 4 users", n)
	}
}
