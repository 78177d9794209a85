package claim_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestBeforeIsTheNextSmallerPlace(t *testing.T) {
	t.Parallel()
	at := time.Now()
	place := func(last ...byte) jobs.Cursor {
		c := jobs.Cursor{At: at}
		copy(c.ID[16-len(last):], last)
		return c
	}
	for _, c := range []struct{ of, want jobs.Cursor }{
		{place(5), place(4)},
		{place(1, 0), place(0, 0xff)},
		{place(7, 0, 0), place(6, 0xff, 0xff)},
		{jobs.Cursor{At: at}, jobs.Cursor{At: at}}, // there is no smaller id
	} {
		if got := c.of.Before(); got != c.want {
			t.Errorf("before %v is %v, want %v", c.of, got, c.want)
		}
		if c.of.ID != uuid.Nil && c.of.Before().Compare(c.of) >= 0 {
			t.Errorf("what lies before %v does not", c.of)
		}
	}
}

func (f *fixture) claimShares(most int, shares ...claim.Share) claim.Result {
	f.Helper()
	request := claim.Request{Workers: []claim.Worker{{ID: "w1", Max: most}}, Owner: f.Tenant, LeaseID: uuid.New(), Shares: shares}
	seen := map[lanes.ID]bool{}
	for _, share := range shares {
		for _, list := range share.Lists {
			if !seen[list.Lane] {
				seen[list.Lane] = true
				request.Lanes = append(request.Lanes, claim.Lane{ID: list.Lane, Tenant: f.Tenant, VisibilityTimeout: time.Minute})
			}
		}
	}
	taken, err := f.Store.Claims.Claim(f.Context(), request)
	if err != nil {
		f.Fatal(err)
	}
	return taken
}

// put stores n jobs of a priority in a lane.
func (f *fixture) put(lane lanes.Lane, priority, n int) {
	f.Helper()
	f.Submit(f.Jobs(n, func(j *submit.NewJob) { j.Lane, j.Queue, j.Priority = lane.ID, lane.Queue, priority })...)
}

type listKey struct {
	Lane     lanes.ID
	Priority int16
}

func taken(jobs []claim.Job) map[listKey]int {
	counts := map[listKey]int{}
	for _, job := range jobs {
		counts[listKey{job.LaneID, job.Priority}]++
	}
	return counts
}

func dry(progress []claim.ScanProgress) map[listKey]bool {
	lists := map[listKey]bool{}
	for _, w := range progress {
		lists[listKey{w.Lane, w.Priority}] = w.Exhausted
	}
	return lists
}

// The lists of a share have its jobs together, the first list first: two of them do
// not take everything, and no share takes what is another's.
func TestListsOfAShareUseItTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.Lane, f.NewLane(f.Tenant, "b")
	f.put(a, 9, 3)
	f.put(a, 5, 20)
	f.put(b, 5, 20)
	got := f.claimShares(10, celltest.ShareOf(5, a, 9, 5, 1), celltest.ShareOf(5, b, 9, 5))
	want := map[listKey]int{{a.ID, 9}: 3, {a.ID, 5}: 2, {b.ID, 5}: 5}
	if diff := cmp.Diff(want, taken(got.Jobs)); diff != "" {
		t.Error(diff)
	}
	// What is known: priority 9 of a ended; the end of a 5 is not known. The last
	// share met the claim's end as well.
	if diff := cmp.Diff(map[listKey]bool{{a.ID, 9}: true, {a.ID, 5}: false, {a.ID, 1}: false, {b.ID, 9}: true, {b.ID, 5}: false}, dry(got.Scanned)); diff != "" {
		t.Error(diff)
	}
}

// A claim that ends early says nothing of the lists that it did not reach.
func TestAClaimThatIsFullKnowsNothingOfTheRest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.Lane, f.NewLane(f.Tenant, "b")
	f.put(a, 5, 4)
	got := f.claimShares(4, celltest.ShareOf(9, a, 5, 1), celltest.ShareOf(9, b, 5))
	if diff := cmp.Diff(map[listKey]bool{{a.ID, 5}: false, {a.ID, 1}: false}, dry(got.Scanned)); diff != "" || len(got.Jobs) != 4 {
		t.Errorf("%d jobs; %s", len(got.Jobs), diff)
	}
	got = f.claimShares(4, celltest.ShareOf(9, a, 5, 1), celltest.ShareOf(9, b, 5))
	if diff := cmp.Diff(map[listKey]bool{{a.ID, 5}: true, {a.ID, 1}: true, {b.ID, 5}: true}, dry(got.Scanned)); diff != "" || len(got.Jobs) != 0 {
		t.Errorf("%d jobs; %s", len(got.Jobs), diff)
	}
}

