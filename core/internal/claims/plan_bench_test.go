package claims

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What a claim takes in memory, without its statements, in a core that knows 100,000 lanes
// of 1,000 tenants, with 10,000 parked claims:
//
//	go test -run '^$' -bench Claim -benchtime 1000x ./internal/claims
const benchTenants, benchLanes, benchParked = 1000, 100, 10_000

func benchCore(b *testing.B) (*planner, *scheduler.Parking, []tenant.ID) {
	b.Helper()
	d := newPlanner()
	parking := &scheduler.Parking{}
	tenants := make([]tenant.ID, benchTenants)
	id, at := lanes.ID(0), time.Now()
	for i := range tenants {
		tenants[i] = uuid.New()
		for j := range benchLanes {
			id++
			key := lanes.NewKey(tenants[i], "default", "test", []string{fmt.Sprintf("t%d", j%10), fmt.Sprintf("n%d", j)})
			d.cached.Lanes.Made(make([]lanes.Ask, 1), []lanes.Made{{Lane: lanes.Lane{ID: id, Key: key}}})
			d.lists.Notify([]jobs.Ready{{Lane: id, Priority: 5, At: at, ID: uuid.New()}})
		}
	}
	for i := range benchParked {
		parking.Park(&scheduler.Filter{Owner: tenants[i%benchTenants], Queues: []string{"default"}, Tags: map[string]bool{}})
	}
	runtime.GC() // what the set-up has left is not the claims' to collect
	return d, parking, tenants
}

// report gives the 99th percentile and the mean.
func report(b *testing.B, one func(i int)) {
	b.Helper()
	took := make([]time.Duration, 0, b.N)
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		one(i)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}

func allTags() map[string]bool {
	tags := map[string]bool{}
	for i := range benchLanes {
		tags[fmt.Sprintf("t%d", i)], tags[fmt.Sprintf("n%d", i)] = true, true
	}
	return tags
}

func BenchmarkClaimOfATenant(b *testing.B) {
	d, _, tenants := benchCore(b)
	drr, tags := &scheduler.DRR{}, allTags()
	report(b, func(i int) {
		filter := &scheduler.Filter{Owner: tenants[i%benchTenants], Queues: []string{"default"}, Tags: tags}
		if made := d.plan(drr, filter, 10, 10+extraLists, nil); len(made.claim.Lanes) == 0 {
			b.Fatal("nothing is planned")
		}
	})
}

func BenchmarkClaimOfThePlatform(b *testing.B) {
	d, _, _ := benchCore(b)
	drr := &scheduler.DRR{}
	filter := &scheduler.Filter{Owner: tenant.Platform, Queues: []string{"default"}, Tags: allTags()}
	report(b, func(int) {
		if made := d.plan(drr, filter, 10, 10+extraLists, nil); len(made.claim.Lanes) == 0 {
			b.Fatal("nothing is planned")
		}
	})
}

func BenchmarkClaimOfNothing(b *testing.B) {
	d, _, tenants := benchCore(b)
	drr := &scheduler.DRR{}
	report(b, func(i int) {
		filter := &scheduler.Filter{Owner: tenants[i%benchTenants], Queues: []string{"other"}}
		if made := d.plan(drr, filter, 10, 10+extraLists, nil); len(made.claim.Lanes) != 0 {
			b.Fatal("something is planned")
		}
	})
}

func BenchmarkClaimParksAndIsWoken(b *testing.B) {
	_, parking, tenants := benchCore(b)
	report(b, func(i int) {
		owner := tenants[i%benchTenants]
		w := parking.Park(&scheduler.Filter{Owner: owner, Queues: []string{"default"}})
		parking.Wake(lanes.Lane{ID: 1, Key: lanes.NewKey(owner, "default", "test", nil)}, false, 1)
		parking.Leave(w)
	})
}

func BenchmarkLookbackSlice(b *testing.B) {
	d, _, _ := benchCore(b)
	var from scheduler.ListKey
	report(b, func(int) { _, from = d.lists.Known(from, listsPerProbe) })
}

// BenchmarkClaimByType is a queue with 1,000 types of jobs in all ten priorities: claims of one type,
// of as many as a claim may name, and of all.
func BenchmarkClaimByType(b *testing.B) {
	const types = 1000
	d := newPlanner()
	owner, at := uuid.New(), time.Now()
	for i := range types {
		id := lanes.ID(i + 1)
		key := lanes.NewKey(owner, "default", fmt.Sprint("type-", i), nil)
		d.cached.Lanes.Made(make([]lanes.Ask, 1), []lanes.Made{{Lane: lanes.Lane{ID: id, Key: key}}})
		for priority := range int16(api.MaxPriority + 1) {
			d.lists.Notify([]jobs.Ready{{Lane: id, Priority: priority, At: at, ID: uuid.New()}})
		}
	}
	for _, n := range []int{1, api.MaxTypesPerCall, 0} {
		filter := &scheduler.Filter{Owner: owner, Queues: []string{"default"}}
		if n > 0 {
			filter.Types = map[string]bool{}
		}
		for i := range n {
			filter.Types[fmt.Sprint("type-", types-1-i)] = true
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			drr := &scheduler.DRR{}
			report(b, func(int) {
				if made := d.plan(drr, filter, 10, 10+extraLists, nil); len(made.claim.Lanes) == 0 {
					b.Fatal("nothing is planned")
				}
			})
		})
	}
}
