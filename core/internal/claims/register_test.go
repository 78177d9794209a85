package claims_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// scans counts the statements that scan all running jobs.
type scans struct{ n atomic.Int64 }

func (s *scans) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "count(*)") && strings.Contains(data.SQL, "state = 'running'") {
		s.n.Add(1)
	}
	return ctx
}

func (s *scans) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// However many workers register, the running jobs are scanned for none that is new, and
// once a while for all the others.
func TestRegisteringScansTheRunningJobsOnceForAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := &scans{}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Minute, Tracer: seen}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	d := f.NewCore(store)
	register := func() api.Worker {
		worker, err := d.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "w1", Queues: []string{"default"}})
		if err != nil {
			t.Fatal(err)
		}
		return worker
	}
	if got := register(); got.Leases != 0 || seen.n.Load() != 0 {
		t.Errorf("a new worker holds %d leases, after %d scans", got.Leases, seen.n.Load())
	}
	f.Submit(enginetest.Plain(), enginetest.Plain())
	f.Claim(f.ClaimCall())
	begun := time.Now()
	const times = 50
	for range times {
		if got := register(); got.Leases != 2 {
			t.Fatalf("the worker holds %d leases, want 2", got.Leases)
		}
	}
	if n, most := seen.n.Load(), 1+int64(time.Since(begun)/time.Second); n < 1 || n > most {
		t.Errorf("%d scans for %d registrations, want %d at most", n, times, most)
	}
}
