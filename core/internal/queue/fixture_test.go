package queue_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/queue/queuetest"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// fixture is a database with one tenant and one lane.
type fixture struct {
	*testing.T
	url    string
	store  *queue.Store
	tenant tenant.ID
	lane   queue.Lane
	// behind is a connection that sees and changes rows behind the store's back.
	behind *pgx.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, url: queuetest.URL(t)}
	f.store = queuetest.OpenURL(t, f.url)
	f.behind = queuetest.Connect(t, f.url)
	f.tenant = f.newTenant()
	f.lane = f.newLane(f.tenant, "default")
	return f
}

func (f *fixture) newTenant() tenant.ID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.store.CreateTenant(f.Context(), id, api.TenantRequest{Name: "test"}); err != nil {
		f.Fatal(err)
	}
	return id
}

func (f *fixture) newLane(id tenant.ID, name string, tags ...string) queue.Lane {
	f.Helper()
	made, err := f.store.MakeLanes(f.Context(), id, []queue.LaneAsk{{LaneKey: queue.NewLaneKey(id, name, tags)}})
	if err != nil || made[0].Full != 0 {
		f.Fatal(made, err)
	}
	return made[0].Lane
}

// job is a plain job for the fixture's lane.
func (f *fixture) job(change ...func(*queue.NewJob)) queue.NewJob {
	made := queue.NewJob{
		ID: uuid.Must(uuid.NewV7()), Lane: f.lane.ID, Queue: f.lane.Queue, Type: "test", Priority: 5,
		Payload: []byte(`{"n": 1.50, "s":"\u00e9"}`), Metadata: []byte(`{"k":"v"}`), MaxAttempts: 3, Retry: job.DefaultRetry(),
	}
	for _, c := range change {
		c(&made)
	}
	return made
}

// submit stores jobs and fails the test on any refusal.
func (f *fixture) submit(jobs ...queue.NewJob) []uuid.UUID {
	f.Helper()
	submissions := make([]queue.Submission, len(jobs))
	ids := make([]uuid.UUID, len(jobs))
	for i := range jobs {
		submissions[i] = queue.Submission{Tenant: f.tenant, Jobs: jobs[i : i+1]}
		ids[i] = jobs[i].ID
	}
	for _, answer := range f.trySubmit(submissions...) {
		if answer.Problem != nil {
			f.Fatal(answer.Problem)
		}
	}
	return ids
}

func (f *fixture) trySubmit(submissions ...queue.Submission) []queue.SubmitAnswer {
	f.Helper()
	answers, err := f.store.Submit(f.Context(), submissions)
	if err != nil {
		f.Fatal(err)
	}
	return answers
}

func (f *fixture) claim(most int, visibility time.Duration, lanes ...queue.Lane) []queue.Claimed {
	f.Helper()
	if len(lanes) == 0 {
		lanes = []queue.Lane{f.lane}
	}
	claim := queue.Claim{Workers: []queue.ClaimWorker{{ID: "w1", Max: most}}, Owner: f.tenant, LeaseID: uuid.New()}
	for _, lane := range lanes {
		claim.Lanes = append(claim.Lanes, queue.ClaimLane{ID: lane.ID, VisibilityTimeout: visibility})
	}
	taken, err := f.store.Claim(f.Context(), claim)
	if err != nil {
		f.Fatal(err)
	}
	return taken.Jobs
}

// claimOne claims exactly one job with a lease of 30 s.
func (f *fixture) claimOne() queue.Claimed {
	f.Helper()
	jobs := f.claim(1, 30*time.Second)
	if len(jobs) != 1 {
		f.Fatalf("claimed %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

func (f *fixture) end(ending queue.Ending) queue.Ended {
	f.Helper()
	return f.store.End(f.Context(), []queue.Ending{ending})[0]
}

func (f *fixture) mustEnd(ending queue.Ending) *api.Outcome {
	f.Helper()
	ended := f.end(ending)
	if ended.Err != nil {
		f.Fatal(ended.Err)
	}
	return ended.Outcome
}

func (f *fixture) get(id uuid.UUID) api.Job {
	f.Helper()
	got, err := f.store.Get(f.Context(), f.tenant, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// exec changes rows behind the store's back.
func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.behind.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

// row is the whole live row as text: two equal ones are byte-identical.
func (f *fixture) row(id uuid.UUID) string {
	f.Helper()
	var row string
	if err := f.behind.QueryRow(f.Context(), `SELECT COALESCE((SELECT j::text FROM jobs j WHERE id = $1), '')`, id).Scan(&row); err != nil {
		f.Fatal(err)
	}
	return row
}

// expire makes a job's lease end a moment ago.
func (f *fixture) expire(id uuid.UUID) {
	f.Helper()
	f.exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 millisecond' WHERE id = $1 AND state = 'running'`, id)
}

func (f *fixture) reap() []queue.Reaped {
	f.Helper()
	reaped, err := f.store.Reap(f.Context(), time.Unix(0, 0), 1000, half)
	if err != nil {
		f.Fatal(err)
	}
	return reaped
}

// half is the random number that makes no jitter.
func half() float64 { return 0.5 }

func (f *fixture) count(table string) int {
	f.Helper()
	var n int
	if err := f.behind.QueryRow(f.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

func decode[T any](f *fixture, body json.RawMessage) T {
	f.Helper()
	var value T
	if err := json.Unmarshal(body, &value); err != nil {
		f.Fatal(err)
	}
	return value
}

func background(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }
