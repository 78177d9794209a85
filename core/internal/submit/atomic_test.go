package submit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// rounds sees the statements of a submit that needs several: before runs ahead of
// each insert of jobs with its number, found ahead of each look-up of dedupe_keys.
type rounds struct {
	insert        int
	before, found func(n int)
}

func (r *rounds) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.Contains(data.SQL, "INSERT INTO jobs"):
		r.insert++
		r.before(r.insert)
	case strings.Contains(data.SQL, "AS asked(tenant, name, key)"):
		r.found(r.insert)
	}
	return ctx
}

func (*rounds) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// holder stores a live job with a dedupe_key, and gives what a job with the same key
// needs, and what ends the holder.
func (f *fixture) holder(key string) (same func(*submit.NewJob), end func()) {
	f.Helper()
	same = func(j *submit.NewJob) { j.DedupeKey = &key }
	id := f.Submit(f.Job(same))[0]
	return same, func() { f.Exec(`DELETE FROM jobs WHERE id = $1`, id) }
}

func (f *fixture) traced(r *rounds) *cell.Cell {
	f.Helper()
	store, err := cell.Open(f.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: 5 * time.Second, Tracer: r}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(store.Close)
	return store
}

// A job of an atomic batch that cannot be stored takes the others back, whatever the
// round in which that is found out.
func TestAtomicStoresNoPart(t *testing.T) {
	t.Parallel()
	taken := func(f *fixture, _ *rounds) []submit.NewJob {
		id := f.Submit(f.Job())[0]
		return []submit.NewJob{f.Job(), f.Job(func(j *submit.NewJob) { j.ID = id })}
	}
	late := func(f *fixture, r *rounds) []submit.NewJob {
		same, end := f.holder("k")
		soon := time.Now().Add(2 * time.Second)
		// The holder ends between the insert that it stops and the look-up; at the next
		// insert the deadline is past.
		r.found = func(n int) {
			if n == 1 {
				end()
			}
		}
		r.before = func(n int) {
			if n == 2 {
				time.Sleep(time.Until(soon) + 50*time.Millisecond)
			}
		}
		return []submit.NewJob{f.Job(), f.Job(same, func(j *submit.NewJob) { j.Deadline = &soon })}
	}
	for name, prepare := range map[string]func(*fixture, *rounds) []submit.NewJob{"an id is taken": taken, "a deadline passes": late} {
		for _, capped := range []bool{false, true} {
			if capped && name != "an id is taken" {
				continue // a holder is found before anything is stored
			}
			t.Run(fmt.Sprint(name, " capped ", capped), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				nothing := func(int) {}
				r := &rounds{before: nothing, found: nothing}
				jobs := prepare(f, r)
				for i := range jobs {
					if capped {
						jobs[i].Caps = []caps.Cap{{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}, Limit: 100}}
					}
				}
				batch := submit.Submission{Tenant: f.Tenant, Batch: true, Atomic: true, Jobs: jobs}
				answers, err := f.traced(r).Submits.Submit(t.Context(), []submit.Submission{batch})
				if err != nil || answers[0].Problem == nil || answers[0].Problem.Code != problem.InvalidRequest || answers[0].Accepted+len(answers[0].Ready) != 0 {
					t.Fatalf("%+v, %v, want a refusal of the whole batch", answers, err)
				}
				if n := f.CountOf(`SELECT count(*) FROM jobs WHERE id = $1`, jobs[0].ID); n != 0 {
					t.Error("a part of an atomic batch is stored")
				}
				if capped {
					f.NoDrift()
				}
			})
		}
	}
}

