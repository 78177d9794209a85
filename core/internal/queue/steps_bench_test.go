package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// steps are a lane and its jobs, in batches of one size.
type steps struct {
	*testing.B
	store *cell.Cell
	owner tenant.ID
	lane  directory.Lane
	n     int
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
	answers, err := s.store.Submit(s.Context(), []submit.Submission{submission})
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
	result, err := s.store.Claim(s.Context(), request)
	if err != nil || len(result.Jobs) != s.n {
		s.Fatal(len(result.Jobs), err)
	}
	leases := make([]job.Lease, s.n)
	for i := range leases {
		leases[i] = result.Jobs[i].Lease()
	}
	return leases
}

func (s *steps) end(leases []job.Lease, ending queue.Ending) {
	endings := make([]queue.Ending, len(leases))
	for i, lease := range leases {
		endings[i] = ending
		endings[i].Lease = lease
	}
	for _, ended := range s.store.End(s.Context(), endings) {
		if ended.Err != nil {
			s.Fatal(ended.Err)
		}
	}
}

// BenchmarkSteps gives what a job costs in each step of its life, by how many are in one call.
// A statement that is linear costs as much a job in calls of 1,000 as in calls of 100.
//
//	go test -run '^$' -bench Steps -benchtime 20x ./core/internal/queue
func BenchmarkSteps(b *testing.B) {
	url := celltest.URL(b)
	store := celltest.OpenURL(b, url)
	behind := celltest.Connect(b, url)
	exec := func(sql string, args ...any) {
		if _, err := behind.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	failed := queue.Ending{Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}, RetryAfter: new(time.Hour)}
	complete := queue.Ending{Kind: api.KindComplete, Result: []byte(`{"ok":true}`)}
	for _, step := range []struct {
		name string
		// before is not measured.
		before func(s *steps) []job.Lease
		run    func(s *steps, leases []job.Lease)
	}{
		{"submit", func(*steps) []job.Lease { return nil }, func(s *steps, _ []job.Lease) { s.submit(0) }},
		{"claim", func(s *steps) []job.Lease { s.submit(0); return nil }, func(s *steps, _ []job.Lease) { s.claim(time.Minute) }},
		{"heartbeat", leased, func(s *steps, leases []job.Lease) {
			if held, err := store.Heartbeat(s.Context(), leases); err != nil || len(held) != s.n {
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
			s.end(leases, queue.Ending{Kind: api.KindFail, Permanent: true, Error: failed.Error})
		}},
		{"give back", leased, func(s *steps, leases []job.Lease) { s.end(leases, queue.Ending{Kind: api.KindRelease}) }},
		{"promote", func(s *steps) []job.Lease {
			s.submit(time.Hour)
			exec(`UPDATE jobs SET run_at = statement_timestamp() WHERE state = 'scheduled'`)
			return nil
		}, func(s *steps, _ []job.Lease) {
			if ready, err := store.Promote(s.Context(), queue.AllTime, s.n); err != nil || len(ready) != s.n {
				s.Fatal(len(ready), err)
			}
		}},
		{"reap", func(s *steps) []job.Lease {
			leases := leased(s)
			exec(`UPDATE jobs SET lease_expires_at = statement_timestamp() - interval '1 minute' WHERE state = 'running'`)
			return leases
		}, func(s *steps, _ []job.Lease) {
			reaped, _, err := store.ReapAfter(s.Context(), &queue.Contact{Last: time.Now()}, queue.AllTime, queue.ReapPlace{}, s.n, celltest.Half)
			if err != nil || len(reaped) != s.n {
				s.Fatal(len(reaped), err)
			}
		}},
	} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", step.name, n), func(b *testing.B) {
				owner := uuid.Must(uuid.NewV7())
				if _, err := store.CreateTenant(b.Context(), owner, api.TenantRequest{Name: "test"}); err != nil {
					b.Fatal(err)
				}
				made, err := store.MakeLanes(b.Context(), owner, []directory.LaneAsk{{LaneKey: directory.NewLaneKey(owner, "q", nil)}})
				if err != nil {
					b.Fatal(err)
				}
				s := &steps{B: b, store: store, owner: owner, lane: made[0].Lane, n: n}
				var took time.Duration
				for b.Loop() {
					leases := step.before(s)
					begun := time.Now()
					step.run(s, leases)
					took += time.Since(begun)
					exec(`DELETE FROM jobs`)
				}
				b.ReportMetric(float64(took.Microseconds())/float64(b.N*n), "µs/job")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// leased gives leases on new jobs.
func leased(s *steps) []job.Lease {
	s.submit(0)
	return s.claim(time.Minute)
}
