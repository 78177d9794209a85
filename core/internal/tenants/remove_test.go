package tenants_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
)

// sent records all statements of a store, in order.
type sent struct {
	mu         sync.Mutex
	statements []pgx.TraceQueryStartData
}

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statements = append(s.statements, data)
	return ctx
}

func (*sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// take gives the removals since the last call.
func (s *sent) take() (removals []pgx.TraceQueryStartData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.statements {
		if strings.Contains(one.SQL, "DELETE FROM") {
			removals = append(removals, one)
		}
	}
	s.statements = nil
	return removals
}

var buffers = regexp.MustCompile(`Buffers: shared hit=(\d+)`)

// Each batch of a removal continues where the last one ended: it does no step again that has nothing to do, and beside an
// old snapshot it does not read the entries of what was removed before.
func TestARemovalGoesOnWhereItLeftOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := f.NewTenant()
	const keys, batch = 5000, 500
	f.Exec(`INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
		SELECT $1, '', 'submit', 'k' || n, sha256('x'), '{}', 200, '{}', now() FROM generate_series(1, $2::int) AS n`, gone, keys)
	if _, err := f.Store.Tenants.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	old := celltest.Connect(t, f.URL)
	if _, err := old.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM jobs"); err != nil {
		t.Fatal(err)
	}
	seen := &sent{}
	core, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 2, PoolWait: 5 * time.Second, Tracer: seen}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(core.Close)
	var place tenants.RemovalPlace
	var last pgx.TraceQueryStartData
	for removed := 0; removed < keys-batch; {
		n, next, err := core.Tenants.RemoveData(t.Context(), gone, place, batch)
		if err != nil || n == 0 {
			t.Fatalf("%d of %d removed: %v", removed, keys, err)
		}
		statements := seen.take()
		if removed > 0 && len(statements) != 1 {
			t.Errorf("a batch takes %d removals, and should go on with its own", len(statements))
		}
		last = statements[len(statements)-1]
		removed, place = removed+n, next
	}
	reads := func(what string, args store.Args) int {
		t.Helper()
		rows, err := f.Direct.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS) "+last.SQL, args)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		found := buffers.FindStringSubmatch(strings.Join(lines, "\n"))
		if found == nil {
			t.Fatalf("%s: %s", what, strings.Join(lines, "\n"))
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("FIGURE buffers=%d of a batch %s", n, what)
		return n
	}
	args := last.Args[0].(store.Args)
	if _, err := f.Direct.Exec(t.Context(), "SET enable_seqscan = off; SET enable_bitmapscan = off"); err != nil {
		t.Fatal(err)
	}
	beginning := store.Args{"tenant_id": args["tenant_id"], "batch": 1, "after": []string{"", "", ""}}
	here := store.Args{"tenant_id": args["tenant_id"], "batch": 1, "after": []string{"", "submit", "k999"}}
	if from, on := reads("from the beginning", beginning), reads("from its place", here); on > from/10 {
		t.Errorf("a batch reads %d buffers, and %d from the beginning", on, from)
	}
}
