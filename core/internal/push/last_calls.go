package push

import (
	"context"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lastCallsEvery is how often the last calls of webhooks are stored: a webhook's row is written at most so
// often by each core, however many calls it has.
const lastCallsEvery = 5 * time.Second

// lastCalls collects how the last call of each webhook ended.
type lastCalls struct {
	mu    sync.Mutex
	calls map[tenant.QueueKey]lastCall
}

type lastCall struct {
	webhook string
	at      time.Time
	status  *int
	failure *string
}

// note notes the end of an attempt. One that made no call, and a queue of a tenant's own, is left out.
func (l *lastCalls) note(a *attempt) {
	name, ok := api.WebhookOfQueue(a.job.Queue)
	if !ok || a.status == 0 && a.failure == nil {
		return
	}
	call := lastCall{webhook: name, at: time.Now()}
	if a.status != 0 {
		call.status = new(a.status)
	} else {
		call.failure = new(a.failure.message)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[tenant.QueueKey]lastCall{}
	}
	l.calls[tenant.QueueKey{Tenant: a.job.TenantID, Name: a.job.Queue}] = call
}

// take gives what was noted since the last time.
func (l *lastCalls) take() []webhook.LastCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := make([]webhook.LastCall, 0, len(l.calls))
	for key, call := range l.calls {
		taken = append(taken, webhook.LastCall{Tenant: key.Tenant, Name: call.webhook, Ago: time.Since(call.at), Status: call.status, Error: call.failure})
	}
	l.calls = nil
	return taken
}

// recordLastCalls stores the last calls of webhooks until ctx ends. What cannot be stored is left out: the next
// call stands.
func (e *Executor) recordLastCalls(ctx context.Context) {
	ticker := time.NewTicker(lastCallsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if calls := e.lastCalls.take(); len(calls) > 0 {
			if err := e.store.Webhooks.RecordLastCalls(ctx, calls); err != nil && ctx.Err() == nil {
				e.log.WarnContext(ctx, "the last calls of webhooks are not stored", "error", err)
			}
		}
	}
}
