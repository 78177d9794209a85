package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestAWorkerGetsWhatItsTagsCover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tags []string
		want int
	}{
		"none":         {nil, 1},
		"one of two":   {[]string{"gpu"}, 2},
		"all and more": {[]string{"eu", "gpu", "big"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.submit(plain(), tagged("gpu"), tagged("gpu", "eu"))
			call := f.claimCall()
			call.Tags = &c.tags
			if got := f.claim(call); len(got) != c.want {
				t.Errorf("claimed %d, want %d", len(got), c.want)
			}
		})
	}
}

func TestPausedAndPushQueuesAreNotClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(in("open"), in("paused"), in("pushed"))
	f.exec(`UPDATE queues SET paused = (name = 'paused'), mode = CASE name WHEN 'pushed' THEN 'push' ELSE 'pull' END,
		updated_at = statement_timestamp()`)
	f.refresh()
	got := f.claim(f.claimCall("open", "paused", "pushed"))
	if len(got) != 1 || got[0].Queue != "open" {
		t.Fatalf("claimed %+v", got)
	}
	f.exec(`UPDATE queues SET paused = false, mode = 'pull', updated_at = statement_timestamp()`)
	f.refresh()
	if got := f.claim(f.claimCall("open", "paused", "pushed")); len(got) != 2 {
		t.Errorf("claimed %d after resuming, want 2", len(got))
	}
}

func TestAClaimIsOneTenantsAndThePlatformsEverybodys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine := f.submit(plain())[0]
	other := f.call(plain())
	other.Tenant = f.newTenant()
	f.accepted(f.d.Submit(t.Context(), []dispatch.SubmitCall{other})...)

	stranger := f.claimCall()
	stranger.Owner = f.newTenant()
	if got := f.claim(stranger); len(got) != 0 {
		t.Fatalf("a stranger claimed %d", len(got))
	}
	// a queue named twice is served once: two entries would lock the same rows
	platform := f.claimCall("default", "default", "default")
	platform.Owner = tenant.Platform
	got := f.claim(platform)
	if set := ids(got); len(got) != 2 || !set[mine] || !set[other.IDs[0]] {
		t.Errorf("the platform claimed %v", set)
	}
}

func TestAQueueTwiceInTheList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain(), plain(), plain())
	call := f.claimCall("default", "default")
	call.Max = 2
	if got := f.claim(call); len(got) != 2 {
		t.Errorf("claimed %d, want 2", len(got))
	}
	if got := f.claim(call); len(got) != 1 {
		t.Errorf("claimed %d, want 1", len(got))
	}
}

func TestMoreLanesThanOneStatementTakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const lanes = 3*dispatch.ListsPerClaim + 5
	var jobs []api.SubmitRequest
	tags := make([]string, lanes)
	for i := range lanes {
		tags[i] = fmt.Sprintf("t%d", i)
		jobs = append(jobs, tagged(tags[i]))
	}
	f.submit(jobs...)
	call := f.claimCall()
	call.Tags = &tags
	call.Max = lanes - 10
	first := f.claim(call)
	if len(first) != lanes-10 {
		t.Fatalf("claimed %d, want %d", len(first), lanes-10)
	}
	// only few lanes hold a job now, somewhere among many
	second := f.claim(call)
	if len(second) != 10 {
		t.Errorf("claimed %d, want the other 10", len(second))
	}
	if got := f.claim(call); len(got) != 0 {
		t.Errorf("claimed %d from empty lanes", len(got))
	}
}

func TestNoLaneIsAlwaysLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var jobs []api.SubmitRequest
	for range 6 {
		jobs = append(jobs, tagged("a"), tagged("b"))
	}
	f.submit(jobs...)
	call := f.claimCall()
	call.Tags, call.Max = &[]string{"a", "b"}, 1
	served := map[string]int{}
	for range 6 {
		for _, job := range f.claim(call) {
			served[job.Tags[0]]++
		}
	}
	if served["a"] != 3 || served["b"] != 3 {
		t.Errorf("served %v, want each lane in rotation", served)
	}
}

