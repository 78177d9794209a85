package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/core/internal/webhook/alerts"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	alertPeriod = 10 * time.Second
	// alertTime bounds the look at one tenant, of stepsAtOnce: three rounds are to fit into api.MinEnded.
	alertTime = 5 * time.Second
	// alertQueues is how many queues of a tenant are looked at, by name, and how many schedules; queuesPerPage are read together.
	alertQueues   = 2000
	queuesPerPage = 200
)

// Alerts looks for the states that webhooks are told of, in tenants whose webhooks are. Every core looks: each has breakers
// of its own, and another may have lost its connection.
func (d Duties) Alerts() *Duty {
	return d.every(alertPeriod, "alerts", func(ctx context.Context) error {
		asked, err := d.store.Alerts.Asked(ctx)
		problems := make([]error, len(asked)+1)
		problems[len(asked)] = err
		var looks sync.WaitGroup
		running := make(chan struct{}, stepsAtOnce)
		for i := range asked {
			running <- struct{}{}
			looks.Go(func() {
				defer func() { <-running }()
				// One that moves or is deleted is told of nothing.
				if err := d.lookAt(ctx, &asked[i]); !errors.Is(err, tenants.ErrDeleted) && !errors.Is(err, store.ErrTenantMoved) {
					problems[i] = err
				}
			})
		}
		looks.Wait()
		return errors.Join(problems...)
	})
}

func (d Duties) lookAt(ctx context.Context, asked *alerts.Asked) error {
	ctx, cancel := context.WithTimeout(ctx, alertTime)
	defer cancel()
	var seen []alerts.Sighting
	for _, look := range []struct {
		states []string
		at     func(context.Context, tenant.ID) ([]alerts.Sighting, error)
	}{
		{[]string{api.EventQueueStalled, api.EventQueueUnserved, api.EventBreakerOpened, api.EventCapFull}, d.lookAtQueues},
		{[]string{api.EventScheduleMissed}, d.lookAtSchedules},
		{[]string{api.EventWebhookFailing}, d.lookAtWebhooks},
	} {
		for _, state := range look.states {
			if !asked.For(state) {
				continue
			}
			found, err := look.at(ctx, asked.TenantID)
			if err != nil {
				return err // what was not looked at is not over
			}
			seen = append(seen, found...)
			break
		}
	}
	appended, err := d.store.Alerts.Record(ctx, asked.TenantID, seen)
	if appended > 0 {
		d.store.Events.Appended()
	}
	return err
}

func (d Duties) lookAtQueues(ctx context.Context, owner tenant.ID) (seen []alerts.Sighting, err error) {
	if err := d.engine.Cached.Limits.Load(ctx, owner); err != nil {
		return nil, err
	}
	limits := d.engine.Cached.ActiveCaps(owner, "", nil)
	page := queues.Page{Size: queuesPerPage, CountTogether: queuesPerPage}
	for range alertQueues / queuesPerPage {
		found, err := d.engine.Explainer.Queues(ctx, owner, page)
		if err != nil {
			return nil, err
		}
		for i := range found {
			settings := d.engine.Cached.Lanes.Settings(owner, found[i].Name)
			seen = append(seen, ofQueue(&found[i], settings.OpenSince(time.Now()))...)
			if most := found[i].Settings.MaxActive; most != nil {
				limits = append(limits, caps.Cap{CountKey: caps.CountKey{Tenant: owner, Counter: caps.ActiveQueue, Name: found[i].Name}, Limit: *most})
			}
		}
		if len(found) < queuesPerPage {
			break
		}
		page.After = found[len(found)-1].Name
	}
	used, err := d.store.Tenants.CapUse(ctx, limits)
	for _, one := range used {
		if one.Limit == 0 || one.Used < one.Limit { // a cap of 0 is full on purpose
			continue
		}
		sighting := alerts.Sighting{State: api.EventCapFull, Of: api.AlertOfTenant, Name: one.Name}
		whose := "the tenant"
		if one.Name != "" {
			sighting.Of, whose = api.AlertOfQueue, "the queue "+one.Name
		}
		sighting.Detail = fmt.Sprintf("Submits are refused: %s has as many jobs that have not ended as its max_active allows, %d.", whose, one.Limit)
		seen = append(seen, sighting)
	}
	return seen, err
}

// ofQueue gives the states of a queue, whose jobs could start since an instant. One that is paused waits on purpose.
func ofQueue(q *api.Queue, open time.Time) (seen []alerts.Sighting) {
	see := func(state string, held *time.Duration, format string, args ...any) {
		seen = append(seen, alerts.Sighting{State: state, Of: api.AlertOfQueue, Name: q.Name, Held: held, Detail: fmt.Sprintf(format, args...)})
	}
	if q.Paused || q.WindowUntil != nil {
		return nil
	}
	if q.OldestQueuedMS != nil {
		waited := min(time.Duration(*q.OldestQueuedMS)*time.Millisecond, time.Since(open))
		see(api.EventQueueStalled, &waited, "The oldest job of the queue %s that could run has waited for %s.", q.Name, waited.Round(time.Second))
	}
	if len(q.Unserved) > 0 {
		see(api.EventQueueUnserved, nil, "Jobs of the queue %s are ready, and no active worker takes the type %s.", q.Name, q.Unserved[0].Type)
	}
	if q.Breaker != nil && q.Breaker.State != api.BreakerClosed {
		see(api.EventBreakerOpened, nil, "The destination of the queue %s fails: its circuit breaker is not closed.", q.Name)
	}
	return seen
}

func (d Duties) lookAtSchedules(ctx context.Context, owner tenant.ID) (seen []alerts.Sighting, err error) {
	missed, err := d.store.Schedules.Missed(ctx, owner, alertQueues)
	for _, one := range missed {
		detail := map[string]string{
			"refused": "A cap on active jobs refuses the job of a tick of the schedule %s.",
			"late":    "A tick of the schedule %s has no job, though it is due for more than a minute.",
			"missed":  "Ticks of the schedule %s were left out: they were more than a minute late.",
		}[one.Why]
		seen = append(seen, alerts.Sighting{State: api.EventScheduleMissed, Of: api.AlertOfSchedule, Name: one.Name, Detail: fmt.Sprintf(detail, one.Name)})
	}
	return seen, err
}

func (d Duties) lookAtWebhooks(ctx context.Context, owner tenant.ID) (seen []alerts.Sighting, err error) {
	failing, err := d.store.Webhooks.Failing(ctx, owner)
	for _, one := range failing {
		detail := "The last call of the webhook " + one.Name + " got no answer: " + store.OrElse(one.LastError, "the connection failed") + "."
		if one.LastStatus != nil {
			detail = fmt.Sprintf("The last call of the webhook %s was answered with %d.", one.Name, *one.LastStatus)
		}
		seen = append(seen, alerts.Sighting{State: api.EventWebhookFailing, Of: api.AlertOfWebhook, Name: one.Name, Detail: detail})
	}
	return seen, err
}
