package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// entries gives the audit log, newest first, and the actions in the order in which
// they were done.
func (f *fixture) entries(filter api.AuditFilter) (all []api.AuditEntry, actions []string) {
	f.Helper()
	page, err := f.Store.Audit.Audit(f.Context(), nil, filter, api.MaxPageSize, "")
	if err != nil {
		f.Fatal(err)
	}
	for i := range page.Items {
		actions = append(actions, page.Items[len(page.Items)-1-i].Action)
	}
	return page.Items, actions
}

// do does one of everything that is audited, in the order of api.AuditActions.
func (f *fixture) do(ctx context.Context) {
	f.Helper()
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	ids := f.deadIDs()
	must(f.Store.DeadLetters.Redrive(ctx, f.Tenant, "", ids[:1], nil)[0].Err)
	_, err := f.Store.DeadLetters.Discard(ctx, f.Tenant, "", ids[1:3])
	must(err)
	made, err := f.Store.DeadLetters.CreateRedrive(ctx, f.Tenant, "", deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive})
	must(err)
	_, err = f.Store.DeadLetters.CancelRedrive(ctx, f.Tenant, "", uuid.MustParse(made.ID))
	must(err)
	many, err := f.Store.DeadLetters.CreateBulk(ctx, f.Tenant, "", uuid.Must(uuid.NewV7()), &api.BulkRequest{Action: api.BulkRunNow})
	must(err)
	_, err = f.Store.DeadLetters.CancelBulk(ctx, f.Tenant, "", uuid.MustParse(many.ID))
	must(err)
	flow := uuid.Must(uuid.NewV7())
	f.Exec(`INSERT INTO workflows (id, tenant_id, name, metadata, created_at) VALUES ($1, $2, 'w', '{}', now())`, flow, f.Tenant)
	must(f.Store.Workflows.RecordCancel(ctx, f.Tenant, "", flow))
	_, err = f.Store.EndedJobs.Delete(ctx, f.Tenant, "", ids[3])
	must(err)
	most := int64(7)
	must(f.Store.Queues.Put(ctx, f.Tenant, "q", api.QueueRequest{MaxActive: &most, Push: &api.PushRequest{URL: "https://example.com"}}))
	must(f.Store.Queues.Pause(ctx, f.Tenant, "q", true))
	must(f.Store.Queues.Pause(ctx, f.Tenant, "q", false))
	_, err = f.Store.Queues.Probe(ctx, f.Tenant, "q", audit.Event{Tenant: &f.Tenant, Action: api.AuditQueueProbe, Object: "q"})
	must(err)
	must(f.Store.Queues.Delete(ctx, f.Tenant, "q"))
	another := uuid.Must(uuid.NewV7())
	_, err = f.Store.Tenants.Create(ctx, another, api.TenantRequest{Name: "another"})
	must(err)
	weight := 3
	_, err = f.Store.Tenants.Patch(ctx, f.Tenant, api.TenantPatch{Weight: &weight})
	must(err)
	_, err = f.Store.Keys.Create(ctx, hop.CreateKeyRequest{
		KeyID: "k1", Kind: "tenant", Tenant: f.Tenant.String(), Scopes: []string{"read"}, SecretHMAC: []byte(strings.Repeat("\x42", 32)),
	})
	must(err)
	must(f.Store.Keys.EndSessions(ctx, f.Tenant, "k1"))
	must(f.Store.Keys.Revoke(ctx, "k1"))
	_, err = f.Store.Tenants.PutPlan(ctx, "p", api.PlanRequest{})
	must(err)
	must(f.schedules(ctx))
	must(f.webhooks(ctx))
	_, _, err = f.Store.JobTypes.PutType(ctx, f.Tenant, "t", jobtypes.Definition{})
	must(err)
	_, err = f.Store.JobTypes.DeleteType(ctx, f.Tenant, "t", true)
	must(err)
	must(f.Store.Budgets.Put(ctx, f.Tenant, "b", api.BudgetRequest{Unit: "tokens", Amount: 1, Window: new(api.BudgetDay)}))
	must(f.Store.Budgets.Delete(ctx, f.Tenant, "b"))
	_, err = f.Store.Tenants.Delete(ctx, another)
	must(err)
}

// schedules does one of everything with a schedule.
func (f *fixture) schedules(ctx context.Context) error {
	every := int64(3_600_000)
	_, err := f.Store.Schedules.PutSchedule(ctx, f.Tenant, "", "s", api.ScheduleRequest{EveryMS: &every, Job: api.ScheduleJob{Type: "t"}})
	if err != nil {
		return err
	}
	for _, paused := range []bool{true, false} {
		if _, err := f.Store.Schedules.PauseSchedule(ctx, f.Tenant, "", "s", paused); err != nil {
			return err
		}
	}
	candidate, err := f.Store.Schedules.TriggerCandidate(ctx, f.Tenant, "", "s")
	if err != nil {
		return err
	}
	candidate.Template = f.Single(nil)
	if _, err := f.Store.Schedules.TriggerSchedule(ctx, candidate); err != nil {
		return err
	}
	return f.Store.Schedules.DeleteSchedule(ctx, f.Tenant, "", "s")
}

