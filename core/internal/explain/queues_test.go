package explain_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// asked counts the statements of the calls whose context has it.
type asked struct{ n atomic.Int64 }

func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if ctx.Value(a) != nil {
		a.n.Add(1)
	}
	return ctx
}

func (*asked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What the console's pages are made of costs so many statements, however many queues there are.
func TestListsCostFewStatements(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := &asked{}
	own, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Minute, Tracer: seen}})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	d := f.NewCore(own)
	ids := f.Submit(enginetest.Plain(), enginetest.Plain())
	f.Claim(f.ClaimCall())
	fewest := int64(100)
	for _, name := range []string{"a", "b", "c", "d"} { // one of them asks how fast other cores are, for all lists of two seconds
		if _, err := f.D.PauseQueue(t.Context(), f.Tenant, name, true); err != nil {
			t.Fatal(err)
		}
		seen.n.Store(0)
		queues, err := d.Queues(context.WithValue(t.Context(), seen, true), f.Tenant, queues.Page{Size: 50})
		paused := func(q api.Queue) bool { return q.Name == name && q.Paused } // by another core, a moment ago
		if err != nil || !slices.ContainsFunc(queues, paused) {
			t.Fatalf("%+v, %v", queues, err)
		}
		fewest = min(fewest, seen.n.Load())
	}
	if fewest != 1 {
		t.Errorf("a list of queues was %d statements, want 1", fewest)
	}
	seen.n.Store(0)
	attempts, err := own.JobReads.Attempts(context.WithValue(t.Context(), seen, true), f.Tenant, "", ids[0], 0, 100)
	if err != nil || len(attempts) != 1 || attempts[0].Kind != "running" {
		t.Fatalf("%+v, %v", attempts, err)
	}
	if n := seen.n.Load(); n != 1 {
		t.Errorf("a list of attempts was %d statements, want 1", n)
	}
}

// The queues of a list share what is counted, where that is bounded, and each says where it stopped.
func TestQueuesShareWhatIsCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var all []api.SubmitRequest
	for range 5 {
		first, second, high := enginetest.In("a"), enginetest.In("b"), enginetest.In("b")
		high.Priority = new(9)
		all = append(all, first, second, high)
	}
	f.Submit(append(all, enginetest.In("c"))...)
	for together, want := range map[int64]map[string]int64{0: {"a": 5, "b": 10, "c": 1}, 1: {"a": 1, "b": 1, "c": 1}, 18: {"a": 5, "b": 6, "c": 1}, 24: {"a": 5, "b": 8, "c": 1}, 30: {"a": 5, "b": 10, "c": 1}} {
		queues, err := f.D.Queues(t.Context(), f.Tenant, queues.Page{Size: 50, CountTogether: together})
		if err != nil || len(queues) != len(want) {
			t.Fatalf("%+v, %v", queues, err)
		}
		for _, q := range queues {
			there := map[string]int64{"a": 5, "b": 10, "c": 1}[q.Name]
			if capped := slices.Contains(q.DepthCapped, "queued"); q.Depth.Queued != want[q.Name] || capped != (there > q.Depth.Queued) {
				t.Errorf("%d together: %s has %d, %v", together, q.Name, q.Depth.Queued, q.DepthCapped)
			}
		}
	}
}

// Workers that hold jobs of a queue without a heartbeat are counted once, however many jobs they hold.
func TestQueuesCountStaleWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.In("a"), enginetest.In("a"), enginetest.In("b"))
	if taken := f.Claim(f.ClaimCall("a", "b")); len(taken) != 3 {
		t.Fatalf("%d jobs", len(taken))
	}
	for _, stale := range []int{0, 1} {
		for _, name := range []string{"a", "b"} {
			q, err := f.D.Queue(t.Context(), f.Tenant, name)
			if err != nil || q.StaleWorkers != stale || q.Depth.Running == 0 {
				t.Errorf("%s: %+v, %v, want %d", name, q, err, stale)
			}
		}
		f.Exec(`UPDATE workers SET status = 'STALE'`)
	}
}
