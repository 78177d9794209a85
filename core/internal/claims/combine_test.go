package claims_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// many submits n jobs of a tenant in one batch.
func (f *fixture) many(owner tenant.ID, n int, request api.SubmitRequest) []uuid.UUID {
	f.Helper()
	call := submits.Call{Tenant: owner, Batch: true}
	for range n {
		call.IDs, call.Jobs = append(call.IDs, uuid.Must(uuid.NewV7())), append(call.Jobs, request)
	}
	f.Accepted(f.D.Submit(f.Context(), []submits.Call{call})...)
	return call.IDs
}

// Claims that wait at one moment become one statement, whose jobs are dealt out.
func TestClaimsThatWaitTogetherAreOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const claims = 64
	f.many(f.Tenant, claims, enginetest.Plain())
	unlock := f.LockJobs()
	call := f.ClaimCall()
	call.Max = 1
	first := f.GoClaim(t.Context(), call)
	f.Blocked(1)
	var waiting []<-chan enginetest.Answer
	for range claims - 1 {
		waiting = append(waiting, f.GoClaim(t.Context(), call))
	}
	celltest.Eventually(t, "the others to wait for it", func() bool { return f.D.WaitingClaims() == claims-1 })
	if n := f.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'forgequeue-core' AND state <> 'idle'`); n != 1 {
		t.Errorf("%d statements for %d claims", n, claims)
	}
	unlock()
	seen := map[uuid.UUID]bool{}
	for _, one := range append(waiting, first) {
		got := <-one
		if len(got.Jobs) != 1 || got.Err != nil || seen[got.Jobs[0].ID] {
			t.Fatalf("a claim got %+v, %v", got.Jobs, got.Err)
		}
		seen[got.Jobs[0].ID] = true
	}
}

// However many claims are parked, PostgreSQL is asked no more often; and one job
// wakes one of them.
func TestThousandsParkedCostNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	f.Claim(f.ClaimCall()) // the worker is known: its row is not written 3000 times
	f.Run()
	celltest.Eventually(t, "the first scan", f.D.Scanned)
	ctx, cancel := context.WithCancel(t.Context())
	const claims = 3000
	call := f.WaitCall()
	call.Wait, call.Max = 10*time.Minute, 1 // none leaves before the last is parked
	answers := make(chan enginetest.Answer, claims)
	for range claims {
		go func() {
			jobs, err := f.D.Claim(ctx, call)
			answers <- enginetest.Answer{Jobs: jobs, Err: err}
		}()
	}
	celltest.Eventually(t, "all to park", func() bool { return f.D.ParkedClaims() == claims })
	f.Idle()
	commits := func() int {
		f.Exec(`SELECT pg_stat_clear_snapshot()`)
		return f.Count(`SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`)
	}
	before := commits()
	<-time.After(3 * time.Second)
	// polls 5, scan 1 and refreshes 3 a second; and as much again for this test's own
	if n := commits() - before; n > 100 {
		t.Errorf("%d transactions in 3 s while %d claims are parked", n, claims)
	}
	f.Submit(enginetest.Plain())
	if got := <-answers; len(got.Jobs) != 1 || got.Err != nil {
		t.Fatalf("a claim got %+v, %v", got.Jobs, got.Err)
	}
	f.Idle()
	if n := f.D.ParkedClaims(); n != claims-1 || len(answers) > 0 {
		t.Errorf("%d are parked after one job, want %d", n, claims-1)
	}
	cancel()
	for range claims - 1 {
		<-answers
	}
}

// Whoever leaves at whatever moment: a job is in the hands of a caller, or waits with
// its attempt unspent.
func TestEveryLeaseReachesACallerOrGoesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(f.Tenant, 400, enginetest.Plain())
	var group sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 8 {
		group.Go(func() {
			for range 25 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(6000))*time.Microsecond)
				call := f.ClaimCall()
				call.Max = 1 + rand.IntN(3)
				jobs, err := f.D.Claim(ctx, call)
				cancel()
				if err != nil && len(jobs) > 0 {
					t.Errorf("%d jobs and %v", len(jobs), err)
				}
				mu.Lock()
				got += len(jobs)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	celltest.Eventually(t, "what was not taken to go back", func() bool {
		return f.Count(`SELECT count(*) FROM jobs WHERE state = 'running'`) == got
	})
	if n := f.Count(`SELECT count(*) FROM jobs WHERE state = 'queued' AND attempt <> 0`); n != 0 {
		t.Errorf("%d jobs wait with an attempt spent", n)
	}
	t.Logf("%d of 400 jobs were taken", got)
}

func (f *fixture) platformCall(most int) claims.Call {
	return claims.Call{Owner: tenant.Platform, WorkerID: "p1", Queues: []string{"default"}, Max: most}
}

// A tenant with one job after a tenant with thousands waits for one round.
func TestAQuietTenantWaitsForOneRound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(f.Tenant, 1000, enginetest.Plain())
	f.many(f.Tenant, 1000, enginetest.Plain())
	if got := f.Claim(f.platformCall(500)); len(got) != 500 {
		t.Fatalf("claimed %d", len(got))
	}
	quiet := map[tenant.ID]bool{}
	for range 20 {
		id := f.NewTenant()
		f.many(id, 1, enginetest.Plain())
		quiet[id] = true
	}
	round := f.Claim(f.platformCall(21))
	for _, job := range round {
		delete(quiet, job.TenantID)
	}
	if len(quiet) != 0 {
		t.Errorf("%d of 20 quiet tenants were not served in a round of 21", len(quiet))
	}
}

// Under saturation tenants get shares in proportion to their weights, whatever the
// claims' sizes.
func TestWeightsRuleUnderSaturation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	weights := map[tenant.ID]int{}
	for _, weight := range []int{1, 1, 2, 4} {
		id := f.NewTenant()
		f.Exec(`UPDATE tenants SET weight = $1, updated_at = statement_timestamp() WHERE id = $2`, weight, id)
		f.Refresh()
		f.many(id, 600, enginetest.Plain())
		weights[id] = weight
	}
	had := map[tenant.ID]int{}
	total := 0
	for i := 0; total < 800; i++ {
		for _, job := range f.Claim(f.platformCall([]int{1, 7, 40, 3}[i%4])) {
			had[job.TenantID]++
			total++
		}
	}
	for id, weight := range weights {
		if want := total * weight / 8; had[id] < want*9/10 || had[id] > want*11/10 {
			t.Errorf("weight %d of 8 got %d of %d", weight, had[id], total)
		}
	}
}

// Inside a tenant priority rules, in whichever of its lanes a job waits.
func TestPriorityRulesInsideATenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var jobs []api.SubmitRequest
	for i := range 30 {
		request := []api.SubmitRequest{enginetest.Plain(), enginetest.Tagged("x"), enginetest.Tagged("y")}[i%3]
		request.Priority = new(i % 10)
		jobs = append(jobs, request)
	}
	f.Submit(jobs...)
	call := f.ClaimCall()
	call.Tags, call.Max = &[]string{"x", "y"}, 4
	last := int16(api.MaxPriority)
	for range 7 {
		for _, job := range f.Claim(call) {
			if job.Priority > last {
				t.Errorf("priority %d after %d", job.Priority, last)
			}
			last = job.Priority
		}
	}
}

// A queue's rate holds for all claims, and its other jobs are claimed when it allows.
func TestAQueuesRateIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(f.Tenant, 30, enginetest.In("slow"))
	f.Exec(`UPDATE queues SET rate_per_second = 8, updated_at = statement_timestamp() WHERE name = 'slow'`)
	f.Refresh()
	f.Run()
	// At once what starts in a second, and then what the time allows: on a busy machine another
	// job may start while the first claim is under way.
	begun := time.Now()
	first := f.Claim(f.ClaimCall("slow"))
	second := f.Claim(f.ClaimCall("slow"))
	if most := 8 + 1 + 8*time.Since(begun).Seconds(); len(first) < 8 || float64(len(first)+len(second)) > most {
		t.Fatalf("claimed %d and %d at 8 a second, at most %.1f", len(first), len(second), most)
	}
	call := f.WaitCall("slow")
	call.Wait, call.Max = 10*time.Second, 1
	for range 4 {
		if got := f.Claim(call); len(got) != 1 {
			t.Fatal("a claim that waits gets nothing of a queue with a rate")
		}
	}
}

// A hint may arrive before its lane is cached: a claim that waits for that
// lane is woken when it is.
func TestAHintOfALaneNotYetKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Run()
	celltest.Eventually(t, "the first scan", f.D.Scanned)
	other := f.NewCore(celltest.OpenURL(t, f.URL))
	waiting := f.GoClaim(t.Context(), f.WaitCall("new"))
	celltest.Eventually(t, "the claim to park", func() bool { return f.D.ParkedClaims() == 1 })
	answers := other.Submit(t.Context(), []submits.Call{f.Call(enginetest.In("new"))})
	f.Accepted(answers...)
	f.D.WakeHere([]jobs.Waiting{{Ready: answers[0].Ready[0], Jobs: 1}})
	if got := <-waiting; len(got.Jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
}
