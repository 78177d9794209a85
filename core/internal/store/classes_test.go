package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// However many lists there are, and however slow they are: heartbeats, outcomes, claims
// and submits have connections (D8).
func TestListsLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{2, 16} {
		t.Run(fmt.Sprintf("%d connections", conns), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Submit(f.Jobs(2)...)
			lease, other := f.ClaimOne().Lease(), f.ClaimOne().Lease()
			store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: int32(conns), PoolWait: 5 * time.Minute}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			release := f.Lock("dead_letters")
			var group sync.WaitGroup
			for range 256 {
				group.Go(func() {
					if _, err := store.DeadLetters.DeadLetters(background(t), f.Tenant, "", api.DeadLetterFilter{}, 10, ""); err != nil {
						t.Error(err)
					}
				})
			}
			celltest.Eventually(t, "the lists hold all that they may", func() bool {
				return f.WaitForLocks() == conns/2 && store.Connections().Waiting == int32(256-conns/2)
			})
			ctx := f.Within(time.Minute)
			if beats, err := store.Jobs.Heartbeat(ctx, []job.Lease{lease}); err != nil || len(beats) != 1 {
				t.Errorf("a heartbeat: %v %v", beats, err)
			}
			if ended := store.Jobs.End(ctx, []jobs.Ending{{Lease: lease, Kind: api.KindComplete}})[0]; ended.Err != nil {
				t.Errorf("an outcome: %v", ended.Err)
			}
			if ended := store.Jobs.End(ctx, []jobs.Ending{{Lease: other, Kind: api.KindSnooze, Delay: time.Hour}})[0]; ended.Err != nil {
				t.Errorf("another outcome: %v", ended.Err)
			}
			if conns > 2 { // of two one is for heartbeats and outcomes
				if _, err := store.Claims.Scan(ctx, claim.ReadyList{}, 1); err != nil {
					t.Errorf("a claim: %v", err)
				}
				if _, err := store.Submits.Submit(ctx, []submit.Submission{{Tenant: f.Tenant, Jobs: f.Jobs(1)}}); err != nil {
					t.Errorf("a submit: %v", err)
				}
			}
			release()
			group.Wait()
		})
	}
}

// order notes the statements in the order in which they begin.
type order struct {
	mu   sync.Mutex
	sqls []string
}

func (o *order) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sqls = append(o.sqls, data.SQL)
	return ctx
}

func (o *order) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Where all wait for one connection, the highest class gets it first, in any order of arrival.
func TestTheMostUrgentGoesFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	lease := f.ClaimOne().Lease()
	began := &order{}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: 5 * time.Minute, Tracer: began}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	release := f.Lock("jobs")
	var group sync.WaitGroup
	calls := []struct {
		mark string
		call func() error
	}{
		{"held", func() error { _, _, err := store.Jobs.NextDue(background(t), jobs.AllTime); return err }},
		{"audit_log", func() error { _, err := store.Audit.Audit(background(t), nil, api.AuditFilter{}, 1, ""); return err }},
		{"INSERT INTO jobs", func() error {
			_, err := store.Submits.Submit(background(t), []submit.Submission{{Tenant: f.Tenant, Jobs: f.Jobs(1)}})
			return err
		}},
		{"WITH due AS (", func() error { _, err := store.Jobs.Promote(background(t), jobs.AllTime, 1); return err }},
		{"jobs", func() error { _, err := store.Jobs.Heartbeat(background(t), []job.Lease{lease}); return err }},
	}
	for i, one := range calls {
		group.Go(func() {
			if err := one.call(); err != nil {
				t.Errorf("%s: %v", one.mark, err)
			}
		})
		celltest.Eventually(t, one.mark+" to wait", func() bool { return f.WaitForLocks() == 1 && store.Connections().Waiting == int32(i) })
	}
	release()
	group.Wait()
	last := began.sqls[len(began.sqls)-4:]
	for i, sql := range last {
		if mark := calls[len(calls)-1-i].mark; !strings.Contains(sql, mark) {
			t.Errorf("number %d is not %s but\n%s", i, mark, sql)
		}
	}
}
