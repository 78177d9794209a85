package jobs_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// steps are a lane and its jobs, in batches of one size.
type steps struct {
	testing.TB
	store  *cell.Cell
	behind *pgx.Conn
	owner  tenant.ID
	lane   lanes.Lane
	n      int
}

// submit stores jobs, due after a delay.
func (s *steps) submit(delay time.Duration) {
	submission := submit.Submission{Tenant: s.owner, Batch: true}
	for range s.n {
		submission.Jobs = append(submission.Jobs, submit.NewJob{
			ID: uuid.Must(uuid.NewV7()), Lane: s.lane.ID, Queue: s.lane.Queue, Type: "test", Priority: 5, Delay: delay,
			Payload: []byte(`{"n":1}`), Metadata: []byte(`{}`), MaxAttempts: 1 << 20, Retry: job.DefaultRetry(),
		})
	}
	answers, err := s.store.Submits.Submit(s.Context(), []submit.Submission{submission})
	if err != nil || answers[0].Accepted != s.n {
		s.Fatal(answers, err)
	}
}

func (s *steps) claim(visibility time.Duration) []job.Lease {
	request := claim.Request{
		Workers: []claim.Worker{{ID: "w", Max: s.n}}, Owner: s.owner, LeaseID: uuid.New(),
		Lanes:  []claim.Lane{{ID: s.lane.ID, VisibilityTimeout: visibility}},
		Shares: []claim.Share{{Most: s.n, Lists: []claim.ReadyList{{Lane: s.lane.ID, Priority: 5}}}},
	}
	result, err := s.store.Claims.Claim(s.Context(), request)
	if err != nil || len(result.Jobs) != s.n {
		s.Fatal(len(result.Jobs), err)
	}
	leases := make([]job.Lease, s.n)
	for i := range leases {
		leases[i] = result.Jobs[i].Lease()
	}
	return leases
}

func (s *steps) end(leases []job.Lease, ending jobs.Ending) {
	endings := make([]jobs.Ending, len(leases))
	for i, lease := range leases {
		endings[i] = ending
		endings[i].Lease = lease
	}
	for _, ended := range s.store.Jobs.End(s.Context(), endings) {
		if ended.Err != nil {
			s.Fatal(ended.Err)
		}
	}
}

func (s *steps) exec(sql string) {
	s.Helper()
	if _, err := s.behind.Exec(s.Context(), sql); err != nil {
		s.Fatal(err)
	}
}

// step is one of a job's life: before makes the jobs that it needs.
type step struct {
	name   string
	before func(s *steps) []job.Lease
	run    func(s *steps, leases []job.Lease)
}

// allSteps are those whose cost depends on how many jobs are in one call.
func allSteps() []step {
	failed := jobs.Ending{Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}, RetryAfter: new(time.Hour)}
	complete := jobs.Ending{Kind: api.KindComplete, Result: []byte(`{"ok":true}`)}
	return []step{
		{"submit", func(*steps) []job.Lease { return nil }, func(s *steps, _ []job.Lease) { s.submit(0) }},
		{"claim", func(s *steps) []job.Lease { s.submit(0); return nil }, func(s *steps, _ []job.Lease) { s.claim(time.Minute) }},
		{"heartbeat", leased, func(s *steps, leases []job.Lease) {
			if held, err := s.store.Jobs.Heartbeat(s.Context(), leases); err != nil || len(held) != s.n {
				s.Fatal(len(held), err)
			}
		}},
		{"complete", leased, func(s *steps, leases []job.Lease) { s.end(leases, complete) }},
		{"complete again", func(s *steps) []job.Lease {
			leases := leased(s)
			s.end(leases, complete)
			return leases
		}, func(s *steps, leases []job.Lease) { s.end(leases, complete) }},
		{"fail", leased, func(s *steps, leases []job.Lease) { s.end(leases, failed) }},
		{"dead letter", leased, func(s *steps, leases []job.Lease) {
			s.end(leases, jobs.Ending{Kind: api.KindFail, Permanent: true, Error: failed.Error})
		}},
		{"give back", leased, func(s *steps, leases []job.Lease) { s.end(leases, jobs.Ending{Kind: api.KindRelease}) }},
		{"promote", func(s *steps) []job.Lease {
			s.submit(time.Hour)
			s.exec(`UPDATE jobs SET run_at = statement_timestamp() WHERE state = 'scheduled'`)
			return nil
		}, func(s *steps, _ []job.Lease) {
			if ready, err := s.store.Jobs.Promote(s.Context(), jobs.AllTime, s.n); err != nil || len(ready) != s.n {
				s.Fatal(len(ready), err)
			}
		}},
		{"reap", func(s *steps) []job.Lease {
			leases := leased(s)
			s.exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 minute' WHERE state = 'running'`)
			return leases
		}, func(s *steps, _ []job.Lease) {
			reaped, _, err := s.store.Jobs.ReapAfter(s.Context(), &jobs.Contact{Last: time.Now()}, jobs.AllTime, jobs.ReapPlace{}, s.n, celltest.Half)
			if err != nil || len(reaped) != s.n {
				s.Fatal(len(reaped), err)
			}
		}},
	}
}

