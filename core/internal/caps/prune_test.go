package caps_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// A count that another core has deleted since this one read it, and that started
// again, keeps its row.
func TestPruneACountThatBeganAgain(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	prune := func(newest int64) int64 {
		t.Helper()
		tag, err := f.Direct.Exec(t.Context(), caps.PruneLogSQL, store.Args{
			"tenants": []uuid.UUID{f.Tenant}, "counters": []int16{1}, "names": []string{"again"}, "seqs": []int64{newest}, "most": 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		return tag.RowsAffected()
	}
	for seq := 1; seq <= 3; seq++ {
		f.Exec(`INSERT INTO usage_log (tenant_id, counter, name, seq, count, bound) VALUES ($1, 1, 'again', $2, 1, '3')`, f.Tenant, seq)
	}
	if n := prune(50); n != 0 {
		t.Errorf("%d rows of a count that began again are removed", n)
	}
	if n := prune(3); n != 2 {
		t.Errorf("%d rows are removed, want the 2 older ones", n)
	}
}
