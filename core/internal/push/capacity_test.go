package push_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/push"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A destination's capacity is not claimed again for each of the queues that
// share it: what is over is returned, to the end of its ready list.
func TestQueuesOfOneDestinationShareItsCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	to := newDestination(t, func(w http.ResponseWriter, r *http.Request, _ int) { // it is slow, and so holds its slots
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
		w.WriteHeader(http.StatusOK)
	})
	const queues, each = 12, 20
	var all []uuid.UUID
	done := func() bool { return f.count(`SELECT count(*) FROM finished_jobs`) == len(all) }
	for i := range queues { // what is new is found out once it is claimed
		f.put(f.tenant, fmt.Sprint("q", i), to.URL, patient)
		all = append(all, f.submit(f.tenant, fmt.Sprint("q", i), 1)...)
	}
	celltest.Eventually(t, "a job of each queue to be done", done)
	for i := range queues {
		all = append(all, f.submit(f.tenant, fmt.Sprint("q", i), each)...)
	}
	celltest.Eventually(t, "all jobs to be done", done)
	extra := 0
	for _, id := range all {
		if job := f.get(f.tenant, id); job.State == api.StateCompleted {
			extra += int(job.Epoch) - 1
		}
	}
	if extra > len(all)/10 {
		t.Errorf("%d jobs were claimed %d times too often", len(all), extra)
	}
}

// A queue that this core does not know yet gets the share of one destination, and its tenant's share, however often
// one scan asks.
func TestANewQueueHasTheShareOfADestination(t *testing.T) {
	t.Parallel()
	plan := push.New(push.Options{InFlight: 64}).Capacity()
	owner, taken := uuid.New(), 0
	take := func(queue string) {
		key := tenant.QueueKey{Tenant: owner, Name: queue}
		for n := plan.Of(key); n > 0; n = plan.Of(key) {
			plan.Take(key, n)
			taken += n
		}
	}
	if take("first"); taken != 8 {
		t.Errorf("one queue gets %d of 64 slots, want 8", taken)
	}
	take("second")
	if take("third"); taken != 16 {
		t.Errorf("a tenant's queues get %d of 64 slots, want 16", taken)
	}
}
