package claims_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (f *fixture) leave(owner tenant.ID, id string) {
	f.Helper()
	if err := f.D.Leave(f.Context(), owner, id); err != nil {
		f.Fatal(err)
	}
}

// listed are the names of an owner's workers.
func (f *fixture) listed(owner tenant.ID) []string {
	f.Helper()
	workers, err := f.Store.Workers.List(f.Context(), owner, "", 100)
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for i := range workers {
		names = append(names, workers[i].WorkerID)
	}
	return names
}

func (f *fixture) by(worker string) claims.Call {
	call := f.ClaimCall()
	call.WorkerID = worker
	return call
}

// Another worker, which waits, gets the jobs at once, with the same attempt number; the holder's
// reports change nothing.
func TestALeavingWorkersJobsGoToAnother(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain(), enginetest.Plain(), enginetest.Plain())
	held := f.Claim(f.by("w1"))
	waiting := f.by("w2")
	waiting.Wait = enginetest.Long
	other := f.Park(t.Context(), waiting)[0]
	f.leave(f.Tenant, "w1")
	got := <-other
	got.Jobs = append(got.Jobs, f.Claim(f.by("w2"))...)
	if got.Err != nil || len(got.Jobs) != len(held) {
		t.Fatalf("the other worker got %d of %d, %v", len(got.Jobs), len(held), got.Err)
	}
	for i := range got.Jobs {
		if got.Jobs[i].Attempt != 1 || got.Jobs[i].Epoch != 2 {
			t.Errorf("attempt %d, epoch %d; want the same attempt in the next epoch", got.Jobs[i].Attempt, got.Jobs[i].Epoch)
		}
	}
	if names := f.listed(f.Tenant); len(names) != 1 || names[0] != "w2" {
		t.Errorf("workers = %v", names)
	}
	f.lost(held[0].Lease())
	f.leave(f.Tenant, "w1") // a repeat changes nothing
	f.leave(f.Tenant, "never there")
	if running := f.Count(`SELECT count(*) FROM jobs WHERE state = 'running' AND worker_id = 'w2'`); running != 3 {
		t.Errorf("%d of the other's 3 jobs still run", running)
	}
}

// lost checks that whatever a lease's holder does is answered by a lost lease.
func (f *fixture) lost(lease job.Lease) {
	f.Helper()
	for _, kind := range []string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease} {
		if ended := f.D.End(f.Context(), []jobs.Ending{{Lease: lease, Kind: kind}})[0]; !errors.Is(ended.Err, jobs.ErrLeaseLost) {
			f.Errorf("%s: %v, want a lost lease", kind, ended.Err)
		}
	}
	if statuses, err := f.D.Heartbeat(f.Context(), []jobs.Report{{Lease: lease}}); err != nil || statuses[0].Status != api.LeaseLost {
		f.Errorf("heartbeat: %+v, %v", statuses, err)
	}
}

// Also before another worker has claimed the job.
func TestTheHolderOfALeftLeaseHasLostIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(enginetest.Plain())[0]
	held := f.Claim(f.by("w1"))
	f.leave(f.Tenant, "w1")
	f.lost(held[0].Lease())
	if got := f.Get(id); got.State != api.StateQueued || got.Attempt != 0 {
		t.Errorf("the job is %s at attempt %d", got.State, got.Attempt)
	}
	if _, err := f.Store.Workers.Beat(t.Context(), f.Tenant, "w1"); !errors.Is(err, workers.ErrUnknown) {
		t.Errorf("heartbeat of the worker: %v", err)
	}
	if got := f.Claim(f.by("w1")); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("it claims again: %+v", got)
	}
	if names := f.listed(f.Tenant); len(names) != 1 {
		t.Errorf("it is not known again: %v", names)
	}
	if _, err := f.Store.Workers.Beat(t.Context(), f.Tenant, "w1"); err != nil {
		t.Errorf("heartbeat of the worker that came back: %v", err)
	}
}

// A worker of the same name, of another tenant or of the platform, is another one.
func TestALeavingWorkerIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain(), enginetest.Plain())
	mine := f.by("w")
	mine.Max = 1
	f.Claim(mine)
	platform := f.by("w")
	platform.Owner = tenant.Platform
	if got := f.Claim(platform); len(got) != 1 {
		t.Fatalf("the platform claimed %d", len(got))
	}
	stranger := f.NewTenant()
	f.leave(stranger, "w")
	held := func(owner tenant.ID) int {
		return f.Count(`SELECT count(*) FROM jobs WHERE state = 'running' AND worker_owner = $1`, owner)
	}
	if held(f.Tenant) != 1 || held(tenant.Platform) != 1 || len(f.listed(f.Tenant)) != 1 {
		t.Error("a stranger made another's worker leave")
	}
	f.leave(tenant.Platform, "w")
	if held(f.Tenant) != 1 || held(tenant.Platform) != 0 || len(f.listed(f.Tenant)) != 1 || len(f.listed(tenant.Platform)) != 0 {
		t.Error("the platform's worker took more than itself, or less")
	}
}

