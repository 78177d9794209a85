package dispatch_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
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
	own, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.url, MaxConns: 4, PoolWait: time.Minute, Tracer: seen}})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	d := f.newCore(own)
	ids := f.submit(plain(), plain())
	f.claim(f.claimCall())
	fewest := int64(100)
	for _, name := range []string{"a", "b", "c", "d"} { // one of them asks how fast other cores are, for all lists of two seconds
		if _, err := f.d.PauseQueue(t.Context(), f.tenant, name, true); err != nil {
			t.Fatal(err)
		}
		seen.n.Store(0)
		queues, err := d.Queues(context.WithValue(t.Context(), seen, true), f.tenant, "", 50)
		paused := func(q api.Queue) bool { return q.Name == name && q.Paused } // by another core, a moment ago
		if err != nil || !slices.ContainsFunc(queues, paused) {
			t.Fatalf("%+v, %v", queues, err)
		}
		fewest = min(fewest, seen.n.Load())
	}
	if fewest != 2 {
		t.Errorf("a list of queues was %d statements, want 2", fewest)
	}
	seen.n.Store(0)
	attempts, err := own.Attempts(context.WithValue(t.Context(), seen, true), f.tenant, "", ids[0], 0, 100)
	if err != nil || len(attempts) != 1 || attempts[0].Kind != "running" {
		t.Fatalf("%+v, %v", attempts, err)
	}
	if n := seen.n.Load(); n != 1 {
		t.Errorf("a list of attempts was %d statements, want 1", n)
	}
}
