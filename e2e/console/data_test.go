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
	// completed, dead, waiting and scheduled are jobs; key is a key's id.
	completed, dead, waiting, scheduled string
	fingerprint, workflow, key          string
	// redrive is there once there are busy pages.
	redrive string
}

const (
	queue    = marker
	schedule = marker + "-nightly"
	jobType  = marker + ".render"
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
		{"job-completed", "/console/jobs/" + d.completed},
		{"job-dead", "/console/jobs/" + d.dead},
		{"job-waiting", "/console/jobs/" + d.waiting},
		{"job-scheduled", "/console/jobs/" + d.scheduled},
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
		{"workers", "/console/workers"},
		{"keys", "/console/keys"},
		{"limits", "/console/limits"},
		{"audit", "/console/audit"},
		{"session", "/console/session"},
	}
}