// leased gives leases on new jobs.
func leased(s *steps) []job.Lease {
	s.submit(0)
	return s.claim(time.Minute)
}

// Whatever the planner believes, no step is quadratic in the jobs of one call: here it has
// the statistics of a table that was nearly empty. Each statement of a step on 1,000 jobs is run again under EXPLAIN,
// on the rows that it had found.
func TestStepsAreLinear(t *testing.T) {
	t.Parallel()
	const n = 1000
	f := &fixture{celltest.NewFixtureOn(t, celltest.NewURL(t))}
	f.Exec(`DO $$ DECLARE t regclass; BEGIN
		FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
			EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', t);
		END LOOP; END $$`)
	// One row at the end of many pages: the planner then expects one row whatever is asked for.
	for range 5 {
		(&steps{TB: t, store: f.Store, behind: f.Direct, owner: f.Tenant, lane: f.Lane, n: n}).submit(0)
	}
	f.Exec(`DELETE FROM jobs WHERE ctid <> (SELECT max(ctid) FROM jobs)`)
	f.Exec(`VACUUM ANALYZE jobs`)
	explains := celltest.Connect(t, f.URL)
	for _, setting := range []string{"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off"} {
		if _, err := explains.Exec(t.Context(), "SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range allSteps() {
		f.Exec(`DROP TABLE IF EXISTS jobs_before`)
		f.Exec(`DELETE FROM jobs; DELETE FROM dead_letters; DELETE FROM finished_jobs; DELETE FROM attempts`)
		recorded := &celltest.Statements{}
		traced, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 2, PoolWait: 5 * time.Second, Tracer: recorded}})
		if err != nil {
			t.Fatal(err)
		}
		s := &steps{TB: t, store: f.Store, behind: f.Direct, owner: f.Tenant, lane: f.Lane, n: n}
		leases := step.before(s)
		f.Exec(`CREATE TABLE jobs_before AS TABLE jobs`)
		s.store = traced
		step.run(s, leases)
		traced.Close()
		if step.name != "complete again" {
			f.Exec(`DELETE FROM jobs; DELETE FROM dead_letters; DELETE FROM finished_jobs; DELETE FROM attempts`)
			f.Exec(`INSERT INTO jobs SELECT * FROM jobs_before`)
		}
		for sql, args := range recorded.Seen() {
			plan, ok := celltest.Explain(t, explains, sql, args)
			if !ok {
				continue
			}
			if work := plan.Work(); work > 20*n {
				t.Errorf("%s: %.0f rows of work for %d jobs in\n%s", step.name, work, n, sql)
			} else {
				t.Logf("%s: %.1f rows of work a job in%.60q", step.name, work/n, sql)
			}
		}
	}
}
