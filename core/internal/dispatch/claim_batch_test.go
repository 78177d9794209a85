package dispatch_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// many submits n jobs of a tenant in one batch.
func (f *fixture) many(owner tenant.ID, n int, request api.SubmitRequest) []uuid.UUID {
	f.Helper()
	call := dispatch.SubmitCall{Tenant: owner, Batch: true}
	for range n {
		call.IDs, call.Jobs = append(call.IDs, uuid.Must(uuid.NewV7())), append(call.Jobs, request)
	}
	f.accepted(f.d.Submit(f.Context(), []dispatch.SubmitCall{call})...)
	return call.IDs
}

// Claims that wait at one moment become one statement, whose jobs are dealt out.
func TestClaimsThatWaitTogetherAreOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const claims = 64
	f.many(f.tenant, claims, plain())
	unlock := f.lockJobs()
	call := f.claimCall()
	call.Max = 1
	first := f.goClaim(t.Context(), call)
	f.blocked(1)
	var waiting []<-chan answer
	for range claims - 1 {
		waiting = append(waiting, f.goClaim(t.Context(), call))
	}
	celltest.Eventually(t, "the others to wait for it", func() bool { return f.d.WaitingClaims() == claims-1 })
	if n := f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'forgequeue-core' AND state <> 'idle'`); n != 1 {
		t.Errorf("%d statements for %d claims", n, claims)
	}
	unlock()
	seen := map[uuid.UUID]bool{}
	for _, one := range append(waiting, first) {
		got := <-one
		if len(got.jobs) != 1 || got.err != nil || seen[got.jobs[0].ID] {
			t.Fatalf("a claim got %+v, %v", got.jobs, got.err)
		}
		seen[got.jobs[0].ID] = true
	}
}

// However many claims are parked, PostgreSQL is asked no more often; and one job
// wakes one of them.
func TestThousandsParkedCostNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	f.claim(f.claimCall()) // the worker is known: its row is not written 3000 times
	f.run()
	celltest.Eventually(t, "the first scan", f.d.Scanned)
	ctx, cancel := context.WithCancel(t.Context())
	const claims = 3000
	call := f.waitCall()
	call.Wait, call.Max = 10*time.Minute, 1 // none leaves before the last is parked
	answers := make(chan answer, claims)
	for range claims {
		go func() {
			jobs, err := f.d.Claim(ctx, call)
			answers <- answer{jobs: jobs, err: err}
		}()
	}
	celltest.Eventually(t, "all to park", func() bool { return f.d.ParkedClaims() == claims })
	f.idle()
	commits := func() int {
		f.exec(`SELECT pg_stat_clear_snapshot()`)
		return f.count(`SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`)
	}
	before := commits()
	<-time.After(3 * time.Second)
	// polls 5, scan 1 and refreshes 3 a second; and as much again for this test's own
	if n := commits() - before; n > 100 {
		t.Errorf("%d transactions in 3 s while %d claims are parked", n, claims)
	}
	f.submit(plain())
	if got := <-answers; len(got.jobs) != 1 || got.err != nil {
		t.Fatalf("a claim got %+v, %v", got.jobs, got.err)
	}
	f.idle()
	if n := f.d.ParkedClaims(); n != claims-1 || len(answers) > 0 {
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
	f.many(f.tenant, 400, plain())
	var group sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 8 {
		group.Go(func() {
			for range 25 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(6000))*time.Microsecond)
				call := f.claimCall()
				call.Max = 1 + rand.IntN(3)
				jobs, err := f.d.Claim(ctx, call)
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
		return f.count(`SELECT count(*) FROM jobs WHERE state = 'running'`) == got
	})
	if n := f.count(`SELECT count(*) FROM jobs WHERE state = 'queued' AND attempt <> 0`); n != 0 {
		t.Errorf("%d jobs wait with an attempt spent", n)
	}
	t.Logf("%d of 400 jobs were taken", got)
}

func (f *fixture) platformCall(most int) dispatch.ClaimCall {
	return dispatch.ClaimCall{Owner: tenant.Platform, WorkerID: "p1", Queues: []string{"default"}, Max: most}
}

// A tenant with one job after a tenant with thousands waits for one round.
func TestAQuietTenantWaitsForOneRound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(f.tenant, 1000, plain())
	f.many(f.tenant, 1000, plain())
	if got := f.claim(f.platformCall(500)); len(got) != 500 {
		t.Fatalf("claimed %d", len(got))
	}
	quiet := map[tenant.ID]bool{}
	for range 20 {
		id := f.newTenant()
		f.many(id, 1, plain())
		quiet[id] = true
	}
	round := f.claim(f.platformCall(21))
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
		id := f.newTenant()
		f.exec(`UPDATE tenants SET weight = $1, updated_at = statement_timestamp() WHERE id = $2`, weight, id)
		f.refresh()
		f.many(id, 600, plain())
		weights[id] = weight
	}
	had := map[tenant.ID]int{}
	total := 0
	for i := 0; total < 800; i++ {
		for _, job := range f.claim(f.platformCall([]int{1, 7, 40, 3}[i%4])) {
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
		request := []api.SubmitRequest{plain(), tagged("x"), tagged("y")}[i%3]
		request.Priority = new(i % 10)
		jobs = append(jobs, request)
	}
	f.submit(jobs...)
	call := f.claimCall()
	call.Tags, call.Max = &[]string{"x", "y"}, 4
	last := int16(api.MaxPriority)
	for range 7 {
		for _, job := range f.claim(call) {
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
	f.many(f.tenant, 30, in("slow"))
	f.exec(`UPDATE queues SET rate_per_second = 8, updated_at = statement_timestamp() WHERE name = 'slow'`)
	f.refresh()
	f.run()
	// At once what starts in a second, and then what the time allows: on a busy machine another
	// job may start while the first claim is under way.
	begun := time.Now()
	first := f.claim(f.claimCall("slow"))
	second := f.claim(f.claimCall("slow"))
	if most := 8 + 1 + 8*time.Since(begun).Seconds(); len(first) < 8 || float64(len(first)+len(second)) > most {
		t.Fatalf("claimed %d and %d at 8 a second, at most %.1f", len(first), len(second), most)
	}
	call := f.waitCall("slow")
	call.Wait, call.Max = 10*time.Second, 1
	for range 4 {
		if got := f.claim(call); len(got) != 1 {
			t.Fatal("a claim that waits gets nothing of a queue with a rate")
		}
	}
}

// A hint may arrive before its lane is cached: a claim that waits for that
// lane is woken when it is.
func TestAHintOfALaneNotYetKnown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	celltest.Eventually(t, "the first scan", f.d.Scanned)
	other := f.newCore(celltest.OpenURL(t, f.url))
	waiting := f.goClaim(t.Context(), f.waitCall("new"))
	celltest.Eventually(t, "the claim to park", func() bool { return f.d.ParkedClaims() == 1 })
	answers := other.Submit(t.Context(), []dispatch.SubmitCall{f.call(in("new"))})
	f.accepted(answers...)
	f.d.WakeHere([]jobs.Waiting{{Ready: answers[0].Ready[0], Jobs: 1}})
	if got := <-waiting; len(got.jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
}
