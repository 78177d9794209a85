package move_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/move"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
)

// neighbour is another tenant of the home cell.
func (f *fixture) neighbour() *celltest.Fixture {
	f.Helper()
	other := &celltest.Fixture{T: f.T, URL: f.URL, Store: f.Store, Direct: f.Direct, Tenant: f.NewTenant()}
	other.Lane = other.NewLane(other.Tenant, "default")
	return other
}

// waiting runs a move until it waits for a lease of the tenant, or for a transaction.
func (f *fixture) waiting() (moved <-chan error, end func()) {
	f.Helper()
	f.drain = time.Hour
	ctx, cancel := context.WithCancel(f.bounded())
	ended := make(chan error, 1)
	go func() { ended <- f.move(ctx, other, nil) }()
	celltest.Eventually(f, "the tenant is draining", func() bool {
		return len(ended) > 0 || f.CountOf(`SELECT count(*) FROM tenant_fences WHERE state IN ('draining', 'left')`) == 1
	})
	return ended, cancel
}

// killedAt leaves a move that was killed in each phase in turn, in which the source's cores leave the tenant out.
func (f *fixture) killedAt(look func(phase string)) {
	f.Helper()
	f.Submit(f.Job())
	held := f.ClaimOne()
	moved, kill := f.waiting()
	kill()
	if err := <-moved; !errors.Is(err, context.Canceled) {
		f.Fatal(err)
	}
	look(move.Draining)
	f.MustEnd(jobs.Ending{Lease: held.Lease(), Kind: "release"})
	for _, phase := range []string{move.Left, move.Switched, move.Removing} {
		f.upTo(phase, other)
		look(phase)
	}
}

// With more due jobs of the tenant than a duty looks at, those of others become ready all the same, and nobody is told
// that the tenant's are due.
func TestOthersArePromotedDuringAMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	beside := f.neighbour()
	later := func(j *submit.NewJob) { j.Delay = time.Hour }
	f.Submit(f.Jobs(1500, later)...)
	f.Exec(`UPDATE jobs SET run_at = now() - interval '1 minute' WHERE state = 'scheduled'`)
	f.killedAt(func(phase string) {
		if wait, due, err := f.Store.Jobs.NextDue(t.Context(), jobs.AllTime); err != nil || due {
			t.Errorf("%s: a job is due in %v: %v", phase, wait, err)
		}
		beside.Submit(beside.Job(later))
		f.Exec(`UPDATE jobs SET run_at = now() - interval '1 second' WHERE state = 'scheduled' AND tenant_id = $1`, beside.Tenant)
		if due, err := f.Store.Jobs.Promote(t.Context(), jobs.AllTime, 1000); err != nil || len(due) != 1 || due[0].Lane != beside.Lane.ID {
			t.Errorf("%s: %d promoted, %v", phase, len(due), err)
		}
	})
}

// The same for deadlines: no job of the tenant is reported as a dead letter.
func TestOthersDeadlinesPassDuringAMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	beside := f.neighbour()
	late := func(j *submit.NewJob) { j.Deadline = new(time.Now().Add(time.Hour)) }
	f.Submit(f.Jobs(600, late)...)
	f.Exec(`UPDATE jobs SET deadline = now() - interval '1 minute' WHERE deadline IS NOT NULL`)
	f.killedAt(func(phase string) {
		beside.Submit(beside.Job(late))
		f.Exec(`UPDATE jobs SET deadline = now() - interval '1 second' WHERE tenant_id = $1`, beside.Tenant)
		expired, err := f.Store.Jobs.ExpireDeadlines(t.Context(), jobs.AllTime, 500)
		if err != nil || len(expired) != 1 {
			t.Errorf("%s: %d expired, %v", phase, len(expired), err)
		}
		if n := f.CountOf(`SELECT count(*) FROM dead_letters WHERE tenant_id = $1`, f.Tenant); n > 0 {
			t.Errorf("%s: %d jobs of the tenant have died", phase, n)
		}
	})
}

