package claims_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
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
			f.Submit(enginetest.Plain(), enginetest.Tagged("gpu"), enginetest.Tagged("gpu", "eu"))
			call := f.ClaimCall()
			call.Tags = &c.tags
			if got := f.Claim(call); len(got) != c.want {
				t.Errorf("claimed %d, want %d", len(got), c.want)
			}
		})
	}
}

func TestPausedAndPushQueuesAreNotClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.In("open"), enginetest.In("paused"), enginetest.In("pushed"))
	f.Exec(`UPDATE queues SET paused = (name = 'paused'), mode = CASE name WHEN 'pushed' THEN 'push' ELSE 'pull' END,
		updated_at = statement_timestamp()`)
	f.Refresh()
	got := f.Claim(f.ClaimCall("open", "paused", "pushed"))
	if len(got) != 1 || got[0].Queue != "open" {
		t.Fatalf("claimed %+v", got)
	}
	f.Exec(`UPDATE queues SET paused = false, mode = 'pull', updated_at = statement_timestamp()`)
	f.Refresh()
	if got := f.Claim(f.ClaimCall("open", "paused", "pushed")); len(got) != 2 {
		t.Errorf("claimed %d after resuming, want 2", len(got))
	}
}

// No job of a queue starts in its window; a claim that waits gets one when it has ended, though nobody wakes it.
func TestAQueueInAWindowIsNotClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Run()
	f.Submit(enginetest.In("night"))
	begin := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	end := begin.Add(time.Minute + 5*time.Second)
	window := api.Window{Cron: fmt.Sprintf("%d %d %d * * *", begin.Second(), begin.Minute(), begin.Hour()), DurationMS: end.Sub(begin).Milliseconds()}
	put := func(name string, windows ...api.Window) api.Queue {
		shown, err := f.D.PutQueue(t.Context(), f.Tenant, name, api.QueueRequest{Windows: windows})
		if err != nil {
			t.Fatal(err)
		}
		return shown
	}
	put("night", window)
	if shown := put("always", api.Window{Cron: "* * * * *", DurationMS: time.Hour.Milliseconds()}); shown.WindowUntil == nil || shown.WindowUntil.Before(time.Now().Add(time.Hour-time.Minute)) {
		t.Errorf("%+v", shown)
	}
	if shown := put("always"); shown.WindowUntil != nil || len(shown.Settings.Windows) != 0 {
		t.Errorf("without windows: %+v", shown)
	}
	got := <-f.GoClaim(t.Context(), f.WaitCall("night"))
	if now := time.Now(); got.Err != nil || len(got.Jobs) != 1 || now.Before(end) {
		t.Errorf("%+v at %v, %v before the end", got, now, end.Sub(now))
	}
}

func TestAClaimIsOneTenantsAndThePlatformsEverybodys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine := f.Submit(enginetest.Plain())[0]
	other := f.Call(enginetest.Plain())
	other.Tenant = f.NewTenant()
	f.Accepted(f.D.Submit(t.Context(), []submits.Call{other})...)

	stranger := f.ClaimCall()
	stranger.Owner = f.NewTenant()
	if got := f.Claim(stranger); len(got) != 0 {
		t.Fatalf("a stranger claimed %d", len(got))
	}
	// a queue named twice is served once: two entries would lock the same rows
	platform := f.ClaimCall("default", "default", "default")
	platform.Owner = tenant.Platform
	got := f.Claim(platform)
	if set := enginetest.IDs(got); len(got) != 2 || !set[mine] || !set[other.IDs[0]] {
		t.Errorf("the platform claimed %v", set)
	}
}

func TestAQueueTwiceInTheList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain(), enginetest.Plain(), enginetest.Plain())
	call := f.ClaimCall("default", "default")
	call.Max = 2
	if got := f.Claim(call); len(got) != 2 {
		t.Errorf("claimed %d, want 2", len(got))
	}
	if got := f.Claim(call); len(got) != 1 {
		t.Errorf("claimed %d, want 1", len(got))
	}
}

func TestMoreLanesThanOneStatementTakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const lanes = 3*claims.ListsPerClaim + 5
	var jobs []api.SubmitRequest
	tags := make([]string, lanes)
	for i := range lanes {
		tags[i] = fmt.Sprintf("t%d", i)
		jobs = append(jobs, enginetest.Tagged(tags[i]))
	}
	f.Submit(jobs...)
	call := f.ClaimCall()
	call.Tags = &tags
	call.Max = lanes - 10
	first := f.Claim(call)
	if len(first) != lanes-10 {
		t.Fatalf("claimed %d, want %d", len(first), lanes-10)
	}
	// only few lanes hold a job now, somewhere among many
	second := f.Claim(call)
	if len(second) != 10 {
		t.Errorf("claimed %d, want the other 10", len(second))
	}
	if got := f.Claim(call); len(got) != 0 {
		t.Errorf("claimed %d from empty lanes", len(got))
	}
}

func TestNoLaneIsAlwaysLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var jobs []api.SubmitRequest
	for range 6 {
		jobs = append(jobs, enginetest.Tagged("a"), enginetest.Tagged("b"))
	}
	f.Submit(jobs...)
	call := f.ClaimCall()
	call.Tags, call.Max = &[]string{"a", "b"}, 1
	served := map[string]int{}
	for range 6 {
		for _, job := range f.Claim(call) {
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
	f.Submit(enginetest.Plain(), enginetest.Tagged("gpu"), enginetest.Tagged("eu"))
	if _, err := f.D.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "w1", Tags: []string{"gpu"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.Claim(f.ClaimCall()); len(got) != 2 {
		t.Errorf("claimed %d, want 2", len(got))
	}
	// registering again counts at once, not after what is remembered has aged
	if _, err := f.D.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "w1", Tags: []string{"eu"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.Claim(f.ClaimCall()); len(got) != 1 {
		t.Errorf("claimed %d, want 1", len(got))
	}
}

func TestAClaimingWorkerIsWrittenNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := func() (at time.Time) {
		t.Helper()
		if err := f.Direct.QueryRow(t.Context(), `SELECT last_heartbeat_at FROM workers WHERE worker_id = 'w1'`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	f.Claim(f.ClaimCall())
	first := seen()
	for range 5 {
		f.Claim(f.ClaimCall())
	}
	if again := seen(); !again.Equal(first) {
		t.Errorf("written again after %v", again.Sub(first))
	}
	f.D.ForgetWorkers()
	f.Claim(f.ClaimCall())
	if again := seen(); !again.After(first) {
		t.Error("a worker that goes on claiming was not written again")
	}
}

// The claim's statement runs on after its caller has gone, since one that is cut
// off may have leased jobs with an unknown outcome. What it leased is returned.
func TestACallerThatLeavesMeanwhileSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(enginetest.Plain())[0]
	f.Claim(f.ClaimCall("nothing")) // the worker is known: what follows is the claim itself
	unlock := f.LockJobs()
	ctx, leave := context.WithCancel(t.Context())
	done := f.GoClaim(ctx, f.ClaimCall())
	f.Blocked(1)
	leave()
	unlock()
	if got := <-done; !errors.Is(got.Err, context.Canceled) || len(got.Jobs) != 0 {
		t.Errorf("claim = %v, %v", got.Jobs, got.Err)
	}
	celltest.Eventually(t, "the job to be back", func() bool {
		back := f.Get(id)
		return back.State == api.StateQueued && back.Attempt == 0 && back.Epoch == 1
	})
	if got := f.Claim(f.ClaimCall()); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("the next claim got %+v", got)
	}
}

func TestWhatIsGivenBackWakesTheNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(enginetest.Plain())[0]
	taken := f.Claim(f.ClaimCall())
	call := f.ClaimCall()
	call.Wait = 20 * time.Second
	waiting := f.Park(t.Context(), call)[0]
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.D.GiveBack(ended, taken) // even when its context is over
	if got := <-waiting; len(got.Jobs) != 1 || got.Jobs[0].ID != id || got.Jobs[0].Attempt != 1 {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
}

func TestHeartbeatsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain(), enginetest.Plain())
	claimed := f.Claim(f.ClaimCall())
	f.Exec(`UPDATE jobs SET cancel_requested = true WHERE id = $1`, claimed[0].ID)
	stale := claimed[1].Lease()
	stale.Epoch++
	leases := []job.Lease{stale, claimed[0].Lease(), {Tenant: f.Tenant, Job: uuid.New()}, claimed[1].Lease(), claimed[1].Lease()}
	statuses, err := f.D.Heartbeat(t.Context(), jobs.Plain(leases))
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
	f.Submit(enginetest.Plain(), enginetest.Plain(), enginetest.Plain(), enginetest.Plain())
	claimed := f.Claim(f.ClaimCall())
	ended := f.D.End(t.Context(), []jobs.Ending{
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
	f.Lane(enginetest.Plain())
	f.Claim(f.ClaimCall())
	other := celltest.Connect(t, f.AdminURL())
	if _, err := other.Exec(t.Context(), `DROP DATABASE `+f.Database()+` WITH (FORCE)`); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the refusal to be the database's", func() bool {
		_, err := f.D.Claim(t.Context(), f.ClaimCall())
		return errors.Is(err, store.ErrUnavailable)
	})
	answers := f.D.Submit(t.Context(), []submits.Call{f.Call(enginetest.Plain()), f.Call(enginetest.In("new"))})
	for i, answer := range answers {
		if !errors.Is(answer.Err, store.ErrUnavailable) || errors.Is(answer.Err, store.ErrOutcomeUnknown) {
			t.Errorf("submit %d: %v", i, answer.Err)
		}
	}
}
