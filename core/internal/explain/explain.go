// Package explain says why a job waits, in the words of the API. It decides nothing: its facts are what the scheduler
// decides by.
package explain

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Explain says why a job waits, by the settings that this core claims by; with details the job and its attempts are a part
// of the answer. It takes four statements at most: the job, with its attempts; its parents or what it waits for; its place in line, or the
// worker of a running one; the use of its caps, or what other jobs of its key do. Besides, how fast lines move in other cores is read once in two
// seconds, for all callers.
func (e *Explainer) Explain(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, details bool) (made api.Explanation, err error) {
	var facts Facts
	var linked map[uuid.UUID]*api.JobSummary
	var attempts []api.Attempt
	if details {
		facts.Job, linked, attempts, err = e.store.JobReads.FindWithAttempts(ctx, owner, user, id)
	} else {
		facts.Job, linked, err = e.store.JobReads.Find(ctx, owner, user, id)
	}
	if err != nil {
		return api.Explanation{}, err
	}
	if details || facts.Job.State == api.StateBlocked || facts.Job.State == api.StateWaiting {
		if err := e.store.JobReads.AddParents(ctx, user, linked); err != nil {
			return api.Explanation{}, err
		}
	}
	switch state := job.State(facts.Job.State); {
	case state == job.Running:
		facts.SilentSince, err = e.store.JobReads.HolderSilentSince(ctx, owner, id, facts.Job.Epoch)
	case !state.Terminal():
		err = e.addWhy(ctx, owner, id, &facts)
	}
	if err != nil {
		return api.Explanation{}, err
	}
	if made = Explain(&facts); details {
		made.Job, made.Attempts = facts.Job, attempts
	}
	return made, nil
}

// addWhy adds what a waiting job waits for.
func (e *Explainer) addWhy(ctx context.Context, owner tenant.ID, id uuid.UUID, facts *Facts) error {
	if err := e.cached.Limits.Load(ctx, owner); err != nil {
		return err
	}
	found := facts.Job
	lane := lanes.Lane{Key: e.cached.LaneOf(owner, found.Queue, found.Type, found.Tags, found.User, found.Key, found.Costs != nil)}
	if cached, known := e.cached.Lanes.Find(&lanes.Ask{Key: lane.Key}); known {
		lane = cached.Lane
	}
	line, beside, err := e.place(ctx, read.QueuePosition{ID: id, Lane: lane, Priority: found.Priority, Key: LineOf(&lane, found.Priority, found.Key).Key})
	if err != nil {
		return err
	}
	settings := e.cached.Lanes.Settings(owner, found.Queue)
	facts.Window, _ = settings.Window(time.Now())
	facts.Paused, facts.Push, facts.Breaker = settings.Paused, settings.Push, e.cached.Breakers.Of(settings.QueueKey)
	facts.Workers, facts.Ahead = workersFor(&lane, line.Workers), line.Jobs
	facts.AtGate, facts.Now, facts.Turn = line.AtGate, line.Now, e.turn(&lane, &settings, &line, beside)
	if line.AtGate {
		facts.Keys = settings.Keys.InForce()
		if found.Costs != nil {
			if facts.Budget, err = e.store.Gates.LookLine(ctx, owner, id); err != nil || facts.Budget != nil || found.Key == nil {
				return err
			}
		}
		facts.Line, err = e.store.Gates.Look(ctx, gate.Key{Tenant: owner, Queue: found.Queue, Key: store.OrElse(found.Key, "")})
		return err
	}
	if found.State == api.StateQueued {
		return e.addLimits(ctx, facts, lane, settings, &line)
	}
	return nil
}

// workersFor says which of a queue's workers take jobs of a lane.
func workersFor(lane *lanes.Lane, active []workers.Active) Workers {
	serve := func(filter func(workers.Active) scheduler.Filter) bool {
		return slices.ContainsFunc(active, func(w workers.Active) bool {
			one := filter(w)
			return one.Serves(lane)
		})
	}
	return Workers{
		OfQueue: len(active) > 0,
		OfType: serve(func(w workers.Active) scheduler.Filter {
			return scheduler.Filter{Types: scheduler.Set(w.Types), Tags: scheduler.Set(lane.Tags())}
		}),
		OfJob: serve(func(w workers.Active) scheduler.Filter {
			return scheduler.Filter{Types: scheduler.Set(w.Types), Tags: scheduler.Set(w.Tags)}
		}),
	}
}

// addLimits adds the caps on the start of a queued job, and the rates that allow none now.
func (e *Explainer) addLimits(ctx context.Context, facts *Facts, lane lanes.Lane, settings queues.Settings, line *read.Ahead) (err error) {
	var limits claim.Lane
	e.cached.LimitLane(&limits, lane, settings)
	for i := range limits.Rates {
		rate, of, due := &limits.Rates[i], api.OfQueue, line.QueueDue
		if rate.Name != lane.Queue {
			of, due = api.OfType, line.TypeDue
		}
		if due == nil {
			continue
		}
		if left := rate.Wait(line.Now, *due); left > 0 {
			facts.Rates = append(facts.Rates, Rate{Of: of, PerSecond: rate.PerSecond, Until: line.Now.Add(left).Truncate(time.Microsecond)})
		}
	}
	facts.Caps, err = e.store.Tenants.CapUse(ctx, limits.Caps)
	return err
}
