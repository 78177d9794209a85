package submits_test

import (
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// After a deadlock over one tenant's rows the jobs of others that shared the flush are stored without them.
func TestADeadlockOfOneTenantHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''3s''', current_database()); END $$`)
	core := f.NewCore(celltest.OpenURL(t, f.URL)) // its connections have the setting
	keyed := func(key string) api.SubmitRequest {
		job := enginetest.Plain()
		job.DedupeKey = &key
		return job
	}
	other := f.NewTenant()
	call := f.Call(enginetest.Plain())
	call.Tenant = other
	for _, ready := range []submits.Call{f.Call(enginetest.Plain()), call} {
		if answer := core.Submit(t.Context(), []submits.Call{ready})[0]; answer.Err != nil {
			t.Fatal(answer.Err)
		}
	}
	// Another session holds one key, and asks for the other while the flush holds that and waits for the first.
	foreign := celltest.Connect(t, f.URL)
	if _, err := foreign.Exec(t.Context(), `SET deadlock_timeout = '1h'`); err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	take := func(key string) error {
		_, err := foreign.Exec(t.Context(), `INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts,
			retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, size, dedupe_key)
			SELECT gen_random_uuid(), tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts,
			retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, size, $2 FROM jobs WHERE tenant_id = $1 LIMIT 1`, f.Tenant, key)
		return err
	}
	if err := take("k2"); err != nil {
		t.Fatal(err)
	}
	call = f.Call(enginetest.Plain())
	call.Tenant = other
	done := make(chan submits.Answer, 1)
	var group sync.WaitGroup
	group.Go(func() { // one flush has both
		done <- core.Submit(t.Context(), []submits.Call{f.Call(keyed("k1"), keyed("k2")), call})[1]
	})
	f.Blocked(1)
	if err := take("k1"); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the other tenant's job", func() bool {
		return f.Count(`SELECT count(*) FROM jobs WHERE tenant_id = '`+other.String()+`'`) == 2
	})
	if _, err := foreign.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if answer := <-done; answer.Err != nil {
		t.Errorf("the other tenant's answer: %v", answer.Err)
	}
}
