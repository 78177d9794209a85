package schedule_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// deletedRuns is the largest number of runs that one statement has deleted.
type deletedRuns struct{ most atomic.Int64 }

type isDelete struct{}

func (*deletedRuns) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, isDelete{}, strings.Contains(data.SQL, "DELETE FROM schedule_runs"))
}

func (d *deletedRuns) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if is, _ := ctx.Value(isDelete{}).(bool); is {
		d.most.Store(max(d.most.Load(), data.CommandTag.RowsAffected()))
	}
}

// A schedule with very many runs is deleted in steps, none of which takes long.
func TestAScheduleOfManyRunsIsDeletedInSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("s", every(time.Hour))
	f.put("other", every(time.Hour))
	f.Exec(`INSERT INTO schedule_runs (tenant_id, name, at, skipped)
		SELECT $1, name, statement_timestamp() - n * interval '1 second', 'cap' FROM generate_series(1, 25000) AS n, (VALUES ('s'), ('other')) AS of(name)`, f.Tenant)
	seen := &deletedRuns{}
	opened, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 2, PoolWait: 5 * time.Second, Tracer: seen}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	if err := opened.Schedules.DeleteSchedule(t.Context(), f.Tenant, "", "s"); err != nil {
		t.Fatal(err)
	}
	if most := seen.most.Load(); most > 10_000 {
		t.Errorf("one transaction deleted %d runs", most)
	}
	if f.Count("schedules") != 1 || f.Count("schedule_runs") != 25_000 {
		t.Errorf("%d schedules and %d runs are left", f.Count("schedules"), f.Count("schedule_runs"))
	}
}
