package submit_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestOldKeysAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.TrySubmit(f.Single(celltest.Keyed("live", "a")), f.Single(celltest.Keyed("done", "a")), f.Single(celltest.Keyed("just done", "a")), f.Single(celltest.Keyed("young", "a")))
	for range 3 {
		claimed := f.ClaimOne()
		f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete})
	}
	f.Exec(`UPDATE idempotency_keys SET created_at = created_at - interval '25 hours' WHERE key <> 'young'`)
	f.Exec(`DELETE FROM finished_jobs WHERE id IN (SELECT unnest(job_ids) FROM idempotency_keys WHERE key = 'done')`)
	f.Exec(`INSERT INTO idempotency_keys SELECT tenant_id, user_id, operation, 'live one', fingerprint,
		ARRAY(SELECT id FROM jobs LIMIT 1), status, answer, created_at FROM idempotency_keys WHERE key = 'done'`)
	first, err := f.Store.Submits.ForgetKeys(t.Context(), time.Unix(0, 0), 2)
	if err != nil || first.Seen != 2 || first.Last == nil {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := f.Store.Submits.ForgetKeys(t.Context(), *first.Last, 10)
	if err != nil {
		t.Fatal(err)
	}
	if total := first.Forgotten + second.Forgotten; total != 1 {
		t.Errorf("%d keys forgotten, want the one whose job is long gone", total)
	}
	if f.Count(`idempotency_keys WHERE key = 'done'`) != 0 {
		t.Error("the key whose job is long gone is still there")
	}
}