// A deadlock in a later round repeats the flush as a whole: what the first round had
// stored is not there twice, and is not refused as if it were.
func TestADeadlockInALaterRound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	same, end := f.holder("k")
	f.Exec(`CREATE TABLE armed (n integer)`)
	f.Exec(`CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM armed) THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END IF;
  RETURN NEW;
END $$`)
	f.Exec(`CREATE TRIGGER deadlock BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION deadlock()`)
	r := &rounds{}
	r.found = func(n int) {
		if n == 1 {
			end()
		}
	}
	r.before = func(n int) {
		switch n {
		case 2:
			f.Exec(`INSERT INTO armed VALUES (1)`)
		case 3:
			f.Exec(`DELETE FROM armed`)
		}
	}
	submissions := []submit.Submission{
		{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job()}},
		{Tenant: f.Tenant, Batch: true, Atomic: true, Jobs: []submit.NewJob{f.Job(), f.Job(same)}},
	}
	answers, err := f.traced(r).Submits.Submit(t.Context(), submissions)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 2} {
		if answers[i].Problem != nil || answers[i].Accepted != want {
			t.Errorf("submission %d: %+v", i, answers[i])
		}
	}
	ids := []uuid.UUID{submissions[0].Jobs[0].ID, submissions[1].Jobs[0].ID, submissions[1].Jobs[1].ID}
	if n := f.CountOf(`SELECT count(*) FROM jobs WHERE id = ANY($1)`, ids); n != 3 || r.insert < 3 {
		t.Errorf("%d of 3 jobs are stored after %d inserts", n, r.insert)
	}
}

// A job that was deduplicated onto a part of an atomic batch is stored itself where that
// part is taken back.
func TestDeduplicatedOntoWhatIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, capped := range []bool{false, true} {
		t.Run(fmt.Sprint("capped ", capped), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			taken, key := f.Submit(f.Job())[0], "k"
			keyed := func(j *submit.NewJob) { j.DedupeKey = &key }
			refused := []submit.NewJob{f.Job(keyed), f.Job(func(j *submit.NewJob) { j.ID = taken })}
			single, second := []submit.NewJob{f.Job(keyed)}, []submit.NewJob{f.Job(keyed)}
			for _, jobs := range [][]submit.NewJob{refused, single, second} {
				for i := range jobs {
					if capped {
						jobs[i].Caps = []caps.Cap{{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}, Limit: 100}}
					}
				}
			}
			answers, err := f.Store.Submits.Submit(t.Context(), []submit.Submission{
				{Tenant: f.Tenant, Batch: true, Atomic: true, Jobs: refused}, {Tenant: f.Tenant, Jobs: single}, {Tenant: f.Tenant, Jobs: second},
			})
			if err != nil || answers[0].Problem == nil || answers[1].Problem != nil || answers[2].Problem != nil {
				t.Fatalf("%+v, %v", answers, err)
			}
			if answers[1].Accepted+answers[2].Accepted != 1 {
				t.Errorf("accepted %d and %d, want one of them", answers[1].Accepted, answers[2].Accepted)
			}
			if n := f.CountOf(`SELECT count(*) FROM jobs WHERE dedupe_key = 'k'`); n != 1 {
				t.Errorf("%d jobs are stored for two answers", n)
			}
			if capped {
				f.NoDrift()
			}
		})
	}
}

// An id that is taken refuses its job, and no other of the same flush.
func TestATakenIDRefusesItsJobAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	jobs := []submit.NewJob{f.Job(), f.Job(func(j *submit.NewJob) { j.ID = id })}
	answers, err := f.Store.Submits.Submit(t.Context(), []submit.Submission{
		{Tenant: f.Tenant, Jobs: jobs[:1]}, {Tenant: f.Tenant, Jobs: jobs[1:]},
	})
	if err != nil || answers[0].Problem != nil || answers[1].Problem == nil || answers[1].Problem.Code != problem.InvalidRequest {
		t.Fatalf("%+v, %v, want the first accepted and the second refused", answers, err)
	}
	if n := f.CountOf(`SELECT count(*) FROM jobs`); n != 2 {
		t.Errorf("%d jobs are stored, want 2", n)
	}
}
