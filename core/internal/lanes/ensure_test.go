package lanes_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// ask makes lanes of the fixture's tenant, for a user, "" for none.
func (f *fixture) ask(user string, keys ...lanes.Key) []lanes.Made {
	f.Helper()
	asks := make([]lanes.Ask, len(keys))
	for i, key := range keys {
		asks[i] = lanes.Ask{Key: key, RequestedBy: user}
	}
	made, err := f.Store.Lanes.Ensure(f.Context(), f.Tenant, asks)
	if err != nil {
		f.Fatal(err)
	}
	return made
}

// tagged are n lanes of one queue with a tag each.
func (f *fixture) tagged(prefix string, n int) []lanes.Key {
	keys := make([]lanes.Key, n)
	for i := range keys {
		keys[i] = lanes.NewKey(f.Tenant, "default", "test", []string{fmt.Sprint(prefix, i)})
	}
	return keys
}

func refusedLanes(made []lanes.Made) map[lanes.Bound]int {
	refused := map[lanes.Bound]int{}
	for _, lane := range made {
		if lane.Refused != 0 {
			refused[lane.Refused]++
		}
	}
	return refused
}

func TestLanesAreMadeOnceAndBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := f.NewLane(f.Tenant, "q", "b", "a", "b")
	if other := f.NewLane(f.Tenant, "q", "a", "b"); one != other {
		t.Errorf("%+v and %+v are one lane", one, other)
	}
	f.Exec(`INSERT INTO lanes (tenant_id, queue, type, tags, created_at) SELECT $1, 'x' || n, 'test', '{}', statement_timestamp() FROM generate_series(1, $2) n`,
		f.Tenant, lanes.Max-f.Count("lanes")-1)
	made := f.ask("", append(f.tagged("new", 3), one.Key)...)
	if got := refusedLanes(made); len(got) != 1 || got[lanes.OfTenant] != 2 || made[3].Lane != one {
		t.Errorf("of three new lanes, with one below the bound, and a known one: %v, %+v", got, made)
	}
	if rows, err := f.Store.Lanes.After(t.Context(), 0, time.Time{}); err != nil || len(rows) != lanes.Max {
		t.Errorf("%d lanes (%v)", len(rows), err)
	}
}

// One user's jobs take a share of the tenant's lanes and of its queues, and no more;
// users together leave some for jobs without one.
func TestAUserTakesAShareOfTheLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if got := refusedLanes(f.ask("mallory", f.tagged("m", lanes.MaxOfUser+5)...)); len(got) != 1 || got[lanes.OfUser] != 5 {
		t.Errorf("one user: %v", got)
	}
	if got := refusedLanes(f.ask("bob", f.tagged("b", 3)...)); len(got) != 0 {
		t.Errorf("another user: %v", got)
	}
	queues := make([]lanes.Key, lanes.MaxUserQueues+5)
	for i := range queues {
		queues[i] = lanes.NewKey(f.Tenant, fmt.Sprint("q", i), "test", nil)
	}
	if got := refusedLanes(f.ask("eve", queues...)); len(got) != 1 || got[lanes.QueuesOfUser] != 5 {
		t.Errorf("one user's queues: %v", got)
	}
	f.Exec(`INSERT INTO lanes (tenant_id, queue, type, tags, requested_by, created_at) SELECT $1, 'x' || n, 'test', '{}', 'u' || n, statement_timestamp() FROM generate_series(1, 7900) n`, f.Tenant)
	if got := refusedLanes(f.ask("bob", f.tagged("late", 1)...)); got[lanes.OfUsers] != 1 {
		t.Errorf("users together: %v", got)
	}
	if got := refusedLanes(f.ask("", f.tagged("late", 1)...)); len(got) != 0 {
		t.Errorf("a job without a user: %v", got)
	}
	if bound := lanes.OfUser.Refusal(); bound.Status != 422 {
		t.Errorf("%v", bound)
	}
}

// Two users with one lane get it, where one of them alone would not.
func TestALaneThatTwoUsersNeed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ask("mallory", f.tagged("m", lanes.MaxOfUser)...)
	key := f.tagged("both", 1)[0]
	made, err := f.Store.Lanes.Ensure(t.Context(), f.Tenant, []lanes.Ask{
		{Key: key, RequestedBy: "mallory"}, {Key: key, RequestedBy: "bob"}, {Key: key, RequestedBy: "carol"},
	})
	if err != nil || made[0].Refused != lanes.OfUser || made[1].ID == 0 || made[1].Lane != made[2].Lane {
		t.Errorf("%+v, %v", made, err)
	}
}

func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`INSERT INTO queues (tenant_id, name, created_at, updated_at)
SELECT $1, 'x' || n, statement_timestamp(), statement_timestamp() FROM generate_series(1, $2) n`, f.Tenant, lanes.MaxQueues-f.Count("queues"))
	if err := f.Store.Queues.Pause(t.Context(), f.Tenant, "x1", true); err != nil {
		t.Errorf("a queue that is there: %v", err)
	}
	for what, err := range map[string]error{
		"PUT": f.Store.Queues.Put(t.Context(), f.Tenant, "one-more", api.QueueRequest{}), "pause": f.Store.Queues.Pause(t.Context(), f.Tenant, "one-more", true),
	} {
		if !errors.Is(err, queues.ErrTooMany) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := refusedLanes(f.ask("", lanes.NewKey(f.Tenant, "one-more", "test", nil))); got[lanes.QueuesOfTenant] != 1 {
		t.Errorf("a submit: %v", got)
	}
}

// A tenant's workers are bounded without the dead ones, which are evicted.
func TestWorkersAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`INSERT INTO workers (owner, worker_id, status, queues, tags, concurrency, metadata, registered_at, last_heartbeat_at)
SELECT $1, 'x' || n, CASE WHEN n = 1 THEN 'DEAD' ELSE 'ACTIVE' END, '{}', '{}', 1, '{}', statement_timestamp(), statement_timestamp() - interval '1 minute'
FROM generate_series(1, $2) n`, f.Tenant, workers.Max)
	if _, joined, err := f.Store.Workers.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "last"}); err != nil || !joined {
		t.Errorf("the last one: %v, %v", joined, err)
	}
	if n := f.CountOf(`SELECT count(*) FROM workers`); n != workers.Max {
		t.Errorf("%d workers, want the dead one gone", n)
	}
	if _, _, err := f.Store.Workers.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "more"}); !errors.Is(err, workers.ErrTooMany) {
		t.Errorf("one more registers: %v", err)
	}
	if _, _, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "more", workers.Claiming{}); !errors.Is(err, workers.ErrTooMany) {
		t.Errorf("one more claims: %v", err)
	}
	if _, joined, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "x7", workers.Claiming{}); err != nil || joined {
		t.Errorf("a known one: %v, %v", joined, err)
	}
	if _, _, err := f.Store.Workers.Register(t.Context(), tenant.Platform, api.WorkerRequest{WorkerID: "more"}); err != nil {
		t.Errorf("another owner's: %v", err)
	}
}