// A claim scans after the cursor only, and gives its progress.
func TestAClaimStartsAfterTheCursor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(f.Lane, 5, 3)
	first := f.claimShares(1, celltest.ShareOf(1, f.Lane, 5))
	f.put(f.Lane, 5, 1)
	to := first.Scanned[0].To
	if job := first.Jobs[0]; !to.At.Equal(job.ReadyAt) || to.ID != job.ID {
		t.Fatalf("came to %v, want the job's place", to)
	}
	after := celltest.ShareOf(9, f.Lane, 5)
	after.Lists[0].After = jobs.Cursor{At: time.Now().Add(time.Hour)}
	if got := f.claimShares(9, after); len(got.Jobs) != 0 {
		t.Errorf("%d jobs after a cursor that lies in the future", len(got.Jobs))
	}
	after.Lists[0].After = to
	if got := f.claimShares(9, after); len(got.Jobs) != 3 {
		t.Errorf("%d jobs after the first, want 3", len(got.Jobs))
	}
}

// One statement leases for several workers, each as many as it asked for.
func TestAClaimDealsItsJobsOut(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]bool{"plain": false, "under a cap": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.put(f.Lane, 5, 6)
			request := claim.Request{
				Lanes:   []claim.Lane{{ID: f.Lane.ID, Tenant: f.Tenant, VisibilityTimeout: time.Minute}},
				Workers: []claim.Worker{{ID: "one", Max: 2}, {ID: "two", Max: 1}, {ID: "three", Max: 9}}, Owner: f.Tenant, LeaseID: uuid.New(),
			}
			if list {
				request.Lanes[0].Caps = []caps.Cap{f.RunningCap(5)}
			}
			got, err := f.Store.Claims.Claim(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"one": 2, "two": 1, "three": 3}
			if list {
				want["three"] = 2
			}
			has := map[string]int{}
			for i, job := range got.Jobs {
				if job.Place != int64(i+1) {
					t.Errorf("job %d is at place %d", i, job.Place)
				}
				stored, err := f.Store.JobReads.Get(t.Context(), f.Tenant, "", job.ID)
				if err != nil {
					t.Fatal(err)
				}
				has[*stored.WorkerID]++
			}
			if diff := cmp.Diff(want, has); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Scan goes through every list, in slices of any size, and Look counts.
func TestScanAndProbeFindEveryList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.Lane, f.NewLane(f.Tenant, "b")
	f.put(a, 0, 2)
	f.put(a, 9, 1)
	f.put(b, api.DefaultPriority, 12)
	want := map[listKey]bool{{a.ID, 0}: true, {a.ID, 9}: true, {b.ID, api.DefaultPriority}: true}
	for slice := 1; slice < 5; slice++ {
		found := map[listKey]bool{}
		var after claim.ReadyList
		for {
			some, err := f.Store.Claims.Scan(t.Context(), after, slice)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range some {
				found[listKey{one.Lane, one.Priority}] = true
				after = claim.ReadyList{Lane: one.Lane, Priority: one.Priority}
			}
			if len(some) < slice {
				break
			}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("in slices of %d: %s", slice, diff)
		}
	}
	looked, err := f.Store.Claims.Probe(t.Context(), []claim.ReadyList{{Lane: a.ID, Priority: 0}, {Lane: a.ID, Priority: 1}, {Lane: b.ID, Priority: api.DefaultPriority}}, 8)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[listKey]int64{}
	for _, one := range looked {
		counts[listKey{one.Lane, one.Priority}] = one.Jobs
	}
	if diff := cmp.Diff(map[listKey]int64{{a.ID, 0}: 2, {b.ID, api.DefaultPriority}: 8}, counts); diff != "" {
		t.Error(diff)
	}
}
