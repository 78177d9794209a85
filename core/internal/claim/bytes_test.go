package claim_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// large is a job that takes some 100 kB in an answer.
func (f *fixture) large() submit.NewJob {
	return f.Job(func(j *submit.NewJob) {
		j.Payload = append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 99_000)...), '"')
	})
}

// A claim takes as many jobs as its bytes allow, and one always. What it leaves waits
// with its attempt unspent, after the claim's cursor.
func TestAClaimIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		capped bool
	}{
		"plain":       {},
		"under a cap": {capped: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := f.Submit(f.large(), f.large(), f.large(), f.large(), f.large())
			request := claim.Request{
				Workers: []claim.Worker{{ID: "a", Max: 1}, {ID: "b", Max: 1000}}, Owner: f.Tenant,
				Lanes: []claim.Lane{{ID: f.Lane.ID, Tenant: f.Tenant, VisibilityTimeout: time.Minute}},
			}
			if c.capped {
				request.Lanes[0].Caps = []caps.Cap{{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.RunningTenant}, Limit: 100}}
			}
			after := jobs.Cursor{}
			for _, step := range []struct {
				bytes, want int
				cut         bool
			}{{250_000, 2, true}, {1, 1, true}, {0, 2, false}} {
				request.LeaseID, request.Bytes = uuid.New(), step.bytes
				request.Shares = []claim.Share{{Lists: []claim.ReadyList{{Lane: f.Lane.ID, Priority: 5, After: after}}, Most: 1000}}
				got, err := f.Store.Claims.Claim(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Jobs) != step.want || got.Cut != step.cut || got.Scanned[0].Exhausted == step.cut {
					t.Fatalf("with %d bytes: %d jobs, cut %v, scanned %+v", step.bytes, len(got.Jobs), got.Cut, got.Scanned)
				}
				for _, job := range got.Jobs {
					if job.ID != ids[0] || job.Size() < 100_000 || job.Size() > 101_000 {
						t.Fatalf("job %v of %d bytes, want %v", job.ID, job.Size(), ids[0])
					}
					after, ids = jobs.Cursor{At: job.ReadyAt, ID: job.ID}, ids[1:]
				}
				if got.Scanned[0].To != after {
					t.Fatalf("scanned to %v, want %v", got.Scanned[0].To, after)
				}
				if n := f.Count(`jobs WHERE state = 'queued' AND attempt = 0 AND epoch = 0`); n != len(ids) {
					t.Fatalf("%d jobs wait, want %d", n, len(ids))
				}
			}
			if a, b := f.Count(`jobs WHERE worker_id = 'a'`), f.Count(`jobs WHERE worker_id = 'b'`); a != 3 || b != 2 {
				t.Errorf("%d jobs for the first worker and %d for the second, want one a claim and the others", a, b)
			}
		})
	}
}