// Each duty on rows of all tenants does those of others, and leaves those of the tenant.
func TestDutiesDoTheOthersDuringAMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	beside := f.neighbour()
	kept, err := cell.Open(t.Context(), cell.Options{
		Options:   store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Second},
		Retention: retention.Periods{Finished: 24 * time.Hour, DeadLetters: 24 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kept.Close)
	old := func(in *celltest.Fixture) {
		in.Submit(in.Job())
		in.MustEnd(jobs.Ending{Lease: in.ClaimOne().Lease(), Kind: "fail", Permanent: true})
		in.Exec(`UPDATE dead_letters SET died_at = now() - interval '2 days' WHERE tenant_id = $1`, in.Tenant)
		in.Exec(`INSERT INTO redrives (id, tenant_id, action, filter, state, matched, matched_capped, next_at, created_at, updated_at, ended_at)
			VALUES (gen_random_uuid(), $1, 'redrive', '{}', 'done', 0, false, now(), now(), now(), now() - interval '2 days')`, in.Tenant)
		in.Exec(`INSERT INTO schedule_runs (tenant_id, name, at, skipped) VALUES ($1, 's', now() - interval '2 days', 'cap')`, in.Tenant)
		in.Exec(`INSERT INTO dependencies (tenant_id, parent_id, child_id, on_failed, redrives) VALUES ($1, gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'run', 0)`, in.Tenant)
		in.Exec(`INSERT INTO workflows (id, tenant_id, name, metadata, created_at) VALUES (('00000000' || substr($1::uuid::text, 9))::uuid, $1::uuid, 'w', '{}', now())`, in.Tenant)
		in.Exec(`INSERT INTO webhooks (tenant_id, name, events, created_at, updated_at) VALUES ($1, 'hook', '{}', now(), now()) ON CONFLICT DO NOTHING`, in.Tenant)
		in.Exec(`INSERT INTO queues (tenant_id, name, created_at, updated_at, deleted_at) VALUES ($1, 'gone', now(), now() - interval '2 days', now() - interval '2 days') ON CONFLICT DO NOTHING`, in.Tenant)
		in.Exec(`INSERT INTO lanes (tenant_id, queue, type, tags, created_at, used_at) VALUES ($1, 'unused', 't', '{}', now(), now() - interval '2 days') ON CONFLICT DO NOTHING`, in.Tenant)
	}
	old(f.Fixture)
	f.killedAt(func(phase string) {
		if phase == move.Removing { // the rows go
			return
		}
		old(beside)
		had := contents(f.Fixture, f.Tenant)
		before := contents(f.Fixture, beside.Tenant)
		for name, duty := range map[string]func(context.Context) error{
			"dead_letters":  func(ctx context.Context) error { _, err := kept.DeadLetters.ForgetDead(ctx, 100); return err },
			"redrives":      func(ctx context.Context) error { _, err := kept.Retention.ForgetRedrives(ctx, 100); return err },
			"schedule_runs": func(ctx context.Context) error { _, err := kept.Retention.ForgetRuns(ctx, 100); return err },
			"dependencies": func(ctx context.Context) error {
				_, err := kept.Dependencies.ForgetEdges(ctx, 24*time.Hour, dependency.EdgePlace{}, 100)
				return err
			},
			"workflows": func(ctx context.Context) error {
				_, err := kept.Workflows.ForgetWorkflows(ctx, 24*time.Hour, uuid.UUID{}, 100)
				return err
			},
			"queues": func(ctx context.Context) error {
				_, err := kept.Queues.SettleDeleted(ctx, queues.DeletedPlace{}, 100)
				return err
			},
			"lanes": func(ctx context.Context) error { _, _, err := kept.Lanes.Retire(ctx, 100); return err },
			"schedules": func(ctx context.Context) error {
				_, _, err := kept.Schedules.RewindSchedules(ctx, schedule.Place{}, 100)
				return err
			},
			"webhooks": func(ctx context.Context) error {
				status := 200
				return kept.Webhooks.RecordLastCalls(ctx, []webhook.LastCall{{Tenant: f.Tenant, Name: "hook", Status: &status}, {Tenant: beside.Tenant, Name: "hook", Status: &status}})
			},
		} {
			if err := duty(t.Context()); err != nil {
				t.Errorf("%s: %s: %v", phase, name, err)
			}
			if has := contents(f.Fixture, f.Tenant)[name]; len(has) != len(had[name]) {
				t.Errorf("%s: the tenant has %d %s, had %d", phase, len(has), name, len(had[name]))
			}
			has := contents(f.Fixture, beside.Tenant)[name]
			if gone := len(before[name]) > len(has); name != "lanes" && name != "webhooks" && name != "schedules" && !gone {
				t.Errorf("%s: the other tenant's %s are all there", phase, name)
			}
		}
		if n := f.CountOf(`SELECT count(*) FROM webhooks WHERE last_status = 200 AND tenant_id = $1`, beside.Tenant); n != 1 {
			t.Errorf("%s: the last call of the other tenant's webhook is not recorded", phase)
		}
	})
}

// A lock like that of autovacuum, and a transaction that writes jobs and stays open, hold up neither a move nor, during it,
// the writes of others: nobody waits for a lock of a table.
func TestNobodyWaitsForAMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	beside := f.neighbour()
	f.Submit(f.Jobs(3)...)
	for _, sql := range []string{`LOCK TABLE jobs IN SHARE UPDATE EXCLUSIVE MODE`, `UPDATE jobs SET priority = priority WHERE false`} {
		tx, err := celltest.Connect(t, f.URL).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithTimeout(f.bounded(), time.Minute)
	defer end()
	moved := make(chan error, 1)
	go func() { moved <- f.move(ctx, other, nil) }()
	for n := 0; ; n++ {
		select {
		case err := <-moved:
			if err != nil {
				t.Fatal(err)
			}
			if in := f.where(); in != other || n == 0 {
				t.Errorf("the tenant is in %q, others wrote %d times", in, n)
			}
			return
		default:
		}
		beside.Submit(beside.Job())
		if n := f.CountOf(`SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n > 0 {
			t.Fatalf("%d sessions wait for a table", n)
		}
	}
}

// asked is a transaction of the home cell that has asked, with one of the clauses of package store.
func (f *fixture) asked(clause string, args store.Args) pgx.Tx {
	f.Helper()
	tx, err := celltest.Connect(f, f.URL).Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := tx.Exec(f.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil { // as core's sessions
		f.Fatal(err)
	}
	if _, err := tx.Exec(f.Context(), `SELECT `+clause, args); err != nil {
		f.Fatal(err)
	}
	return tx
}

// goesAlong stores a row of the tenant in a transaction that the move has to wait for, and looks for it in the target.
func (f *fixture) goesAlong(tx pgx.Tx, moved <-chan error) {
	f.Helper()
	const enough = 3 * time.Second // for a move that does not wait
	select {
	case err := <-moved:
		f.Fatalf("the move has ended beside a transaction that had asked: %v", err)
	case <-time.After(enough):
	}
	if _, err := tx.Exec(f.Context(), `INSERT INTO schedule_runs (tenant_id, name, at, skipped) VALUES ($1, 'late', now(), 'cap')`, f.Tenant); err != nil {
		f.Fatal(err)
	}
	if err := tx.Commit(f.Context()); err != nil {
		f.Fatal(err)
	}
	if err := <-moved; err != nil {
		f.Fatal(err)
	}
	if n := f.there.CountOf(`SELECT count(*) FROM schedule_runs WHERE tenant_id = $1 AND name = 'late'`, f.Tenant); n != 1 {
		f.Error("what the transaction wrote has not moved")
	}
}

// A transaction that asked before the tenant was draining, and writes afterwards, is waited for. Others go on meanwhile.
func TestAMoveWaitsForWhoAskedBefore(t *testing.T) {
	t.Parallel()
	for name, clause := range map[string]string{"for the tenant": store.ServedSQL, "for all tenants": store.MovingSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			beside := f.neighbour()
			args := store.Args{}
			if clause == store.ServedSQL {
				args["tenant_id"] = f.Tenant
			}
			tx := f.asked(clause, args)
			moved, end := f.waiting()
			defer end()
			beside.Submit(beside.Jobs(2)...)
			if taken := beside.Claim(1, time.Minute); len(taken) != 1 {
				t.Errorf("claimed %d", len(taken))
			}
			f.goesAlong(tx, moved)
		})
	}
}

// So is one that asked while the tenant was draining: its outcomes are still taken.
func TestAMoveWaitsForWhoAskedWhileDraining(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	held := f.ClaimOne()
	moved, end := f.waiting()
	defer end()
	tx := f.asked(store.ServedSQL, store.Args{"tenant_id": f.Tenant})
	f.MustEnd(jobs.Ending{Lease: held.Lease(), Kind: "complete"})
	f.goesAlong(tx, moved)
}

// A day that one of the ledgers closes during a move does not end it, as around midnight; and no transaction is open between the
// steps, which would keep days from being closed.
func TestAMoveOverMidnight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inhabit(f.Tenant)
	for _, in := range []*celltest.Fixture{f.Fixture, f.there} {
		in.Exec(`DELETE FROM ledger_days`)
		in.Exec(`INSERT INTO ledger_days SELECT (now() AT TIME ZONE 'UTC')::date - n, now() FROM unnest(ARRAY[3, 2]) AS n`)
	}
	f.log = slog.New(atEachPhase{slog.DiscardHandler, func(phase string) {
		if n := f.CountOf(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND backend_type = 'client backend' AND xact_start IS NOT NULL`); n > 0 {
			t.Errorf("%s: %d transactions are open", phase, n)
		}
		if phase == move.Left { // the target has closed a day that the source has not
			f.Exec(`DELETE FROM ledger_days WHERE day = (SELECT max(day) FROM ledger_days)`)
		}
	}})
	f.mustMove(other)
	sound(f.there, "the target")
}

