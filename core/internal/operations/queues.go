package operations

import (
	"context"
	"strconv"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListQueues lists a tenant's queues, by name. With `depth_budget`, so many jobs of a state are counted in
// all of them together.
//
//	@x-example-first {"page_size": 50, "depth_budget": 10000}
func (o *Operations) ListQueues(ctx context.Context, owner tenant.ID, item hop.Item[hop.ListQueuesRequest]) (api.Page[api.Queue], error) {
	of := pages.ListingOf(hop.ListQueues.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(o.Pages, of, pages.ByText, func(q api.Queue) string { return q.Name }, func(after string, limit int) ([]api.Queue, error) {
		return o.Engine.Explainer.Queues(ctx, owner, queues.Page{After: after, Size: limit, CountTogether: max(item.Request.DepthBudget, 0)})
	})
}

// ListQueueKeys lists the keys of a queue with jobs that are ready, run, or wait for others of their key, by name.
//
//	@x-problems  ["not_found"]
//	@x-example-waiting {"name": "default", "min_waiting": 1, "page_size": 50}
func (o *Operations) ListQueueKeys(ctx context.Context, owner tenant.ID, item hop.Item[hop.ListQueueKeysRequest]) (api.Page[api.QueueKey], error) {
	asked := &item.Request
	if _, err := o.Store.Queues.Mode(ctx, owner, asked.Name); err != nil {
		return api.Page[api.QueueKey]{}, err
	}
	settings := o.Engine.Cached.Settings(owner, asked.Name).Keys.InForce()
	of := pages.ListingOf(hop.ListQueueKeys.Path, item.Principal, []any{asked.Name, asked.MinWaiting}, asked.PageSize, asked.PageToken)
	return pages.Listed(o.Pages, of, pages.ByText, func(k api.QueueKey) string { return k.Key }, func(after string, limit int) ([]api.QueueKey, error) {
		return o.Store.Gates.List(ctx, gate.Key{Tenant: owner, Queue: asked.Name, Key: after}, max(asked.MinWaiting, 0), settings, limit)
	})
}

// GetQueue reads a queue: its settings, its depths and the number of active workers.
//
//	@x-problems  ["not_found"]
//	@x-example-queue {"name": "default"}
func (o *Operations) GetQueue(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Queue, error) {
	return o.Engine.Explainer.Queue(ctx, owner, item.Request.Name)
}

// PutQueue creates a queue, or replaces all of its settings. The secret of one in push mode is in this
// answer where the call made or replaced it, and in no other.
//
//	@x-problems  ["not_found", "too_many_lanes", "cost_above_budget"]
//	@x-example-settings {"name": "default", "value": {"max_attempts": 5, "max_running": 20}}
//	@x-example-push {"name": "default", "value": {"mode": "push", "push": {"url": "https://example.com/jobs"}, "rate_per_second": 50, "retry": {"curve": "constant"}}}
func (o *Operations) PutQueue(ctx context.Context, owner tenant.ID, item hop.Item[hop.Put[api.QueueRequest]]) (api.Queue, error) {
	request := &item.Request
	// Validated by the gateway too: the table refuses most of what would be wrong.
	if fields := request.Value.Validate(); len(fields) > 0 {
		return api.Queue{}, problem.Invalid(fields...)
	}
	if !api.ValidName(request.Name) {
		return api.Queue{}, store.ErrNotFound
	}
	if err := o.knownCosts(ctx, owner, request.Value.Costs); err != nil {
		return api.Queue{}, err
	}
	limit, err := o.Store.Queues.VisibilityLimit(ctx, owner)
	if err != nil {
		return api.Queue{}, err
	}
	if asked := request.Value.VisibilityTimeoutMS; asked != nil && limit != nil && *asked > *limit {
		return api.Queue{}, problem.Invalid(problem.FieldError{
			Field: "visibility_timeout_ms", Message: "must be at most " + strconv.FormatInt(*limit, 10) + ", by the tenant's plan",
		})
	}
	return o.storeQueue(ctx, owner, request)
}

// PauseQueue pauses or resumes a queue. A repeat changes nothing.
//
//	@x-problems  ["not_found", "too_many_lanes"]
//	@x-example-pause {"name": "default", "paused": true}
//	@x-example-resume {"name": "default", "paused": false}
func (o *Operations) PauseQueue(ctx context.Context, owner tenant.ID, item hop.Item[hop.Pause]) (api.Queue, error) {
	if !api.ValidName(item.Request.Name) {
		return api.Queue{}, store.ErrNotFound
	}
	// A job or its settings make a queue; pausing does not.
	if _, err := o.Store.Queues.Mode(ctx, owner, item.Request.Name); err != nil {
		return api.Queue{}, err
	}
	if err := o.Store.Queues.Pause(ctx, owner, item.Request.Name, item.Request.Paused); err != nil {
		return api.Queue{}, err
	}
	if err := o.Engine.Publisher.SettingsChanged(ctx); err != nil {
		return api.Queue{}, err
	}
	if !item.Request.Paused {
		o.Engine.Publisher.WakeQueue(tenant.QueueKey{Tenant: owner, Name: item.Request.Name})
	}
	return o.Engine.Explainer.Queue(ctx, owner, item.Request.Name)
}

// ProbeQueue makes the open breaker of a queue in push mode half-open, in every core. Where it is closed
// nothing changes.
//
//	@x-problems  ["not_found"]
//	@x-example-queue {"name": "default"}
func (o *Operations) ProbeQueue(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Queue, error) {
	if !api.ValidName(item.Request.Name) {
		return api.Queue{}, store.ErrNotFound
	}
	mode, err := o.Store.Queues.Mode(ctx, owner, item.Request.Name)
	if err != nil {
		return api.Queue{}, err
	}
	if mode != api.ModePush {
		return api.Queue{}, problem.New(problem.InvalidRequest, "The queue is not in push mode: workers claim its jobs, and there is no destination to try.")
	}
	done := audit.Event{Tenant: &owner, Action: api.AuditQueueProbe, Object: item.Request.Name}
	if err := o.probeDestination(ctx, tenant.QueueKey{Tenant: owner, Name: item.Request.Name}, done); err != nil {
		return api.Queue{}, err
	}
	return o.Engine.Explainer.Queue(ctx, owner, item.Request.Name)
}

// probeDestination lets the next calls of a destination through, although its breaker is open: here at once, in other
// cores within a refresh, or at once with Redis.
func (o *Operations) probeDestination(ctx context.Context, key tenant.QueueKey, done audit.Event) error {
	probes, err := o.Store.Queues.Probe(ctx, key.Tenant, key.Name, done)
	if err != nil {
		return err
	}
	o.Hints.Settings()
	o.Engine.Cached.Breakers.Probe(key, probes)
	return nil
}

// DeleteQueue deletes an empty queue, with its settings and lanes. A repeat changes nothing.
//
//	@x-problems  ["not_found", "queue_not_empty"]
//	@x-example-queue {"name": "default"}
func (o *Operations) DeleteQueue(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (struct{}, error) {
	if !api.ValidName(item.Request.Name) {
		return struct{}{}, store.ErrNotFound
	}
	if err := o.Store.Queues.Delete(ctx, owner, item.Request.Name); err != nil {
		return struct{}{}, err
	}
	// A job that another core stores meanwhile may have a setting of the queue.
	return struct{}{}, o.Engine.Publisher.SettingsChanged(ctx)
}
