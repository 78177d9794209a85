package console_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// marker is in the names of a tenant's things: no other tenant may see it.
const marker = "acme-only"

// data is what a tenant has: something for each page.
type data struct {
	tenant stack.Tenant
	client *client.Client
	// completed, dead, waiting and scheduled are jobs, asking waits for a signal, broke for a budget; key is a key's id.
	completed, dead, waiting, scheduled, asking, broke string
	fingerprint, workflow, key                         string
	// redrive and bulk are there once there are busy pages.
	redrive, bulk string
}

const (
	queue    = marker
	schedule = marker + "-nightly"
	jobType  = marker + ".render"

	budget, budgetByUser = marker + "-tokens", marker + "-cents"
)

func fill(t *testing.T, c *stack.Cluster, tenant stack.Tenant) data {
	t.Helper()
	d := data{tenant: tenant, client: c.Client(t, tenant.Key)}
	ctx := t.Context()
	one := 1
	submit := func(named string) string {
		return stack.Submit(t, d.client, api.SubmitRequest{
			Type: named, Queue: queue, MaxAttempts: &one, Metadata: map[string]string{"order": marker},
			Payload: []byte(`{"to":"` + marker + `","items":[1,2,{"sku":"A-1"}],"note":"<b>&amp;</b>"}`),
		})
	}
	d.completed = submit("mail.send")
	job := stack.ClaimOne(t, d.client, marker+"-worker", queue)
	if _, err := d.client.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: []byte(`{"message_id":"m-1"}`)}); err != nil {
		t.Fatal(err)
	}
	d.dead = submit("mail.send")
	job = stack.ClaimOne(t, d.client, marker+"-worker", queue)
	if _, err := d.client.Fail(ctx, job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{
		Type: "SMTPError", Message: "550 mailbox unavailable <" + marker + ">", Stack: "at send (mail.js:42)\nat run (worker.js:7)",
	}}); err != nil {
		t.Fatal(err)
	}
	d.waiting = submit("report.render")
	d.asking = newAsking(t, d.client)
	d.budgets(t)
	delay := time.Hour.Milliseconds()
	d.scheduled = stack.Submit(t, d.client, api.SubmitRequest{Type: "report.render", Queue: queue, DelayMS: &delay})
	letters, err := d.client.DeadLetters(ctx, api.DeadLetterFilter{}, client.PageRequest{})
	if err != nil || len(letters.Items) != 1 {
		t.Fatalf("%+v %v", letters, err)
	}
	d.fingerprint = letters.Items[0].Fingerprint
	for _, description := range []string{"Renders.", "Renders the report " + marker + "."} { // two versions
		if _, err := d.client.PutType(ctx, jobType, api.JobTypeRequest{
			Description:   description,
			PayloadSchema: []byte(`{"type":"object","properties":{"to":{"type":"string","description":"<b>who</b>"}}}`),
			ResultSchema:  []byte(`{"type":"object"}`),
			Examples:      []json.RawMessage{[]byte(`{"to":"ada"}`)}, Defaults: &api.JobTypeDefaults{Queue: new(queue)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	step := api.SubmitRequest{Type: "step", Queue: "steps"}
	workflow, err := d.client.SubmitWorkflow(ctx, client.Workflow().Named(marker+"-export").
		Add("extract", step).Add("left", step).After("extract").Add("right", step).After("extract").Add("load", step).After("left", "right"))
	if err != nil {
		t.Fatal(err)
	}
	d.workflow = workflow.ID
	key, err := d.client.CreateOwnKey(ctx, api.KeyRequest{Scopes: []string{api.ScopeRead}, User: new(marker)})
	if err != nil {
		t.Fatal(err)
	}
	d.key = key.KeyID
	cron := "0 3 * * *"
	if _, err := d.client.PutSchedule(ctx, schedule, api.ScheduleRequest{Cron: &cron, Job: api.ScheduleJob{Type: "report.render", Queue: queue}}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.client.TriggerSchedule(ctx, schedule); err != nil {
		t.Fatal(err)
	}
	return d
}

// budgets gives the tenant two, of which one has some usage and a job that waits for it.
func (d *data) budgets(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for name, budget := range map[string]api.BudgetRequest{
		budgetByUser: {Unit: "cents", Amount: 5000, Window: new(api.BudgetDay), Timezone: "Europe/Berlin", By: new(api.BudgetByUser)},
		budget:       {Unit: "tokens", Amount: 400, PerMS: new(time.Hour.Milliseconds())},
	} {
		if _, err := d.client.PutBudget(ctx, name, budget); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.client.PutQueue(ctx, "models", api.QueueRequest{Costs: api.Amounts{budget: 300}}); err != nil {
		t.Fatal(err)
	}
	ask := api.SubmitRequest{Type: "model.ask", Queue: "models", User: new("ada"), Costs: api.Amounts{budget: 300, budgetByUser: 2}}
	stack.Submit(t, d.client, ask)
	job := stack.ClaimOne(t, d.client, marker+"-worker", "models")
	if _, err := d.client.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Used: api.Amounts{budget: 320}}); err != nil {
		t.Fatal(err)
	}
	d.broke = stack.Submit(t, d.client, ask)
}

// page is one of a tenant's pages, with something on it.
type page struct{ name, path string }

func (d *data) pages() []page {
	cause := "fingerprint=" + d.fingerprint + "&queue=" + queue
	return []page{
		{"overview", "/console"},
		{"queues", "/console/queues"},
		{"queue", "/console/queues/" + queue},
		{"queue-keys", "/console/queues/" + queue + "/keys"},
		{"jobs", "/console/jobs"},
		{"jobs-filtered", "/console/jobs?state=queued&metadata=order%3D" + marker},
		{"bulk-list", "/console/bulk"},
		{"bulk-confirm", "/console/bulk/confirm?do=cancel&state=queued&metadata=order%3D" + marker},
		{"bulk-confirm-move", "/console/bulk/confirm?do=move&queue=" + queue},
		{"job-completed", "/console/jobs/" + d.completed},
		{"job-dead", "/console/jobs/" + d.dead},
		{"job-waiting", "/console/jobs/" + d.waiting},
		{"job-scheduled", "/console/jobs/" + d.scheduled},
		{"job-change", "/console/jobs/" + d.scheduled + "/change"},
		{"job-asking", "/console/jobs/" + d.asking},
		{"job-budget", "/console/jobs/" + d.broke},
		{"dead-letters", "/console/dead-letters"},
		{"dead-letters-cause", "/console/dead-letters/group?" + cause},
		{"dead-letters-confirm", "/console/dead-letters/confirm?do=redrive&" + cause},
		{"workflows", "/console/workflows"},
		{"workflow", "/console/workflows/" + d.workflow},
		{"schedules", "/console/schedules"},
		{"schedule", "/console/schedules/" + schedule},
		{"types", "/console/types"},
		{"type", "/console/types/" + jobType},
		{"type-old", "/console/types/" + jobType + "?version=1"},
		{"budgets", "/console/budgets"},
		{"budget", "/console/budgets/" + budget},
		{"budget-by-user", "/console/budgets/" + budgetByUser + "?subject=ada"},
		{"workers", "/console/workers"},
		{"keys", "/console/keys"},
		{"limits", "/console/limits"},
		{"audit", "/console/audit"},
		{"session", "/console/session"},
	}
}
