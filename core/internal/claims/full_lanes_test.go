package claims_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// askedLanes counts the lanes that claims under caps ask, from their statements' lists.
type askedLanes struct{ n atomic.Int64 }

func (a *askedLanes) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "FOR UPDATE SKIP LOCKED") && strings.Contains(data.SQL, "share_firsts") {
		a.n.Add(int64(len(data.Args[0].(store.Args)["list_lanes"].([]lanes.ID))))
	}
	return ctx
}

func (*askedLanes) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// fullUsers gives a core whose tenant has users, each at the running cap of 1 with one more job waiting, and the
// jobs that run.
func (f *fixture) fullUsers(n int) (asked *askedLanes, running []claim.Job) {
	f.Helper()
	asked = &askedLanes{}
	opened, err := cell.Open(f.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 8, PoolWait: 5 * time.Second, Tracer: asked}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(opened.Close)
	f.D = f.NewCore(opened)
	return asked, f.fill(n)
}

// fill gives the fixture's tenant n users, each at the running cap of 1 with one more job waiting, and gives the jobs
// that run.
func (f *fixture) fill(n int) (running []claim.Job) {
	f.Helper()
	f.Override(api.Overrides{Limits: api.Limits{UserMaxRunning: new(int64(1))}})
	var jobs []api.SubmitRequest
	for i := range n {
		user := fmt.Sprint("u", i)
		jobs = append(jobs, enginetest.Request(user), enginetest.Request(user))
	}
	f.Submit(jobs...)
	for len(running) < n {
		got := f.Take(1000)
		if len(got) == 0 {
			f.Fatalf("%d of %d users run", len(running), n)
		}
		running = append(running, got...)
	}
	if more := f.Take(10); len(more) != 0 {
		f.Fatalf("%d jobs over the caps", len(more))
	}
	return running
}

// A lane under a full cap is asked again when capacity is released, not by each claim: a claim costs the same
// however many users are at their cap.
func TestFullLanesAreNotAskedByEachClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const users, claims = 300, 20
	asked, running := f.fullUsers(users)
	before, begun := asked.n.Load(), time.Now()
	for range claims {
		if got := f.Take(10); len(got) != 0 {
			t.Fatalf("%d jobs over the caps", len(got))
		}
	}
	// The net for lost signs asks some of them, in turn.
	most := int64(time.Since(begun)/scheduler.RetryEvery+1) * scheduler.RetryMost
	if n := asked.n.Load() - before; n > most {
		t.Errorf("%d claims with nothing to take asked %d lanes, want at most %d", claims, n, most)
	}
	// A free job of the same queue starts, whatever the others wait for.
	f.Submit(enginetest.Request(""))
	if got := f.Take(10); len(got) != 1 || got[0].UserID != nil {
		t.Fatalf("claimed %d jobs, want the free one", len(got))
	}
	// The end of a user's job frees that user's lane alone.
	ended := running[users/2]
	f.End([]claim.Job{ended})
	if got := f.Take(10); len(got) != 1 || *got[0].UserID != *ended.UserID {
		t.Fatalf("claimed %d jobs, want the one of %s", len(got), *ended.UserID)
	}
	f.noDrift()
}

// A cap that is raised or removed frees the lanes under it.
func TestRaisedCapsFreeFullLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const users = 60
	f.fullUsers(users)
	f.Override(api.Overrides{Limits: api.Limits{UserMaxRunning: new(int64(2))}})
	claimed := 0
	for range users {
		got := f.Take(1000)
		if claimed += len(got); len(got) == 0 {
			break
		}
	}
	if claimed != users {
		t.Errorf("%d jobs started after the cap was raised, want %d", claimed, users)
	}
	f.noDrift()
}

// Without any sign that capacity was released, as when the hint of another core is lost, full lanes are asked
// again in turn.
func TestFullLanesAreAskedAgainWithoutASign(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const users = 3 * scheduler.RetryMost
	_, running := f.fullUsers(users)
	leases := make([]job.Lease, len(running))
	for i := range running {
		leases[i] = running[i].Lease()
	}
	for _, lease := range leases { // not by this core
		if ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindComplete}})[0]; ended.Err != nil {
			t.Fatal(ended.Err)
		}
	}
	claimed := 0
	for over := time.Now().Add(5 * time.Minute); claimed < users && time.Now().Before(over); {
		claimed += len(f.Take(1000))
	}
	if claimed != users {
		t.Errorf("%d jobs started, want %d", claimed, users)
	}
}

// Users at their caps, of several tenants, slow neither claims that find nothing nor free jobs of another type, whatever
// polls beside them. FORGEQUEUE_FAULTS=long measures with 10,000 users.
func TestFullLanesSlowNoClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	users := 100
	if os.Getenv("FORGEQUEUE_FAULTS") == "long" {
		users = 5000
	}
	f.fullUsers(users)
	f.Tenant = f.NewTenant()
	f.fill(users)
	f.Run()
	celltest.Eventually(t, "a scan", f.D.Scanned)
	call := f.ClaimCall()
	call.Owner, call.Types, call.Max = tenant.Platform, []string{"test"}, 10
	const claims = 200
	took := make([]time.Duration, claims)
	for i := range took {
		begun := time.Now()
		if got := f.Claim(call); len(got) != 0 {
			t.Fatalf("%d jobs over the caps", len(got))
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	stop, polling := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		polling.Go(func() {
			for !isClosed(stop) {
				if got, err := f.D.Claim(t.Context(), call); err != nil || len(got) != 0 {
					t.Errorf("%d jobs over the caps, %v", len(got), err)
				}
			}
		})
	}
	free := call
	free.WorkerID, free.Types, free.Wait = "free", []string{"free"}, time.Minute
	var slowest time.Duration
	for range 10 {
		waiting := f.GoClaim(t.Context(), free)
		begun := time.Now()
		f.Submit(api.SubmitRequest{Type: "free", User: new("u1")}, api.SubmitRequest{Type: "free"})
		if got := <-waiting; got.Err != nil || len(got.Jobs) == 0 {
			t.Errorf("no free job starts: %v", got.Err)
		}
		slowest = max(slowest, time.Since(begun))
		for f.Count(`SELECT count(*) FROM jobs WHERE type = 'free' AND state = 'queued' AND user_id IS NULL`) > 0 {
			f.Claim(free)
		}
	}
	close(stop)
	polling.Wait()
	t.Logf("FIGURE users=%d claim_p50=%v claim_p99=%v free_job_slowest=%v", 2*users, took[claims/2], took[claims*99/100], slowest)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
