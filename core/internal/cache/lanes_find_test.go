package cache

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A bound that a tenant has reached refuses its jobs from the cache, and none of its webhooks' deliveries.
func TestSystemQueuesAreExemptFromACachedBound(t *testing.T) {
	t.Parallel()
	owner := uuid.New()
	cached := NewLanes(nil)
	ask := func(queue string) lanes.Ask {
		return lanes.Ask{Key: lanes.NewKey(owner, queue, "t", nil)}
	}
	cached.Made([]lanes.Ask{ask("full")}, []lanes.Made{{Refused: lanes.OfTenant}})
	cached.read = time.Now().Add(time.Millisecond)
	job := ask("more")
	if made, found := cached.Find(&job); !found || made.Refused != lanes.OfTenant {
		t.Errorf("a job: %+v, %v", made, found)
	}
	delivery := ask(api.WebhookQueue("done"))
	if made, found := cached.Find(&delivery); found {
		t.Errorf("a delivery is answered from the cache: %+v", made)
	}
}
