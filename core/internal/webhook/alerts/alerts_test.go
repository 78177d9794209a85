package alerts_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/webhook/alerts"
	"github.com/forgequeue/forgequeue/shared/api"
)

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T, kinds ...string) *fixture {
	t.Helper()
	f := &fixture{celltest.NewFixture(t)}
	f.put("hook", kinds...)
	return f
}

func (f *fixture) put(name string, kinds ...string) {
	f.Helper()
	request := api.WebhookRequest{URL: "https://example.com/hooks", Events: kinds, Thresholds: &api.Thresholds{CapFullMS: new(int64(0))}}
	if _, err := f.Store.Webhooks.PutWebhook(f.Context(), f.Tenant, name, request, []byte("sealed")); err != nil {
		f.Fatal(err)
	}
}

// Cores that record at the same time, whose sessions are killed, tell of each state once.
func TestEventsAreAppendedOnceOverKills(t *testing.T) {
	t.Parallel()
	f := newFixture(t, api.EventCapFull)
	const states = 50
	var seen []alerts.Sighting
	for i := range states {
		seen = append(seen, alerts.Sighting{State: api.EventCapFull, Of: api.AlertOfQueue, Name: fmt.Sprint("q", i)})
	}
	record := func(seen []alerts.Sighting) {
		var cores sync.WaitGroup
		for range 4 {
			cores.Go(func() {
				for done := 0; done < 5; {
					if _, err := f.Store.Alerts.Record(t.Context(), f.Tenant, seen); err == nil {
						done++
					}
				}
			})
		}
		for range 20 {
			f.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%alerts%'`)
		}
		cores.Wait()
	}
	for round := range 3 {
		record(seen)
		f.Exec(`UPDATE alerts SET began_at = began_at - interval '1 hour'`)
		record(seen)
		record(nil)
		f.Exec(`UPDATE alerts SET gone_at = gone_at - interval '1 hour'`)
		record(nil)
		begun := f.CountOf(`SELECT count(*) FROM webhook_events WHERE job->>'ended_at' IS NULL`)
		over := f.CountOf(`SELECT count(DISTINCT (job->>'name', job->>'began_at')) FROM webhook_events WHERE job->>'ended_at' IS NOT NULL`)
		all := f.CountOf(`SELECT count(*) FROM webhook_events`)
		if want := states * (round + 1); begun != want || over != want || all != 2*want {
			t.Errorf("round %d: %d begun, %d over, %d events", round, begun, over, all)
		}
	}
	if n := f.CountOf(`SELECT count(*) FROM alerts`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestOnlyTenantsThatAreToldAreAsked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, api.EventJobCompleted)
	asked := func() int {
		list, err := f.Store.Alerts.Asked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 && (list[0].TenantID != f.Tenant || len(list[0].Kinds) > 0 && !list[0].For(api.EventQueueStalled)) {
			t.Errorf("%+v", list)
		}
		return len(list)
	}
	if n := asked(); n != 0 {
		t.Error("a webhook of jobs is asked for states")
	}
	f.put("states", api.EventQueueRecovered)
	if n := asked(); n != 1 {
		t.Error("a webhook of states is not asked for")
	}
	stalled := []alerts.Sighting{{State: api.EventQueueStalled, Of: api.AlertOfQueue, Name: "q", Held: new(time.Minute)}}
	if _, err := f.Store.Alerts.Record(t.Context(), f.Tenant, stalled); err != nil || f.CountOf(`SELECT count(*) FROM alerts`) != 0 {
		t.Error("it is stalled for less than the threshold", err)
	}
	f.put("states", api.EventCapFull)
	if _, err := f.Store.Alerts.Record(t.Context(), f.Tenant, []alerts.Sighting{{State: api.EventCapFull, Of: api.AlertOfTenant}}); err != nil || f.CountOf(`SELECT count(*) FROM alerts WHERE told`) != 1 {
		t.Error(err)
	}
	if err := f.Store.Webhooks.DeleteWebhook(t.Context(), f.Tenant, "states"); err != nil {
		t.Fatal(err)
	}
	if n := asked(); n != 1 {
		t.Error("the rows of a deleted webhook are left")
	}
	if _, err := f.Store.Alerts.Record(t.Context(), f.Tenant, nil); err != nil || f.CountOf(`SELECT count(*) FROM alerts`) != 0 || asked() != 0 {
		t.Error("the rows of a deleted webhook are left", err)
	}
}

func TestTheListOfTenantsReadsNoOtherWebhooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, api.EventCapFull)
	f.Exec(`SET enable_seqscan = off`)
	if plan := celltest.PlanOf(t, f.Direct, alerts.AskedSQL); !strings.Contains(plan, "webhooks_of_states") {
		t.Error(plan)
	}
}