// More leases than one statement lists, under caps whose counts stay right. A job whose cancel was
// requested is cancelled.
func TestAWorkerWithManyLeasesLeaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const many = 2*1000 + 3
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(many)), MaxActive: new(int64(2 * many))}})
	jobs := make([]api.SubmitRequest, many)
	for i := range jobs {
		jobs[i] = enginetest.Plain()
	}
	ids := f.Submit(jobs...)
	held := 0
	for range 20 {
		held += len(f.Claim(f.by("w1")))
	}
	if held != many {
		t.Fatalf("claimed %d of %d", held, many)
	}
	if _, requested, err := f.D.Cancel(t.Context(), f.Tenant, "", ids[0]); err != nil || !requested {
		t.Fatal(requested, err)
	}
	f.leave(f.Tenant, "w1")
	if left := f.Count(`SELECT count(*) FROM jobs WHERE state <> 'queued' OR attempt <> 0 OR lease_id IS NOT NULL`); left != 0 {
		t.Errorf("%d jobs did not go back", left)
	}
	if got := f.Get(ids[0]); got.State != api.StateCancelled {
		t.Errorf("the job with a requested cancel is %s", got.State)
	}
	f.noDrift()
	if got := f.Claim(f.by("w2")); len(got) != 1000 {
		t.Errorf("another worker claimed %d under the cap", len(got))
	}
	f.noDrift()
}

// A claim that waits ends empty: the jobs that its worker gives back are not leased to it again.
func TestALeavingWorkersWaitingClaimEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain())
	held := f.Claim(f.by("w1"))
	call := f.by("w1")
	call.Wait = enginetest.Long
	waiting := f.Park(t.Context(), call)[0]
	f.leave(f.Tenant, "w1")
	if got := <-waiting; len(got.Jobs) != 0 || got.Err != nil {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
	if got := f.Get(held[0].ID); got.State != api.StateQueued || got.Attempt != 0 {
		t.Errorf("the job is %s at attempt %d", got.State, got.Attempt)
	}
	if f.D.ParkedClaims() != 0 || len(f.listed(f.Tenant)) != 0 {
		t.Error("the claim is still parked, or its worker listed")
	}
}

// A claim whose statement commits after the leases were listed gives its jobs back itself.
func TestAClaimThatCommitsAfterItsWorkerLeft(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"at once": 0, "waiting": enginetest.Long} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.Submit(enginetest.Plain())[0]
			unlock := f.LockJobs()
			call := f.by("w1")
			call.Wait = wait
			claiming := f.GoClaim(t.Context(), call)
			f.Blocked(1)
			f.D.WorkerLeft(f.Tenant, "w1")
			unlock()
			if got := <-claiming; len(got.Jobs) != 0 || got.Err != nil {
				t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
			}
			if got := f.Get(id); got.State != api.StateQueued || got.Attempt != 0 {
				t.Errorf("the job is %s at attempt %d", got.State, got.Attempt)
			}
		})
	}
}

// A claim that made the worker known while it left does not leave it listed.
func TestAClaimDoesNotListAWorkerThatLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn := celltest.Connect(t, f.URL)
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE workers IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	claiming := f.GoClaim(t.Context(), f.by("w1"))
	f.Blocked(1)
	f.D.WorkerLeft(f.Tenant, "w1")
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-claiming; got.Err != nil {
		t.Fatal(got.Err)
	}
	if names := f.listed(f.Tenant); len(names) != 0 {
		t.Errorf("workers = %v", names)
	}
	f.Claim(f.by("w1"))
	if names := f.listed(f.Tenant); len(names) != 1 {
		t.Errorf("it claims again, and workers = %v", names)
	}
}

