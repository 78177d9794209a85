package lanes_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
)

// Lanes that a deleted queue leaves behind count in the tenant's bound until they are gone; one of them may come
// into use again.
func TestRetiredLanesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const most = 50
	f.Exec(`INSERT INTO lanes (tenant_id, queue, type, tags, created_at) SELECT $1, 'kept', 't' || n, '{}', statement_timestamp() FROM generate_series(1, $2) n`,
		f.Tenant, lanes.Max-most-f.Count("lanes"))
	in := func(queue string) []lanes.Key {
		keys := f.tagged(queue, most)
		for i := range keys {
			keys[i] = lanes.NewKey(f.Tenant, queue, "test", keys[i].Tags())
		}
		return keys
	}
	if got := refusedLanes(f.ask("", in("gone")...)); len(got) != 0 {
		t.Fatalf("up to the bound: %v", got)
	}
	if err := f.Store.Queues.Delete(t.Context(), f.Tenant, "gone"); err != nil {
		t.Fatal(err)
	}
	if got := refusedLanes(f.ask("", in("again")...)); got[lanes.OfTenant] != most {
		t.Errorf("beside the retired lanes: %v, want %d refused", got, most)
	}
	if got := refusedLanes(f.ask("", in("gone")[:5]...)); len(got) != 0 {
		t.Errorf("the retired lanes themselves: %v", got)
	}
	f.Exec(`UPDATE lanes SET retired_at = statement_timestamp() - $1::interval WHERE retired_at IS NOT NULL`, 2*lanes.RetiredTime)
	if _, deleted, err := f.Store.Lanes.Delete(t.Context(), 1000); err != nil || deleted != most-5 {
		t.Errorf("%d lanes are deleted (%v)", deleted, err)
	}
	if got := refusedLanes(f.ask("", in("again")...)); got[lanes.OfTenant] != 5 {
		t.Errorf("once they are gone: %v", got)
	}
}

// A lane's id is never used again, so there are more than an integer has.
func TestLaneIDsBeyondAnInteger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`SELECT setval(pg_get_serial_sequence('lanes', 'id'), 2147483646)`)
	for _, key := range f.tagged("late", 3) {
		lane := f.ask("", key)[0].Lane
		job := f.Job()
		job.Lane, job.Queue, job.Tags = lane.ID, lane.Queue, lane.Tags()
		id := f.Submit(job)[0]
		claimed := f.Claim(10, time.Minute, lane)
		if len(claimed) != 1 || claimed[0].ID != id {
			t.Fatalf("from lane %d: %+v", lane.ID, claimed)
		}
	}
}
