package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
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
func (d *Dispatcher) Queues(ctx context.Context, owner tenant.ID, page queues.Page) ([]api.Queue, error) {
	d.drainAsked.Store(time.Now().UnixNano())
	d.hearDrain(ctx)
	found, err := d.store.Queues.List(ctx, owner, page)
	queues := make([]api.Queue, len(found))
	for i := range found {
		queues[i] = d.showQueue(&found[i], found[0].Workers)
	}
	return queues, err
}

// Queue shows one of a tenant's queues.
func (d *Dispatcher) Queue(ctx context.Context, owner tenant.ID, name string) (api.Queue, error) {
	found, err := d.Queues(ctx, owner, queues.Page{Only: name, Size: 1})
	if err != nil {
		return api.Queue{}, err
	}
	if len(found) == 0 {
		return api.Queue{}, store.ErrNotFound
	}
	return found[0], nil
}

func (d *Dispatcher) showQueue(found *queues.Counted, active []workers.ActiveOfEach) api.Queue {
	settings, depths := &found.Settings, &found.Depths
	shown := api.Queue{Name: settings.Name, Mode: api.ModePull, Paused: settings.Paused, OldestQueuedMS: depths.OldestMs, StaleWorkers: int(depths.StaleWorkers), Settings: settings.InForce()}
	var serving []workers.Active
	for i := range active {
		if slices.Contains(active[i].Queues, settings.Name) {
			shown.ActiveWorkers += int(active[i].Workers)
			serving = append(serving, active[i].Active)
		}
	}
	shown.Unserved = unserved(settings.QueueKey, depths.Ready, serving)
	if settings.Push {
		shown.Mode, shown.Breaker = api.ModePush, d.breaker(settings.QueueKey)
		shown.Unserved = []api.Unserved{} // core pushes them, whatever the tags
	}
	shown.Depth, shown.DepthCapped = depths.Shown()
	ahead := depths.Ahead
	if ahead > depths.Most {
		ahead = api.MaxCountedAhead + 1
	}
	shown.DrainPerSecond, shown.WaitMS = d.queueDrain(settings, ahead)
	return shown
}

// unserved lists the types and tags of a queue's claimable jobs that no active worker can take, in order,
// each once and api.MaxUnserved at most.
func unserved(in tenant.QueueKey, ready []queues.Demand, workers []workers.Active) []api.Unserved {
	var filters []scheduler.Filter
	seen := map[string]bool{}
	for _, worker := range workers {
		filter := scheduler.Filter{Types: setOf(worker.Types), Tags: setOf(worker.Tags)}
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

// PutQueue sets a tenant's queue. The settings are in force here at once, in other cores within a
// refresh, or at once with Redis.
func (d *Dispatcher) PutQueue(ctx context.Context, owner tenant.ID, name string, request api.QueueRequest) (api.Queue, error) {
	shown, _, err := d.PutPushQueue(ctx, owner, name, request, queues.NewSecret{})
	return shown, err
}

// PutPushQueue does the same for a queue that may be in push mode, and says whether
// the new secret is now its secret.
func (d *Dispatcher) PutPushQueue(
	ctx context.Context, owner tenant.ID, name string, request api.QueueRequest, secret queues.NewSecret,
) (shown api.Queue, taken bool, err error) {
	if taken, err = d.store.Queues.PutPush(ctx, owner, name, request, secret); err != nil {
		return shown, false, err
	}
	d.publishSettings()
	if err := d.refreshLanes(ctx); err != nil {
		return shown, taken, err
	}
	shown, err = d.Queue(ctx, owner, name)
	return shown, taken, err
}

// PauseQueue stops or resumes the claims from a tenant's queue.
func (d *Dispatcher) PauseQueue(ctx context.Context, owner tenant.ID, name string, paused bool) (api.Queue, error) {
	if err := d.store.Queues.Pause(ctx, owner, name, paused); err != nil {
		return api.Queue{}, err
	}
	d.publishSettings()
	if err := d.refreshLanes(ctx); err != nil {
		return api.Queue{}, err
	}
	shown, err := d.Queue(ctx, owner, name)
	if err == nil && !paused {
		d.wakeAll(tenant.QueueKey{Tenant: owner, Name: name})
	}
	return shown, err
}

// DeleteQueue deletes a tenant's empty queue. It is forgotten here at once, in other cores within a
// refresh, or at once with Redis: a job that is submitted there meanwhile may have a setting of it.
func (d *Dispatcher) DeleteQueue(ctx context.Context, owner tenant.ID, name string) error {
	if err := d.store.Queues.Delete(ctx, owner, name); err != nil {
		return err
	}
	d.publishSettings()
	return d.refreshLanes(ctx)
}

// wakeAll wakes claims for a queue that was just resumed: its jobs became ready before, and no
// other notification comes.
func (d *Dispatcher) wakeAll(key tenant.QueueKey) {
	var ready []jobs.Ready
	for _, lane := range d.lanes.Of(key) {
		for range pollWakes {
			ready = append(ready, jobs.Ready{Lane: lane.ID})
		}
	}
	d.Wake(ready)
}
