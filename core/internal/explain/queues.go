package explain

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Queues lists a tenant's queues by name in one statement, however many they are. It shows settings and lanes as they are
// in the tables now: those in the cache may be a refresh behind.
func (e *Explainer) Queues(ctx context.Context, owner tenant.ID, page queues.Page) ([]api.Queue, error) {
	e.hear(ctx)
	found, err := e.store.Queues.List(ctx, owner, page)
	queues := make([]api.Queue, len(found))
	for i := range found {
		queues[i] = e.showQueue(&found[i], found[0].Workers)
	}
	return queues, err
}

// Queue shows one of a tenant's queues.
func (e *Explainer) Queue(ctx context.Context, owner tenant.ID, name string) (api.Queue, error) {
	found, err := e.Queues(ctx, owner, queues.Page{Only: name, Size: 1})
	if err != nil {
		return api.Queue{}, err
	}
	if len(found) == 0 {
		return api.Queue{}, store.ErrNotFound
	}
	return found[0], nil
}

func (e *Explainer) showQueue(found *queues.Counted, active []workers.ActiveOfEach) api.Queue {
	settings, depths := &found.Settings, &found.Depths
	shown := api.Queue{Name: settings.Name, Mode: api.ModePull, Paused: settings.Paused, OldestQueuedMS: depths.OldestMs, StaleWorkers: int(depths.StaleWorkers), Settings: settings.InForce()}
	if until, in := settings.Window(time.Now()); in {
		shown.WindowUntil = &api.Time{Time: until}
	}
	var serving []workers.Active
	for i := range active {
		if slices.Contains(active[i].Queues, settings.Name) {
			shown.ActiveWorkers += int(active[i].Workers)
			serving = append(serving, active[i].Active)
		}
	}
	shown.Unserved = unserved(settings.QueueKey, depths.Ready, serving)
	if settings.Push {
		shown.Mode, shown.Breaker = api.ModePush, e.cached.Breakers.Of(settings.QueueKey)
		shown.Unserved = []api.Unserved{} // core pushes them, whatever the tags
	}
	shown.Depth, shown.DepthCapped = depths.Shown()
	ahead := depths.Ahead
	if ahead > depths.Most {
		ahead = api.MaxCountedAhead + 1
	}
	shown.DrainPerSecond, shown.WaitMS = e.queueDrain(settings, ahead)
	return shown
}

// unserved lists the types and tags of a queue's claimable jobs that no active worker can take, in order,
// each once and api.MaxUnserved at most.
func unserved(in tenant.QueueKey, ready []queues.Demand, workers []workers.Active) []api.Unserved {
	var filters []scheduler.Filter
	seen := map[string]bool{}
	for _, worker := range workers {
		filter := scheduler.Filter{Types: scheduler.Set(worker.Types), Tags: scheduler.Set(worker.Tags)}
		if key := filter.Key(); !seen[key] {
			seen[key] = true
			filters = append(filters, filter)
		}
	}
	list := []api.Unserved{}
	for _, demand := range ready {
		lane := lanes.Lane{Key: lanes.NewKey(in.Tenant, in.Name, demand.Type, demand.Tags)}
		isServed := func(filter scheduler.Filter) bool { return filter.Serves(&lane) }
		if !slices.ContainsFunc(filters, isServed) {
			list = append(list, api.Unserved{Type: lane.Type, Tags: lane.Tags()})
		}
	}
	slices.SortFunc(list, func(a, b api.Unserved) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), slices.Compare(a.Tags, b.Tags))
	})
	list = slices.CompactFunc(list, func(a, b api.Unserved) bool { return a.Type == b.Type && slices.Equal(a.Tags, b.Tags) })
	return list[:min(len(list), api.MaxUnserved)]
}
