package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/explain"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Explain says why a job waits, by the settings that this core claims by. It takes three statements at most.
func (d *Dispatcher) Explain(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Explanation, error) {
	found, err := d.store.GetAlone(ctx, owner, user, id)
	if err == nil && found.State == api.StateBlocked {
		found, err = d.store.Get(ctx, owner, user, id)
	}
	if err != nil {
		return api.Explanation{}, err
	}
	facts := explain.Facts{Job: &found}
	if found.State != api.StateQueued {
		return explain.Explain(facts), nil
	}
	if err := d.limits.Load(ctx, owner); err != nil {
		return api.Explanation{}, err
	}
	line, err := d.store.Line(ctx, id, usage.TypeName(found.Queue, found.Type))
	if errors.Is(err, store.ErrNotFound) { // it was claimed meanwhile
		if found, err = d.store.Get(ctx, owner, user, id); err == nil && found.State != api.StateQueued {
			return explain.Explain(facts), nil
		}
		return api.Explanation{}, errors.Join(err, store.ErrOverloaded)
	}
	if err != nil {
		return api.Explanation{}, err
	}
	return d.explainQueued(ctx, facts, &line)
}

func (d *Dispatcher) explainQueued(ctx context.Context, facts explain.Facts, line *queue.Line) (api.Explanation, error) {
	lane, known := d.lanes.ByID(line.LaneID)
	if !known { // another core has just made it
		if err := d.refreshLanes(ctx); err != nil {
			return api.Explanation{}, err
		}
		lane, _ = d.lanes.ByID(line.LaneID)
	}
	settings := d.lanes.Settings(lane.Tenant, lane.Queue)
	var limits claim.Lane
	d.underCaps(&limits, lane, settings)
	var err error
	if facts.Caps, err = d.store.CapUse(ctx, limits.Caps); err != nil {
		return api.Explanation{}, err
	}
	for i := range limits.Rates {
		rate, of, due := &limits.Rates[i], api.OfQueue, line.QueueDue
		if rate.Name != lane.Queue {
			of, due = api.OfType, line.TypeDue
		}
		if due == nil {
			continue
		}
		if left := rate.Wait(line.Now, *due); left > 0 {
			facts.Rates = append(facts.Rates, explain.Rate{Of: of, PerSecond: rate.PerSecond, Until: line.Now.Add(left).Truncate(time.Microsecond)})
		}
	}
	facts.Paused, facts.Push, facts.Breaker, facts.Ahead = settings.Paused, settings.Push, d.breaker(settings.QueueKey), line.Ahead
	for _, worker := range line.Workers {
		facts.Workers = append(facts.Workers, explain.Worker(worker))
	}
	return explain.Explain(facts), nil
}