func TestRegisteredTagsAreUsedWhereNoneAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain(), tagged("gpu"), tagged("eu"))
	if _, err := f.d.Register(t.Context(), f.tenant, api.WorkerRequest{WorkerID: "w1", Tags: []string{"gpu"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.claim(f.claimCall()); len(got) != 2 {
		t.Errorf("claimed %d, want 2", len(got))
	}
	// registering again counts at once, not after what is remembered has aged
	if _, err := f.d.Register(t.Context(), f.tenant, api.WorkerRequest{WorkerID: "w1", Tags: []string{"eu"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.claim(f.claimCall()); len(got) != 1 {
		t.Errorf("claimed %d, want 1", len(got))
	}
}

func TestAClaimingWorkerIsWrittenNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := func() (at time.Time) {
		t.Helper()
		if err := f.direct.QueryRow(t.Context(), `SELECT last_heartbeat_at FROM workers WHERE worker_id = 'w1'`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	f.claim(f.claimCall())
	first := seen()
	for range 5 {
		f.claim(f.claimCall())
	}
	if again := seen(); !again.Equal(first) {
		t.Errorf("written again after %v", again.Sub(first))
	}
	f.d.ForgetWorkers()
	f.claim(f.claimCall())
	if again := seen(); !again.After(first) {
		t.Error("a worker that goes on claiming was not written again")
	}
}

// The claim's statement runs on after its caller has gone, since one that is cut
// off may have leased jobs with an unknown outcome. What it leased is returned.
func TestACallerThatLeavesMeanwhileSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit(plain())[0]
	f.claim(f.claimCall("nothing")) // the worker is known: what follows is the claim itself
	unlock := f.lockJobs()
	ctx, leave := context.WithCancel(t.Context())
	done := f.goClaim(ctx, f.claimCall())
	f.blocked(1)
	leave()
	unlock()
	if got := <-done; !errors.Is(got.err, context.Canceled) || len(got.jobs) != 0 {
		t.Errorf("claim = %v, %v", got.jobs, got.err)
	}
	celltest.Eventually(t, "the job to be back", func() bool {
		back := f.get(id)
		return back.State == api.StateQueued && back.Attempt == 0 && back.Epoch == 1
	})
	if got := f.claim(f.claimCall()); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("the next claim got %+v", got)
	}
}

func TestWhatIsGivenBackWakesTheNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit(plain())[0]
	taken := f.claim(f.claimCall())
	call := f.claimCall()
	call.Wait = 20 * time.Second
	waiting := f.park(t.Context(), call)[0]
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.d.GiveBack(ended, taken) // even when its context is over
	if got := <-waiting; len(got.jobs) != 1 || got.jobs[0].ID != id || got.jobs[0].Attempt != 1 {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
}

func TestHeartbeatsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain(), plain())
	claimed := f.claim(f.claimCall())
	f.exec(`UPDATE jobs SET cancel_requested = true WHERE id = $1`, claimed[0].ID)
	stale := claimed[1].Lease()
	stale.Epoch++
	leases := []job.Lease{stale, claimed[0].Lease(), {Tenant: f.tenant, Job: uuid.New()}, claimed[1].Lease(), claimed[1].Lease()}
	statuses, err := f.d.Heartbeat(t.Context(), jobs.Plain(leases))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{api.LeaseLost, api.LeaseCancel, api.LeaseLost, api.LeaseOK, api.LeaseOK} {
		if statuses[i].Status != want || (statuses[i].LeaseExpiresAt == nil) != (want == api.LeaseLost) ||
			statuses[i].JobID != leases[i].Job.String() {
			t.Errorf("lease %d: %+v, want %s", i, statuses[i], want)
		}
	}
}

// Each outcome has its own answer, whatever the others are.
func TestABadOutcomeFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain(), plain(), plain(), plain())
	claimed := f.claim(f.claimCall())
	ended := f.d.End(t.Context(), []jobs.Ending{
		{Lease: claimed[0].Lease(), Kind: api.KindComplete, Result: []byte("\"\xff\"")},
		{Lease: claimed[1].Lease(), Kind: api.KindComplete, Result: []byte("1")},
		{Lease: claimed[2].Lease(), Kind: "explode"},
		{Lease: claimed[3].Lease(), Kind: api.KindFail, Permanent: true},
	})
	for i, want := range []string{"", api.StateCompleted, "", api.StateDeadLetter} {
		if want == "" {
			if ended[i].Err == nil {
				t.Errorf("outcome %d was accepted", i)
			}
			continue
		}
		if ended[i].Err != nil || ended[i].Outcome.State != want {
			t.Errorf("outcome %d: %+v, want %s", i, ended[i], want)
		}
	}
}

func TestAClaimWithTheDatabaseGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	f.claim(f.claimCall())
	other := celltest.Connect(t, f.adminURL())
	if _, err := other.Exec(t.Context(), `DROP DATABASE `+f.database()+` WITH (FORCE)`); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the refusal to be the database's", func() bool {
		_, err := f.d.Claim(t.Context(), f.claimCall())
		return errors.Is(err, store.ErrUnavailable)
	})
	answers := f.d.Submit(t.Context(), []dispatch.SubmitCall{f.call(plain()), f.call(in("new"))})
	for i, answer := range answers {
		if !errors.Is(answer.Err, store.ErrUnavailable) || errors.Is(answer.Err, store.ErrOutcomeUnknown) {
			t.Errorf("submit %d: %v", i, answer.Err)
		}
	}
}
