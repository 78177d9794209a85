package stats

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

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

func start(key tenant.QueueKey, lane lanes.ID, user string) Event {
	return Event{QueueKey: key, Lane: lane, User: user, Counts: Counts{Started: 1, Waiting: time.Minute}}
}

// Two cores, each with its lanes: a line is what both start.
func TestRatesOfTwoCores(t *testing.T) {
	t.Parallel()
	key := tenant.QueueKey{Tenant: uuid.New(), Name: "q"}
	find := func(id lanes.ID) (lanes.Lane, bool) {
		return lanes.Lane{ID: id, Key: lanes.NewKey(key.Tenant, key.Name, "t", nil)}, id < 3
	}
	one, two := newRates(backlog), newRates(backlog)
	now := time.Unix(1e9, 0)
	for range 200 {
		now = now.Add(100 * time.Millisecond)
		one.started(now, []Event{start(key, 1, "ada"), start(key, 2, "")})
		two.started(now, slices.Repeat([]Event{start(key, 1, "ada")}, 3))
	}
	check := func(lane1, both float64) {
		t.Helper()
		about(t, "lane 1", one.Line(now, key, []lanes.ID{1}), lane1)
		about(t, "both lanes", one.Line(now, key, []lanes.ID{1, 2, 7}), both)
		all, line := one.Queue(now, key)
		about(t, "the queue", all, both)
		about(t, "the queue while jobs wait", line, both)
	}
	check(10, 20)
	one.Heard(now, two.Report(now), find)
	check(40, 50)
	about(t, "the tenant, here", one.Here(now, RateKey{Tenant: key.Tenant}), 20)
	about(t, "the queue, here", one.Here(now, RateKey{Tenant: key.Tenant, Queue: "q"}), 20)
	about(t, "ada, here", one.Here(now, RateKey{Tenant: key.Tenant, User: "ada"}), 10)
	now = now.Add(heardMost + time.Second)
	if got := one.Line(now, key, []lanes.ID{1}); got != 0 {
		t.Errorf("%v a second after a pause", got)
	}
	now = now.Add(forgotten)
	if one.Report(now); len(one.own)+one.lanes != 0 {
		t.Errorf("not forgotten: %d meters, %d lanes", len(one.own), one.lanes)
	}
}

// The starts of other events are counted, and what has no room is left out.
func TestRatesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRates(backlog)
	now := time.Unix(1e9, 0)
	owner := uuid.New()
	key := tenant.QueueKey{Tenant: owner, Name: "q"}
	r.started(now, []Event{{QueueKey: key, Counts: Counts{Submitted: 1}}})
	if len(r.own) != 0 {
		t.Errorf("%d meters without a start", len(r.own))
	}
	for i := range maxMeters {
		r.started(now, []Event{start(key, 1, strconv.Itoa(i))})
	}
	if got := len(r.own); got != maxMeters/2 {
		t.Errorf("%d meters, want half of them for users", got)
	}
	for i := range maxLanes + 1 {
		key.Name = strconv.Itoa(i / 10)
		r.started(now, []Event{start(key, lanes.ID(i), "")})
	}
	if r.lanes > maxLanes || len(r.own) > maxMeters {
		t.Errorf("%d lanes, %d meters", r.lanes, len(r.own))
	}
}

// A report is bounded, and has the lanes that move fastest.
func TestReportIsBounded(t *testing.T) {
	t.Parallel()
	r := newRates(backlog)
	now := time.Unix(1e9, 0)
	for range 5 {
		now = now.Add(time.Second)
		for i := range 3000 {
			key := tenant.QueueKey{Tenant: uuid.UUID{byte(i), byte(i >> 8)}, Name: "q"}
			r.started(now, slices.Repeat([]Event{start(key, lanes.ID(i), "")}, 1+i%2))
		}
	}
	made := r.Report(now)
	if len(made) != maxReported {
		t.Fatalf("%d lanes", len(made))
	}
	for _, one := range made[:1500] {
		if one.Lane%2 != 1 {
			t.Fatalf("%+v before faster ones", one)
		}
	}
}

// What a claim of 100 jobs pays.
//
//	go test -run '^$' -bench Started ./core/internal/stats
func BenchmarkStarted(b *testing.B) {
	r := newRates(backlog)
	starts := make([]Event, 100)
	owner := uuid.New()
	for i := range starts {
		starts[i] = start(tenant.QueueKey{Tenant: owner, Name: "q"}, lanes.ID(i/10), "")
	}
	now := time.Now()
	for b.Loop() {
		now = now.Add(5 * time.Millisecond)
		r.started(now, starts)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/job")
}
