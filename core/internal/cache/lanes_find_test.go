package cache

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A bound that a tenant has reached refuses its jobs from the cache, and none of its webhooks' deliveries.
func TestSystemQueuesAreExemptFromACachedBound(t *testing.T) {
	t.Parallel()
	owner := uuid.New()
	lanes := NewLanes(nil)
	ask := func(queue string) directory.LaneAsk {
		return directory.LaneAsk{LaneKey: directory.NewLaneKey(owner, queue, "t", nil)}
	}
	lanes.Made([]directory.LaneAsk{ask("full")}, []directory.MadeLane{{Full: directory.TenantLanes}})
	lanes.read = time.Now().Add(time.Millisecond)
	job := ask("more")
	if made, found := lanes.Find(&job); !found || made.Full != directory.TenantLanes {
		t.Errorf("a job: %+v, %v", made, found)
	}
	delivery := ask(api.WebhookQueue("done"))
	if made, found := lanes.Find(&delivery); found {
		t.Errorf("a delivery is answered from the cache: %+v", made)
	}
}