// What the worker claimed in another core, too; that core is notified, ends the claims that wait there,
// and makes the worker known again by its next claim.
func TestAnotherCoreLearnsThatAWorkerLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	here := f.D
	var told []string
	elsewhere := f.NewCoreWith(engine.Options{Store: f.Store, Hints: publish.Hints{Left: func(owner tenant.ID, id string) {
		told = append(told, id)
		here.WorkerLeft(owner, id)
	}}})
	id := f.Submit(enginetest.Plain())[0]
	f.Claim(f.by("w1"))
	call := f.by("w1")
	call.Wait = enginetest.Long
	waiting := f.Park(t.Context(), call)[0]
	if err := elsewhere.Leave(t.Context(), f.Tenant, "w1"); err != nil {
		t.Fatal(err)
	}
	if got := <-waiting; len(got.Jobs) != 0 || got.Err != nil {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
	if got := f.Get(id); got.State != api.StateQueued || len(told) != 1 || told[0] != "w1" {
		t.Errorf("the job is %s, told %v", got.State, told)
	}
	if got := f.Claim(f.by("w1")); len(got) != 1 || len(f.listed(f.Tenant)) != 1 {
		t.Errorf("claimed %d, workers %v", len(got), f.listed(f.Tenant))
	}
}

// What a new process of the same name claims after the goodbye is its own; and the goodbye of a
// caller that has gone goes on.
func TestAGoodbyeHasItsTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain(), enginetest.Plain())
	one := f.by("w1")
	one.Max = 1
	before := f.Claim(one)
	removed, err := f.Store.Workers.Remove(t.Context(), f.Tenant, "w1")
	if err != nil || !removed.Known {
		t.Fatal(removed, err)
	}
	after := f.Claim(one)
	leases, err := f.Store.JobReads.HeldBy(t.Context(), f.Tenant, "w1", removed.At, 10)
	if err != nil || len(leases) != 1 || leases[0] != before[0].Lease() || len(after) != 1 {
		t.Errorf("leases = %+v, %v", leases, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.D.Leave(gone, f.Tenant, "w1"); err != nil {
		t.Fatal(err)
	}
	if running := f.Count(`SELECT count(*) FROM jobs WHERE state = 'running'`); running != 0 {
		t.Errorf("%d leases are left", running)
	}
}

// A holder's outcome in the same flush as the goodbye: the first decides.
func TestAnOutcomeAndAGoodbyeTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain(), enginetest.Plain())
	found := f.Claim(f.by("w1"))
	of := func(one *claim.Job, kind string, left bool) jobs.Ending {
		return jobs.Ending{Lease: one.Lease(), Kind: kind, Left: left}
	}
	ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{
		of(&found[0], api.KindRelease, true), of(&found[0], api.KindRelease, false),
		of(&found[1], api.KindComplete, false), of(&found[1], api.KindRelease, true),
	})
	if ended[0].Err != nil || !errors.Is(ended[1].Err, jobs.ErrLeaseLost) || ended[2].Err != nil || !errors.Is(ended[3].Err, jobs.ErrOutcomeConflict) {
		t.Errorf("ended: %v, %v, %v, %v", ended[0].Err, ended[1].Err, ended[2].Err, ended[3].Err)
	}
	// Leases that ended after they were listed are no error: one given back, one completed, one of a job that is gone.
	unknown := found[0].Lease()
	unknown.Job = uuid.New()
	if err := f.D.Release(t.Context(), found[0].Lease(), found[1].Lease(), unknown); err != nil {
		t.Error(err)
	}
}

// The claims of a tenant that is moved to another cell end empty; those of other tenants wait on, and so do later ones of its own.
func TestClaimsOfATenantThatHasLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain())
	held := f.Claim(f.by("w1"))
	mine, platforms := f.by("w1"), f.by("p")
	mine.Wait, platforms.Wait, platforms.Owner, mine.Max, platforms.Max = enginetest.Long, enginetest.Long, tenant.Platform, 1, 1
	parked := f.Park(t.Context(), mine, platforms)
	f.D.TenantLeft(f.Tenant)
	if got := <-parked[0]; got.Err != nil || len(got.Jobs) > 0 {
		t.Errorf("%+v", got)
	}
	if parked := f.D.ParkedClaims(); parked != 1 {
		t.Errorf("%d claims wait, want the platform's", parked)
	}
	if row := f.Get(held[0].ID); row.State != string(job.Running) {
		t.Errorf("the job that it holds is %s", row.State)
	}
	later := f.Park(t.Context(), mine)[0]
	f.Submit(enginetest.Plain(), enginetest.Plain())
	for _, one := range []<-chan enginetest.Answer{parked[1], later} {
		if got := <-one; got.Err != nil || len(got.Jobs) == 0 {
			t.Errorf("%+v", got)
		}
	}
}