// webhooks does one of everything with a webhook.
func (f *fixture) webhooks(ctx context.Context) error {
	_, putErr := f.Store.Webhooks.PutWebhook(ctx, f.Tenant, "w", api.WebhookRequest{URL: "https://example.com", Events: []string{api.EventJobCompleted}}, []byte("BBBB"))
	err := errors.Join(putErr, f.Store.Webhooks.RotateSecret(ctx, f.Tenant, "w", func([]byte, []byte) ([]byte, error) { return []byte("BBBB"), nil }), f.Store.Webhooks.RecordTest(ctx, f.Tenant, "w", uuid.New()))
	_, probeErr := f.Store.Queues.Probe(ctx, f.Tenant, api.WebhookQueue("w"), audit.Event{Tenant: &f.Tenant, Action: api.AuditWebhookProbe, Object: "w"})
	return errors.Join(err, probeErr, f.Store.Webhooks.DeleteWebhook(ctx, f.Tenant, "w"))
}

func (f *fixture) deadIDs() (ids []uuid.UUID) {
	f.Helper()
	page, err := f.Store.DeadLetters.DeadLetters(f.Context(), f.Tenant, "", api.DeadLetterFilter{}, 50, "")
	if err != nil {
		f.Fatal(err)
	}
	for _, dead := range page.Items {
		ids = append(ids, uuid.MustParse(dead.Job.ID))
	}
	return ids
}

func TestEveryActionIsAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(5, celltest.DeadLetterRows{})
	f.do(audit.WithActor(t.Context(), audit.Actor{Kind: "tenant", KeyID: "key-1", User: "bob"}))
	all, actions := f.entries(api.AuditFilter{})
	if got, want := strings.Join(actions, " "), strings.Join(api.AuditActions(), " "); got != want {
		t.Fatalf("noted %s\nwant  %s", got, want)
	}
	for _, entry := range all {
		if entry.Actor.Kind != "tenant" || *entry.Actor.KeyID != "key-1" || *entry.Actor.User != "bob" || entry.At.IsZero() || !strings.HasPrefix(string(entry.Detail), "{") {
			t.Errorf("%+v", entry)
		}
		if strings.Contains(string(entry.Detail), "BBBB") || strings.Contains(string(entry.Detail), "QkJC") {
			t.Errorf("%s contains a secret: %s", entry.Action, entry.Detail)
		}
	}
	// A tenant sees its own: neither the other tenant's birth and end nor the plan.
	own, err := f.Store.Audit.Audit(t.Context(), &f.Tenant, api.AuditFilter{}, 50, "")
	if err != nil || len(own.Items) != len(all)-3 {
		t.Errorf("%d of its own, %v", len(own.Items), err)
	}
	for _, test := range []struct {
		filter api.AuditFilter
		want   int
	}{
		{api.AuditFilter{Action: api.AuditQueuePause}, 1},
		{api.AuditFilter{Object: "q"}, 5},
		{api.AuditFilter{KeyID: "key-2"}, 0},
		{api.AuditFilter{Before: &all[0].At, Action: api.AuditTenantDelete}, 0}, // the newest
		{api.AuditFilter{After: &all[len(all)-1].At}, len(all) - 1},
	} {
		if found, _ := f.entries(test.filter); len(found) != test.want {
			t.Errorf("%+v: %d entries, want %d", test.filter, len(found), test.want)
		}
	}
}

func TestAuditGoesPageByPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := audit.WithActor(t.Context(), audit.Actor{Kind: "operator"})
	for range 7 {
		if err := f.Store.Queues.Pause(ctx, f.Tenant, "q", true); err != nil {
			t.Fatal(err)
		}
	}
	seen, token := map[string]bool{}, ""
	for pages := 1; ; pages++ {
		page, err := f.Store.Audit.Audit(t.Context(), &f.Tenant, api.AuditFilter{}, 3, token)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range page.Items {
			seen[entry.ID] = true
		}
		if page.NextPageToken == nil {
			if len(seen) != 7 || pages != 3 {
				t.Errorf("%d entries on %d pages", len(seen), pages)
			}
			return
		}
		token = *page.NextPageToken
	}
}

// What is not done is not recorded, nor what has no actor; and where the record fails
// nothing is done.
func TestAuditIsPartOfTheAction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(5, celltest.DeadLetterRows{})
	ctx := audit.WithActor(t.Context(), audit.Actor{Kind: "tenant"})
	unknown := []uuid.UUID{uuid.New()}
	_ = f.Store.DeadLetters.Redrive(ctx, f.Tenant, "", unknown, nil)
	if _, err := f.Store.DeadLetters.Discard(ctx, f.Tenant, "", unknown); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.DeadLetters.CancelRedrive(ctx, f.Tenant, "", unknown[0]); err == nil {
		t.Error("cancelled what is not there")
	}
	_ = f.Store.Keys.Revoke(ctx, "nobody's")
	f.do(t.Context())
	if n := f.Count("audit_log"); n != 0 {
		t.Errorf("%d entries of nothing", n)
	}
	f.Exec(`ALTER TABLE audit_log ADD CONSTRAINT none CHECK (false)`)
	ids := f.deadIDs()
	if err := f.Store.DeadLetters.Redrive(ctx, f.Tenant, "", ids[:1], nil)[0].Err; err == nil {
		t.Error("redriven without a note")
	}
	if _, err := f.Store.DeadLetters.Discard(ctx, f.Tenant, "", ids); err == nil {
		t.Error("discarded without a note")
	}
	if err := f.Store.Queues.Pause(ctx, f.Tenant, "q", true); err == nil {
		t.Error("paused without a note")
	}
	if n := f.Count("dead_letters"); n != len(ids) || f.Count("queues WHERE paused AND name = 'q'") != 0 {
		t.Errorf("%d of %d dead letters are left", n, len(ids))
	}
}
