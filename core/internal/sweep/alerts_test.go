package sweep_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
	"github.com/forgequeue/forgequeue/shared/api"
)

// told takes the events of states, as KIND NAME.
func (f *fixture) told() []string {
	f.Helper()
	rows, err := f.direct.Query(f.Context(), `DELETE FROM webhook_events RETURNING kind, job`)
	if err != nil {
		f.Fatal(err)
	}
	var all []string
	var kind string
	var body []byte
	if _, err := pgx.ForEachRow(rows, []any{&kind, &body}, func() error {
		var alert api.Alert
		if err := json.Unmarshal(body, &alert); err != nil {
			return err
		}
		if alert.Detail == "" || alert.BeganAt.IsZero() || kind != api.AlertEnd(alert.State) && alert.EndedAt != nil || kind != alert.State && alert.EndedAt == nil {
			f.Errorf("%s: %s", kind, body)
		}
		name := alert.Of
		if alert.Name != nil {
			name += " " + *alert.Name
		}
		all = append(all, strings.TrimSpace(kind+" "+name))
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// Each state is made, told at its begin, and again when it is over.
func TestAlertsOfEachState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	put := func(name string, thresholds *api.Thresholds, events ...string) {
		request := api.WebhookRequest{URL: "https://example.com/hooks", Events: events, Thresholds: thresholds}
		if _, err := f.store.Webhooks.PutWebhook(t.Context(), f.tenant, name, request, []byte("sealed")); err != nil {
			t.Fatal(err)
		}
	}
	settings := func(name string, request api.QueueRequest) {
		if _, err := f.d.PutQueue(t.Context(), f.tenant, name, request); err != nil {
			t.Fatal(err)
		}
	}
	put("states", &api.Thresholds{QueueUnservedMS: new(int64(0)), CapFullMS: new(int64(0)), WebhookFailingMS: new(int64(0))},
		api.EventQueueStalled, api.EventQueueUnserved, api.EventQueueRecovered, api.EventBreakerOpened, api.EventBreakerClosed,
		api.EventCapFull, api.EventScheduleMissed, api.EventWebhookFailing)
	put("other", nil, api.EventJobCompleted)
	settings("default", api.QueueRequest{MaxActive: new(int64(1))})
	settings("hooks", api.QueueRequest{Mode: new(api.ModePush), Push: &api.PushRequest{URL: "https://example.com/jobs"}})
	if _, err := f.d.PutSchedule(t.Context(), f.tenant, "", "nightly", nightly()); err != nil {
		t.Fatal(err)
	}
	state := api.BreakerOpen
	f.d.ShowBreakers(func(key tenant.QueueKey) *api.Breaker {
		if key.Name != "hooks" {
			return nil
		}
		return &api.Breaker{State: state}
	})
	duty := f.duties().Alerts()
	look := func() {
		t.Helper()
		if _, err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, events ...string) {
		t.Helper()
		if got := f.told(); !slices.Equal(got, events) {
			t.Errorf("%s: %q, want %q", when, got, events)
		}
	}
	state = api.BreakerClosed
	look()
	want("nothing holds")

	state = api.BreakerHalfOpen
	id := f.submitCounted()
	f.exec(`UPDATE jobs SET ready_at = ready_at - interval '6 minutes', created_at = created_at - interval '6 minutes'`)
	f.exec(`UPDATE schedules SET next_at = now() - interval '2 minutes', due_at = now() + interval '1 hour'`)
	if err := f.store.Webhooks.RecordLastCalls(t.Context(), []webhook.LastCall{{Tenant: f.tenant, Name: "other", Status: new(500)}}); err != nil {
		t.Fatal(err)
	}
	look()
	want("all hold, but its settings have just changed", "breaker.opened queue hooks", "cap.full queue default", "queue.unserved queue default",
		"schedule.missed schedule nightly", "webhook.failing webhook other")
	f.exec(`UPDATE queues SET updated_at = updated_at - interval '1 hour'`)
	f.readAll()
	look()
	want("for longer", "queue.stalled queue default")
	look()
	want("they hold still")

	state = api.BreakerClosed
	if _, _, err := f.d.Cancel(t.Context(), f.tenant, "", id); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE schedules SET next_at = now() + interval '2 minutes'`)
	f.exec(`UPDATE webhooks SET last_status = 200`)
	look()
	want("they are over for a moment")
	f.exec(`UPDATE alerts SET gone_at = gone_at - interval '1 minute'`)
	look()
	if got := f.told(); !slices.Equal(got, []string{
		"breaker.closed queue hooks", "cap.full queue default", "queue.recovered queue default", "queue.recovered queue default",
		"schedule.missed schedule nightly", "webhook.failing webhook other",
	}) {
		t.Errorf("they are over: %q", got)
	}

	f.submitCounted()
	f.exec(`UPDATE queues SET paused = true, updated_at = statement_timestamp() WHERE name = 'default'`)
	f.exec(`UPDATE jobs SET ready_at = ready_at - interval '6 minutes'`)
	look()
	want("a paused queue waits on purpose, and is full", "cap.full queue default")
}

// submitCounted submits a job that its caps count.
func (f *fixture) submitCounted() uuid.UUID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	answer := f.d.Submit(f.Context(), []submits.Call{{Tenant: f.tenant, IDs: []uuid.UUID{id}, Jobs: []api.SubmitRequest{{Type: "test"}}}})[0]
	if answer.Err != nil || answer.Problem != nil {
		f.Fatal(answer.Err, answer.Problem)
	}
	return id
}

// readAll has the core read all settings again.
func (f *fixture) readAll() {
	f.Helper()
	f.d.Cached.Lanes.ReadAll()
	if err := f.d.Refresh(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// What has waited for a window has not stalled when that ends; a schedule whose tick a cap refuses again and again has missed it.
func TestAlertsAfterAWindowAndOfRefusedTicks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	request := api.WebhookRequest{URL: "https://example.com/hooks", Events: []string{api.EventQueueStalled, api.EventScheduleMissed}}
	if _, err := f.store.Webhooks.PutWebhook(t.Context(), f.tenant, "states", request, []byte("sealed")); err != nil {
		t.Fatal(err)
	}
	ended := time.Now().UTC().Truncate(time.Second).Add(-time.Minute)
	begun := ended.Add(-time.Hour)
	window := api.Window{Cron: fmt.Sprintf("%d %d %d * * *", begun.Second(), begun.Minute(), begun.Hour()), DurationMS: time.Hour.Milliseconds()}
	for name, windows := range map[string][]api.Window{"default": {window}, "open": nil} {
		if _, err := f.d.PutQueue(t.Context(), f.tenant, name, api.QueueRequest{Windows: windows}); err != nil {
			t.Fatal(err)
		}
	}
	every := api.ScheduleRequest{EveryMS: new(int64(30_000)), Job: api.ScheduleJob{Type: "test"}}
	if _, err := f.d.PutSchedule(t.Context(), f.tenant, "", "refused", every); err != nil {
		t.Fatal(err)
	}
	f.submitCounted()
	f.exec(`UPDATE jobs SET ready_at = ready_at - interval '30 minutes'`)
	f.exec(`UPDATE queues SET updated_at = updated_at - interval '1 day'`)
	f.exec(`UPDATE schedules SET refused_at = now() - interval '10 seconds'`)
	f.exec(`INSERT INTO schedule_runs (tenant_id, name, at, skipped) SELECT $1, 'refused', now() - i * interval '40 seconds', skipped
		FROM (VALUES (1, 'cap'), (2, 'overlap')) AS r(i, skipped)`, f.tenant)
	f.readAll()
	duty := f.duties().Alerts()
	look := func() []string {
		t.Helper()
		if _, err := duty.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f.told()
	}
	if got := look(); !slices.Equal(got, []string{"schedule.missed schedule refused"}) {
		t.Errorf("a minute after the window: %q", got)
	}
	f.exec(`UPDATE queues SET windows = NULL`)
	f.readAll()
	if got := look(); !slices.Equal(got, []string{"queue.stalled queue default"}) {
		t.Errorf("without the window: %q", got)
	}
}

// One that is being deleted, with webhooks that are not removed yet, is no failure.
func TestAlertsOfATenantThatIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.d.ShowBreakers(func(tenant.QueueKey) *api.Breaker { return nil })
	request := api.WebhookRequest{URL: "https://example.com/hooks", Events: []string{api.EventQueueStalled}}
	if _, err := f.store.Webhooks.PutWebhook(t.Context(), f.tenant, "states", request, []byte("sealed")); err != nil {
		t.Fatal(err)
	}
	f.exec(`INSERT INTO tenants (id, name, plan, weight, overrides, created_at, deleting_at) SELECT $1, 'gone', name, 1, '{}', now(), now() FROM plans LIMIT 1`, f.tenant)
	if _, err := f.duties().Alerts().RunOnce(t.Context()); err != nil {
		t.Error(err)
	}
}

func nightly() api.ScheduleRequest {
	return api.ScheduleRequest{Cron: new("0 2 * * *"), Timezone: "UTC", Job: api.ScheduleJob{Type: "test", Queue: "default"}}
}
