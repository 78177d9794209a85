package caps_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

// As where Citus distributes the schema: ids of transactions have no order, so a row of the log folds credits by deleting
// those that it has counted, and no others.
func TestCreditsAreFoldedByDeletingThem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`CREATE OR REPLACE FUNCTION count_fold_bound() RETURNS xid8 LANGUAGE sql STABLE AS 'SELECT ''0''::xid8'`)
	limits := celltest.Under(f.ActiveCap(100))
	f.Submit(f.Job(limits))
	f.Submit(f.Job(limits))
	old := f.OpenWriter() // holds nothing back
	late := f.OpenWriter()
	if _, err := late.Exec(t.Context(), finishSQL); err != nil {
		t.Fatal(err)
	}
	f.credits(200)
	f.Submit(f.Job(limits))
	if left := f.Count(`usage_credits`); left != 0 {
		t.Errorf("%d credits are left", left)
	}
	if marked := f.Count(`usage_log WHERE seen IS NOT NULL OR bound <> '0'::xid8`); marked != 0 {
		t.Errorf("%d rows go by ids of transactions", marked)
	}
	f.NoDrift()
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.NoDrift()
	f.Submit(f.Job(limits))
	f.NoDrift()
	if err := old.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// what another server has written is not foreign: its ids are not used
	f.Exec(`INSERT INTO usage_credits SELECT $1, 1, '', n, '99999999999'::xid8 FROM unnest(ARRAY[-1, 1]) AS n`, f.Tenant)
	if foreign, err := f.Store.Counts.ForeignCounters(t.Context()); err != nil || foreign {
		t.Errorf("foreign: %v, %v", foreign, err)
	}
	f.NoDrift()
}
