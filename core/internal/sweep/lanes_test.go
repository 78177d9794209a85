package sweep_test

import (
	"testing"
	"time"
)

// ageLanes makes lanes unused for a day.
func (f *fixture) ageLanes() {
	f.Helper()
	if _, err := f.direct.Exec(f.Context(), `UPDATE lanes SET used_at = used_at - interval '1 day', retired_at = retired_at - interval '1 day'`); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) lanes() (n int) {
	f.Helper()
	if err := f.direct.QueryRow(f.Context(), `SELECT count(*) FROM lanes`).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

// addLanes makes lanes as users with a running cap of their own do.
func (f *fixture) addLanes(n int) {
	f.Helper()
	if _, err := f.direct.Exec(f.Context(), `
INSERT INTO lanes (tenant_id, queue, type, tags, capped_user, requested_by, created_at)
SELECT $1, 'default', 'test', '{}', 'user-' || n, 'user-' || n, statement_timestamp() FROM generate_series(1, $2) n`, f.tenant, n); err != nil {
		f.Fatal(err)
	}
}

// Unused lanes of users are deleted; the one with a job stays.
func TestUnusedLanesGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(1, time.Hour)
	f.addLanes(2500)
	duty := f.duties().Lanes()
	for range 2 { // retired, then deleted
		f.ageLanes()
		if _, err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.lanes(); n != 1 {
		t.Errorf("%d lanes are left", n)
	}
}

// BenchmarkForgetUsers is a month's million users, of whom a thousand have a job: how
// long each step takes, and what is left.
//
//	go test -run '^$' -bench ForgetUsers -benchtime 1x ./core/internal/sweep
func BenchmarkForgetUsers(b *testing.B) {
	f := newFixture(b)
	f.addLanes(1_000_000)
	if _, err := f.direct.Exec(b.Context(), `
INSERT INTO jobs (id, tenant_id, lane_id, queue, type, user_id, state, priority, payload, tags, metadata, max_attempts,
                  retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, size)
SELECT gen_random_uuid(), tenant_id, id, queue, 'test', capped_user, 'queued', 5, 'null', '{}', '{}', 3, 1000, 1000, 0, now(), now(), now(), 8
FROM lanes WHERE capped_user <> '' AND id % 1000 = 0`); err != nil {
		b.Fatal(err)
	}
	steps := map[string]func() (int, int, error){
		"retire": func() (int, int, error) { return f.store.Lanes.Retire(b.Context(), 1000) },
		"delete": func() (int, int, error) { return f.store.Lanes.Delete(b.Context(), 1000) },
	}
	for b.Loop() {
		for _, name := range []string{"retire", "delete"} {
			f.ageLanes()
			var worst, sum time.Duration
			n := 0
			for {
				begun := time.Now()
				seen, _, err := steps[name]()
				if err != nil {
					b.Fatal(err)
				}
				took := time.Since(begun)
				worst, sum, n = max(worst, took), sum+took, n+1
				if seen < 1000 {
					break
				}
			}
			b.Logf("%s: %d steps of 1000, mean %v, worst %v", name, n, sum/time.Duration(n), worst)
		}
	}
	begun := time.Now()
	moved, err := f.d.MoveOrphans(b.Context(), time.Minute)
	b.Logf("%d lanes are left; the search for jobs without a lane took %v (%d, %v)", f.lanes(), time.Since(begun), moved, err)
}
