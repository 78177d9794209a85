package drain

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

func backlog(tenant.QueueKey) bool { return true }

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got/want-1) > 0.15 {
		t.Errorf("%s: %v a second, want %v", what, got, want)
	}
}

// Two cores, each with its lanes: a line is what both start.
func TestRatesOfTwoCores(t *testing.T) {
	t.Parallel()
	key := tenant.QueueKey{Tenant: uuid.New(), Name: "q"}
	find := func(id lanes.ID) (lanes.Lane, bool) {
		return lanes.Lane{ID: id, Key: lanes.NewKey(key.Tenant, key.Name, "t", nil)}, id < 3
	}
	one, two := NewRates(), NewRates()
	now := time.Unix(1e9, 0)
	for range 200 {
		now = now.Add(100 * time.Millisecond)
		one.Started(now, []Start{{Lane: 1, Queue: key, User: "ada", Waited: time.Minute}, {Lane: 2, Queue: key, Waited: time.Minute}}, backlog)
		two.Started(now, slices.Repeat([]Start{{Lane: 1, Queue: key, User: "ada", Waited: time.Minute}}, 3), backlog)
	}
	check := func(lane1, both, ada float64) {
		t.Helper()
		got, _ := one.Line(now, key, []lanes.ID{1})
		about(t, "lane 1", got, lane1)
		got, _ = one.Line(now, key, []lanes.ID{1, 2, 7})
		about(t, "both lanes", got, both)
		about(t, "the queue", one.OfQueue(now, key), both)
		about(t, "the tenant", one.OfTenant(now, key.Tenant), both)
		about(t, "ada", one.OfUser(now, UserKey{key.Tenant, "ada"}), ada)
	}
	check(10, 20, 10)
	one.Heard(now, []Report{two.Report(now)}, find)
	check(40, 50, 40)
	if got := one.Cores(now); got != 2 {
		t.Errorf("%d cores", got)
	}
	now = now.Add(heardMost + time.Second)
	if got, known := one.Line(now, key, []lanes.ID{1}); known {
		t.Errorf("%v a second after a pause", got)
	}
	now = now.Add(forgotten)
	if one.Report(now); len(one.queues)+len(one.tenants)+len(one.users)+one.lanes != 0 {
		t.Errorf("not forgotten: %d queues, %d lanes", len(one.queues), one.lanes)
	}
}

// A report is bounded, and has the lanes that move fastest.
func TestReportIsBounded(t *testing.T) {
	t.Parallel()
	r := NewRates()
	now := time.Unix(1e9, 0)
	for range 5 {
		now = now.Add(time.Second)
		for i := range 3000 {
			key := tenant.QueueKey{Tenant: uuid.UUID{byte(i), byte(i >> 8)}, Name: "q"}
			r.Started(now, slices.Repeat([]Start{{Lane: lanes.ID(i), Queue: key, Waited: time.Minute}}, 1+i%2), backlog)
		}
	}
	made := r.Report(now)
	if len(made.Lanes) != maxReported {
		t.Fatalf("%d lanes", len(made.Lanes))
	}
	for _, one := range made.Lanes[:1500] {
		if one.Lane%2 != 1 {
			t.Fatalf("%+v before faster ones", one)
		}
	}
}

// Each refused caller comes later than the one before, at the pace of the places, and not later than the bound.
func TestTurns(t *testing.T) {
	t.Parallel()
	var turns ReturnTimes
	now := time.Unix(1e9, 0)
	key, other := caps.CountKey{Counter: caps.ActiveTenant}, caps.CountKey{Counter: caps.ActiveQueue}
	var before time.Duration
	for i := range 100 {
		wait := turns.Next(now, key, 8, 0)
		if i > 1 && wait-before != 100*time.Millisecond {
			t.Fatalf("the turns are %v apart", wait-before)
		}
		before = wait
	}
	if got := turns.Next(now, other, 8, 0); got != leastTurn {
		t.Errorf("another cap's first waits %v", got)
	}
	for range 1000 {
		if got := turns.Next(now, key, 8, 0.99); got > mostTurn {
			t.Fatalf("%v", got)
		}
	}
	if got := turns.Next(now.Add(time.Hour), key, 8, 0); got != leastTurn {
		t.Errorf("after an hour the first waits %v", got)
	}
}

// What a claim of 100 jobs pays.
//
//	go test -run '^$' -bench Started ./core/internal/drain
func BenchmarkStarted(b *testing.B) {
	r := NewRates()
	starts := make([]Start, 100)
	owner := uuid.New()
	for i := range starts {
		starts[i] = Start{Lane: lanes.ID(i / 10), Queue: tenant.QueueKey{Tenant: owner, Name: "q"}, Waited: time.Minute}
	}
	now := time.Now()
	for b.Loop() {
		now = now.Add(5 * time.Millisecond)
		r.Started(now, starts, backlog)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/job")
}