// atEachPhase calls look when a move says that it is in a phase.
type atEachPhase struct {
	slog.Handler
	look func(phase string)
}

func (atEachPhase) Enabled(context.Context, slog.Level) bool { return true }

func (h atEachPhase) Handle(_ context.Context, said slog.Record) error {
	said.Attrs(func(a slog.Attr) bool {
		if a.Key == "phase" {
			h.look(a.Value.String())
		}
		return true
	})
	return nil
}

// History of days before today is copied while the tenant is served; of a day that lost a job since, the rest is copied again.
func TestHistoryIsCopiedAhead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.Submit(f.Jobs(4)...)
	for _, one := range f.Claim(4, time.Minute) {
		f.MustEnd(jobs.Ending{Lease: one.Lease(), Kind: "complete"})
	}
	var days []time.Time
	for n := range 3 {
		days = append(days, time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -n-1))
	}
	if err := f.Store.Retention.MakeDays(t.Context(), retention.FinishedJobs, days); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids[:3] { // two of yesterday, one of the day before
		f.Exec(`UPDATE finished_jobs SET finished_at = date_trunc('day', now(), 'UTC') - interval '1 hour' - make_interval(days => $2) WHERE id = $1`, id, i/2)
	}
	f.upTo(move.Draining, other)
	if n := f.there.CountOf(`SELECT count(*) FROM finished_jobs WHERE tenant_id = $1`, f.Tenant); n != 3 {
		t.Errorf("%d jobs were copied ahead", n)
	}
	f.Exec(`DELETE FROM finished_jobs WHERE id = $1`, ids[0])
	had := contents(f.Fixture, f.Tenant)["finished_jobs"]
	f.mustMove(other)
	if has := contents(f.there, f.Tenant)["finished_jobs"]; len(has) != 3 || len(had) != 3 {
		t.Errorf("%d finished jobs, had %d", len(has), len(had))
	}
	sound(f.there, "the target")
}
