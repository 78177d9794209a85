package celltest

import (
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ActiveCap is a cap on the tenant's active jobs.
func (f *Fixture) ActiveCap(limit int64) caps.Cap {
	return caps.Cap{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}, Limit: limit}
}

// UserCap is a cap on a user's active jobs.
func (f *Fixture) UserCap(user string, limit int64) caps.Cap {
	return caps.Cap{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveUser, Name: user}, Limit: limit}
}

// QueueCap is a cap on a queue's active jobs.
func (f *Fixture) QueueCap(name string, limit int64) caps.Cap {
	return caps.Cap{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveQueue, Name: name}, Limit: limit}
}

// RunningCap is a cap on the tenant's running jobs.
func (f *Fixture) RunningCap(limit int64) caps.Cap {
	return caps.Cap{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.RunningTenant}, Limit: limit}
}

// NoDrift fails the test where counts and jobs differ.
func (f *Fixture) NoDrift() {
	f.Helper()
	drifts, err := f.Store.Counts.Verify(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	for _, drift := range drifts {
		f.Errorf("drift: %v", drift)
	}
}

// Admitted submits one job each and gives how many were accepted.
func (f *Fixture) Admitted(jobs ...submit.NewJob) int {
	f.Helper()
	accepted := 0
	for i := range jobs {
		answer := f.TrySubmit(submit.Submission{Tenant: f.Tenant, Jobs: jobs[i : i+1]})[0]
		accepted += answer.Accepted
		if answer.Problem != nil && answer.Problem.Code != problem.ActiveCapReached && answer.Problem.Code != problem.QueueFull {
			f.Fatalf("refused with %v", answer.Problem)
		}
	}
	return accepted
}

// Jobs makes n plain jobs.
func (f *Fixture) Jobs(n int, change ...func(*submit.NewJob)) []submit.NewJob {
	made := make([]submit.NewJob, n)
	for i := range made {
		made[i] = f.Job(change...)
	}
	return made
}

// Fill stores n jobs with SQL, without the store.
func (f *Fixture) Fill(n int, user string) {
	f.Helper()
	f.Exec(`INSERT INTO jobs (id, tenant_id, lane_id, queue, type, user_id, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, size)
SELECT gen_random_uuid(), $1, $2, 'default', 'test', NULLIF($4,''), 'queued', 5, 'null', '{}', '{}', 3, 1, 1, 0, now(), now(), now(), 8 FROM generate_series(1, $3)`, f.Tenant, f.Lane.ID, n, user)
}

// CountOf is what a query counts.
func (f *Fixture) CountOf(sql string, args ...any) (n int) {
	f.Helper()
	if err := f.Direct.QueryRow(f.Context(), sql, args...).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

// Under puts a job under caps.
func Under(caps ...caps.Cap) func(*submit.NewJob) {
	return func(j *submit.NewJob) { j.Caps = caps }
}

// Of makes a job a user's.
func Of(user string) func(*submit.NewJob) {
	return func(j *submit.NewJob) { j.User = &user }
}
