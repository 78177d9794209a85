package celltest

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Fixture is a database with one tenant and one lane.
type Fixture struct {
	*testing.T
	URL    string
	Store  *cell.Cell
	Tenant tenant.ID
	Lane   lanes.Lane
	// Direct is a connection for reads and changes without the store.
	Direct *pgx.Conn
}

// NewFixture returns one on a database that other tests have used, for the time of the test.
func NewFixture(t *testing.T) *Fixture {
	t.Helper()
	return NewFixtureOn(t, URL(t))
}

// NewFixtureOn returns one on a given database, for the time of the test.
func NewFixtureOn(t *testing.T, databaseURL string) *Fixture {
	t.Helper()
	f := &Fixture{T: t, URL: databaseURL}
	f.Store = OpenURL(t, f.URL)
	f.Direct = Connect(t, f.URL)
	f.Tenant = f.NewTenant()
	f.Lane = f.NewLane(f.Tenant, "default")
	return f
}

// NewTenant makes one more tenant.
func (f *Fixture) NewTenant() tenant.ID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.Store.Tenants.Create(f.Context(), id, api.TenantRequest{Name: "test"}); err != nil {
		f.Fatal(err)
	}
	return id
}

// NewLane makes a lane of a tenant.
func (f *Fixture) NewLane(id tenant.ID, name string, tags ...string) lanes.Lane {
	f.Helper()
	made, err := f.Store.Lanes.Ensure(f.Context(), id, []lanes.Ask{{Key: lanes.NewKey(id, name, "test", tags)}})
	if err != nil || made[0].Refused != 0 {
		f.Fatal(made, err)
	}
	return made[0].Lane
}

// Job is a plain job for the fixture's lane.
func (f *Fixture) Job(change ...func(*submit.NewJob)) submit.NewJob {
	made := submit.NewJob{
		ID: uuid.Must(uuid.NewV7()), Lane: f.Lane.ID, Queue: f.Lane.Queue, Type: "test", Priority: 5,
		Payload: []byte(`{"n": 1.50, "s":"\u00e9"}`), Metadata: []byte(`{"k":"v"}`), MaxAttempts: 3, Retry: job.DefaultRetry(),
	}
	for _, c := range change {
		c(&made)
	}
	return made
}

// Submit stores jobs and fails the test on any refusal.
func (f *Fixture) Submit(jobs ...submit.NewJob) []uuid.UUID {
	f.Helper()
	submissions := make([]submit.Submission, len(jobs))
	ids := make([]uuid.UUID, len(jobs))
	for i := range jobs {
		submissions[i] = submit.Submission{Tenant: f.Tenant, Jobs: jobs[i : i+1]}
		ids[i] = jobs[i].ID
	}
	for _, answer := range f.TrySubmit(submissions...) {
		if answer.Problem != nil {
			f.Fatal(answer.Problem)
		}
	}
	return ids
}

// TrySubmit stores submissions, and gives the result of each.
func (f *Fixture) TrySubmit(submissions ...submit.Submission) []submit.Answer {
	f.Helper()
	for i := range submissions {
		submissions[i].Render = Render
	}
	answers, err := f.Store.Submits.Submit(f.Context(), submissions)
	if err != nil {
		f.Fatal(err)
	}
	return answers
}

// Claim leases up to most jobs of the lanes, or of the fixture's own.
func (f *Fixture) Claim(most int, visibility time.Duration, from ...lanes.Lane) []claim.Job {
	f.Helper()
	if len(from) == 0 {
		from = []lanes.Lane{f.Lane}
	}
	request := claim.Request{Workers: []claim.Worker{{ID: "w1", Max: most}}, Owner: f.Tenant, LeaseID: uuid.New()}
	for _, lane := range from {
		request.Lanes = append(request.Lanes, claim.Lane{ID: lane.ID, VisibilityTimeout: visibility})
	}
	taken, err := f.Store.Claims.Claim(f.Context(), request)
	if err != nil {
		f.Fatal(err)
	}
	return taken.Jobs
}

// ClaimOne claims exactly one job with a lease of 30 s.
func (f *Fixture) ClaimOne() claim.Job {
	f.Helper()
	jobs := f.Claim(1, 30*time.Second)
	if len(jobs) != 1 {
		f.Fatalf("claimed %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

// End ends an attempt.
func (f *Fixture) End(ending jobs.Ending) jobs.Ended {
	f.Helper()
	return f.Store.Jobs.End(f.Context(), []jobs.Ending{ending})[0]
}

// MustEnd ends an attempt, and fails the test where that is refused.
func (f *Fixture) MustEnd(ending jobs.Ending) *api.Outcome {
	f.Helper()
	ended := f.End(ending)
	if ended.Err != nil {
		f.Fatal(ended.Err)
	}
	return ended.Outcome
}

// Get is the job as its tenant sees it.
func (f *Fixture) Get(id uuid.UUID) api.Job {
	f.Helper()
	got, err := f.Store.JobReads.Get(f.Context(), f.Tenant, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// Exec changes rows with SQL, without the store.
func (f *Fixture) Exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.Direct.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

// Row is the whole live row as text: two equal ones are byte-identical.
func (f *Fixture) Row(id uuid.UUID) string {
	f.Helper()
	var row string
	if err := f.Direct.QueryRow(f.Context(), `SELECT COALESCE((SELECT j::text FROM jobs j WHERE id = $1), '')`, id).Scan(&row); err != nil {
		f.Fatal(err)
	}
	return row
}

// Expire makes a job's lease expired.
func (f *Fixture) Expire(id uuid.UUID) {
	f.Helper()
	f.Exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 millisecond' WHERE id = $1 AND state = 'running'`, id)
}

// Reap reaps the expired leases.
func (f *Fixture) Reap() []jobs.Change {
	f.Helper()
	reaped, err := f.Store.Jobs.Reap(f.Context(), time.Unix(0, 0), 1000, Half)
	if err != nil {
		f.Fatal(err)
	}
	return reaped
}

// Half is the random number for no jitter.
func Half() float64 { return 0.5 }

// Count is the number of rows of a table.
func (f *Fixture) Count(table string) int {
	f.Helper()
	var n int
	if err := f.Direct.QueryRow(f.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

// Keyed is an Idempotency-Key of a request with a body.
func Keyed(key, body string) *submit.Idempotency {
	return &submit.Idempotency{Operation: "submit", Key: key, Fingerprint: sha256.Sum256([]byte(body))}
}

// Single is a submission of one job, with an Idempotency-Key where it is not nil.
func (f *Fixture) Single(key *submit.Idempotency, change ...func(*submit.NewJob)) submit.Submission {
	return submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job(change...)}, Idempotency: key, Render: Render}
}

// ShareOf takes at most most jobs from lists of a lane, from their heads.
func ShareOf(most int, lane lanes.Lane, priorities ...int16) claim.Share {
	share := claim.Share{Most: most}
	for _, priority := range priorities {
		share.Lists = append(share.Lists, claim.ReadyList{Lane: lane.ID, Priority: priority})
	}
	return share
}
