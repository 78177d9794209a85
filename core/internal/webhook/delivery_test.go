package webhook_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{celltest.NewFixture(t)}
}

// put makes a webhook for some kinds of events.
func (f *fixture) put(owner tenant.ID, name string, filter api.WebhookFilter, events ...string) {
	f.Helper()
	request := api.WebhookRequest{URL: "https://example.com/hooks", Events: events, Filter: &filter}
	if _, err := f.Store.Webhooks.PutWebhook(f.Context(), owner, name, request, []byte("sealed")); err != nil {
		f.Fatal(err)
	}
}

func allKinds() []string {
	return []string{api.EventJobCompleted, api.EventJobDeadLetter, api.EventJobCancelled, api.EventWorkflowEnded}
}

// deliver works off all events of a tenant by one core.
func deliver(f *fixture, s *cell.Cell, owner tenant.ID) (done int) {
	f.Helper()
	for {
		step, err := s.Webhooks.NextEvents(f.Context(), owner)
		if err != nil {
			f.Fatal(err)
		}
		for name := range step.Lanes {
			made, err := s.Lanes.Ensure(f.Context(), owner, []lanes.Ask{{Key: name.Key(owner)}})
			if err != nil || made[0].Refused != 0 {
				f.Fatal(made, err)
			}
			step.Lanes[name] = made[0].ID
		}
		delivered, err := s.Webhooks.Deliver(f.Context(), &step)
		if err != nil {
			f.Fatal(err)
		}
		done += delivered.Done
		if delivered.Done == 0 {
			return done
		}
	}
}

// delivery is a delivery as it is stored.
type delivery struct {
	ID    uuid.UUID
	Event api.WebhookEvent
	Raw   string
}

// delivered works off all events, and gives the deliveries of a webhook in the order in which they were made.
func (f *fixture) delivered(name string) []delivery {
	f.Helper()
	deliver(f, f.Store, f.Tenant)
	rows, err := f.Direct.Query(f.Context(), `SELECT id, payload::text FROM jobs WHERE queue = $1 ORDER BY id`, api.WebhookQueue(name))
	if err != nil {
		f.Fatal(err)
	}
	var found []delivery
	for rows.Next() {
		var one delivery
		if err := rows.Scan(&one.ID, &one.Raw); err != nil {
			f.Fatal(err)
		}
		if err := json.Unmarshal([]byte(one.Raw), &one.Event); err != nil {
			f.Fatal(err)
		}
		found = append(found, one)
	}
	if rows.Err() != nil {
		f.Fatal(rows.Err())
	}
	return found
}

// kinds are the kinds of deliveries, in order.
func kinds(all []delivery) []string {
	var found []string
	for _, one := range all {
		found = append(found, one.Event.Type)
	}
	return found
}

func (f *fixture) fail(one jobs.Ending) jobs.Ending {
	one.Kind, one.Error = api.KindFail, &api.JobError{Type: "smtp", Message: "refused", Stack: "at line 1"}
	return one
}

// A webhook has no key: of a type with sensitive fields it gets no more than a key without the scope payload.
func TestADeliveryHidesWhatIsSensitive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hides := jobtypes.Definition{JobTypeRequest: api.JobTypeRequest{ResultSchema: json.RawMessage(`{"properties":{"token":{"x-sensitive":true}}}`)}, Sensitive: true}
	if _, _, err := f.Store.JobTypes.PutType(t.Context(), f.Tenant, "secret", hides); err != nil {
		t.Fatal(err)
	}
	f.put(f.Tenant, "hook", api.WebhookFilter{}, allKinds()...)
	f.Submit(f.Job(func(n *submit.NewJob) { n.Type = "secret" }))
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete, Result: []byte(`{"token":"c4n4ry","n":1}`)})
	f.Submit(f.Job(func(n *submit.NewJob) { n.Type = "secret" }))
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "T", Message: "c4n4ry", Stack: "c4n4ry"}})
	all := f.delivered("hook")
	if len(all) != 2 || strings.Contains(all[0].Raw+all[1].Raw, "c4n4ry") {
		t.Fatalf("%+v", all)
	}
	if got := string(all[0].Event.Data.Job.Result); got != `{"n":1,"token":"•••"}` {
		t.Error(got)
	}
	if got := all[1].Event.Data.Job.LastError; got.Type != "T" || got.Message != "•••" || got.Stack != "•••" {
		t.Errorf("%+v", got)
	}
}

// Each way in which a job can end makes one delivery, with the job as it ended; ways that only return it make none.
func TestEveryEndIsDelivered(t *testing.T) {
	t.Parallel()
	once := func(n *submit.NewJob) { n.MaxAttempts = 1 }
	for name, end := range map[string]struct {
		kind, reason string
		change       func(*submit.NewJob)
		do           func(f *fixture, id uuid.UUID)
	}{
		"complete": {api.EventJobCompleted, "", nil, func(f *fixture, _ uuid.UUID) {
			f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete, Result: []byte(`{"n": 1.50, "s":"<\u0000>"}`)})
		}},
		"fail, exhausted": {api.EventJobDeadLetter, "exhausted", once, func(f *fixture, _ uuid.UUID) {
			f.MustEnd(f.fail(jobs.Ending{Lease: f.ClaimOne().Lease()}))
		}},
		"fail, permanent": {api.EventJobDeadLetter, "permanent", nil, func(f *fixture, _ uuid.UUID) {
			f.MustEnd(f.fail(jobs.Ending{Lease: f.ClaimOne().Lease(), Permanent: true}))
		}},
		"worker lost": {api.EventJobDeadLetter, "worker_lost", once, func(f *fixture, id uuid.UUID) {
			f.ClaimOne()
			f.Expire(id)
			f.Reap()
		}},
		"deadline": {api.EventJobDeadLetter, "deadline", func(n *submit.NewJob) { n.Deadline = new(time.Now().Add(time.Hour)) }, func(f *fixture, id uuid.UUID) {
			f.Exec(`UPDATE jobs SET deadline = now() - interval '1 second' WHERE id = $1`, id)
			if ended, err := f.Store.Jobs.ExpireDeadlines(f.Context(), time.Hour, 10); err != nil || len(ended) != 1 {
				f.Fatal(ended, err)
			}
		}},
		"complete, with all that a job can have": {api.EventJobCompleted, "", func(n *submit.NewJob) {
			n.User, n.Tags, n.Metadata, n.Priority = new("user \"1\""), []string{"a", "b"}, []byte(`{"k": "v\u2028"}`), 7
			n.DedupeKey, n.CorrelationID, n.Deadline = new("key\\"), new("correlation"), new(time.Now().Add(time.Hour).Truncate(time.Microsecond))
			n.TimeoutMS = new(int64(90_000))
		}, func(f *fixture, _ uuid.UUID) {
			lease := f.ClaimOne().Lease()
			reported, err := f.Store.Jobs.Report(f.Context(), []jobs.Report{{Lease: lease, Progress: &api.Progress{Percent: new(40.0), Message: new("on it")}, Checkpoint: []byte(`{"at":  "\u0000"}`)}})
			if err != nil || len(reported) != 1 {
				f.Fatal(reported, err)
			}
			f.MustEnd(jobs.Ending{Lease: lease, Kind: api.KindComplete, Result: []byte(`[1.0, 9007199254740993]`)})
		}},
		"cancel": {api.EventJobCancelled, "", nil, func(f *fixture, id uuid.UUID) { f.cancel(id) }},
		"cancel of a running one": {api.EventJobCancelled, "", nil, func(f *fixture, id uuid.UUID) {
			lease := f.ClaimOne().Lease()
			f.cancel(id)
			f.MustEnd(f.fail(jobs.Ending{Lease: lease}))
		}},
		"cancel, then its lease expires": {api.EventJobCancelled, "", nil, func(f *fixture, id uuid.UUID) {
			f.ClaimOne()
			f.cancel(id)
			f.Expire(id)
			f.Reap()
		}},
		"cancel, but it completes": {api.EventJobCompleted, "", nil, func(f *fixture, id uuid.UUID) {
			lease := f.ClaimOne().Lease()
			f.cancel(id)
			f.MustEnd(jobs.Ending{Lease: lease, Kind: api.KindComplete})
		}},
		"fail with attempts left": {"", "", nil, func(f *fixture, _ uuid.UUID) { f.MustEnd(f.fail(jobs.Ending{Lease: f.ClaimOne().Lease()})) }},
		"snooze": {"", "", nil, func(f *fixture, _ uuid.UUID) {
			f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindSnooze, Delay: time.Hour})
		}},
		"release": {"", "", nil, func(f *fixture, _ uuid.UUID) {
			f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindRelease})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.put(f.Tenant, "all", api.WebhookFilter{}, allKinds()...)
			change := end.change
			if change == nil {
				change = func(*submit.NewJob) {}
			}
			id := f.Submit(f.Job(change))[0]
			end.do(f, id)
			made := f.delivered("all")
			if end.kind == "" {
				if len(made) != 0 {
					t.Errorf("it has not ended, and is delivered: %s", made[0].Raw)
				}
				return
			}
			if !slices.Equal(kinds(made), []string{end.kind}) {
				t.Fatalf("delivered %v", kinds(made))
			}
			f.sameAsStored(id, made[0], end.reason)
		})
	}
}

func (f *fixture) cancel(id uuid.UUID) {
	f.Helper()
	if _, _, err := f.Store.Jobs.Cancel(f.Context(), f.Tenant, "", id); err != nil {
		f.Fatal(err)
	}
}

// sameAsStored compares the job of a delivery with the stored one: it is the same, without the payload.
func (f *fixture) sameAsStored(id uuid.UUID, made delivery, reason string) {
	f.Helper()
	stored := f.Get(id)
	if !made.Event.Timestamp.Equal(stored.FinishedAt.Time) {
		f.Errorf("at %v, ended %v", made.Event.Timestamp, stored.FinishedAt)
	}
	if got := stored.DeadReason; reason == "" && got != nil || reason != "" && (got == nil || *got != reason) {
		f.Errorf("reason %v, want %q", got, reason)
	}
	var want, got map[string]any
	text, err := json.Marshal(stored)
	if err != nil || json.Unmarshal(text, &want) != nil {
		f.Fatal(err)
	}
	var body struct{ Data struct{ Job map[string]any } }
	if err := json.Unmarshal([]byte(made.Raw), &body); err != nil {
		f.Fatal(err)
	}
	got = body.Data.Job
	delete(want, "payload")
	for name, value := range want {
		if a, b := string(store.JSON(value)), string(store.JSON(got[name])); a != b {
			f.Errorf("%s: stored %s, delivered %s", name, a, b)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		f.Errorf("delivered too: %v", got)
	}
}

// A webhook gets what its filter and its kinds ask for, and nothing of another tenant.
func TestAWebhookGetsWhatItAsksFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewTenant()
	f.put(f.Tenant, "dead", api.WebhookFilter{}, api.EventJobDeadLetter)
	f.put(f.Tenant, "queue", api.WebhookFilter{Queue: new("default")}, api.EventJobCompleted)
	f.put(f.Tenant, "wrong-queue", api.WebhookFilter{Queue: new("elsewhere")}, allKinds()...)
	f.put(f.Tenant, "type", api.WebhookFilter{Type: new("test")}, api.EventJobCompleted)
	f.put(f.Tenant, "wrong-type", api.WebhookFilter{Type: new("tes")}, allKinds()...)
	f.put(f.Tenant, "tag", api.WebhookFilter{Tag: new("b")}, api.EventJobCompleted)
	f.put(f.Tenant, "wrong-tag", api.WebhookFilter{Queue: new("default"), Tag: new("c")}, allKinds()...)
	f.put(other, "foreign", api.WebhookFilter{}, allKinds()...)
	f.Submit(f.Job(func(n *submit.NewJob) { n.Tags = []string{"a", "b"} }))
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	for name, want := range map[string]int{"dead": 0, "queue": 1, "wrong-queue": 0, "type": 1, "wrong-type": 0, "tag": 1, "wrong-tag": 0} {
		if got := f.delivered(name); len(got) != want {
			t.Errorf("%s: %d deliveries, want %d", name, len(got), want)
		}
	}
	if deliver(f, f.Store, other) != 0 || f.CountOf(`SELECT count(*) FROM jobs WHERE tenant_id = $1`, other) != 0 {
		t.Error("another tenant has events")
	}
	// A delivery is no job of the tenant's: its end is no event.
	f.Submit(f.Job(func(n *submit.NewJob) { n.Queue = api.WebhookQueue("queue") }))
	f.cancel(f.Submit(f.Job(func(n *submit.NewJob) { n.Queue = api.WebhookQueue("wrong-queue") }))[0])
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	if n := f.Count("webhook_events"); n != 0 {
		t.Errorf("%d events of deliveries", n)
	}
}

// An event has the job as it ended: a redrive, or a deletion, before it is worked off changes nothing.
func TestAnEventIsTheJobAsItEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(f.Tenant, "all", api.WebhookFilter{}, allKinds()...)
	redriven, deleted := f.Submit(f.Job())[0], f.Submit(f.Job())[0]
	for range 2 {
		f.MustEnd(f.fail(jobs.Ending{Lease: f.ClaimOne().Lease(), Permanent: true}))
	}
	if got := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{redriven}, nil); got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
	if _, err := f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "", deleted); err != nil {
		t.Fatal(err)
	}
	made := f.delivered("all")
	if !slices.Equal(kinds(made), []string{api.EventJobDeadLetter, api.EventJobDeadLetter}) {
		t.Fatal(kinds(made))
	}
	for _, one := range made {
		job := one.Event.Data.Job
		if job.State != api.StateDeadLetter || job.DeadReason == nil || *job.DeadReason != api.ReasonPermanent || job.LastError.Stack != "at line 1" || job.Attempt != 1 || job.Redrives != 0 {
			t.Errorf("%s", one.Raw)
		}
	}
}

// Two cores that work off the same events make one delivery of each.
func TestTwoCoresDeliverOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(f.Tenant, "all", api.WebhookFilter{}, allKinds()...)
	const n = 250
	found := make([]submit.NewJob, n)
	for i := range found {
		found[i] = f.Job()
	}
	f.Submit(found...)
	var endings []jobs.Ending
	for _, one := range f.Claim(n, time.Minute, f.Lane) {
		endings = append(endings, jobs.Ending{Lease: one.Lease(), Kind: api.KindComplete})
	}
	f.Store.Jobs.End(t.Context(), endings)
	var group sync.WaitGroup
	for _, s := range []*cell.Cell{f.Store, celltest.OpenURL(t, f.URL)} {
		group.Go(func() { deliver(f, s, f.Tenant) })
	}
	group.Wait()
	seen := map[string]bool{}
	made := f.delivered("all")
	for _, one := range made {
		seen[one.Event.Data.Job.ID] = true
	}
	if len(made) != n || len(seen) != n {
		t.Errorf("%d deliveries of %d jobs, want %d of %d", len(made), len(seen), n, n)
	}
}

// A workflow's end is delivered once, however many of its jobs end at the same time, and again after a redrive.
func TestTheEndOfAWorkflowIsDelivered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(f.Tenant, "ends", api.WebhookFilter{Queue: new("elsewhere")}, api.EventWorkflowEnded)
	made := &workflow.New{ID: uuid.Must(uuid.NewV7()), Name: "nightly", Metadata: []byte("{}"), Refs: []string{"a", "b", "c"}}
	s := submit.Submission{Tenant: f.Tenant, Batch: true, Atomic: true, Workflow: made}
	for range made.Refs {
		s.Jobs = append(s.Jobs, f.Job())
	}
	if answer := f.TrySubmit(s)[0]; answer.Problem != nil {
		t.Fatal(answer.Problem)
	}
	claimed := f.Claim(3, time.Minute, f.Lane)
	f.MustEnd(f.fail(jobs.Ending{Lease: claimed[0].Lease(), Permanent: true}))
	if got := f.delivered("ends"); len(got) != 0 {
		t.Fatalf("it runs, and its end is delivered: %s", got[0].Raw)
	}
	f.Store.Jobs.End(t.Context(), []jobs.Ending{
		{Lease: claimed[1].Lease(), Kind: api.KindComplete}, {Lease: claimed[2].Lease(), Kind: api.KindComplete},
	})
	got := f.delivered("ends")
	if len(got) != 1 || got[0].Event.Data.Workflow == nil || got[0].Event.Data.Workflow.ID != made.ID.String() || got[0].Event.Data.Workflow.State != api.WorkflowFailed {
		t.Fatalf("%d deliveries: %+v", len(got), got)
	}
	if redriven := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{claimed[0].ID}, nil); redriven[0].Err != nil {
		t.Fatal(redriven[0].Err)
	}
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	got = f.delivered("ends")
	if len(got) != 2 || got[1].Event.Data.Workflow.State != api.WorkflowCompleted {
		t.Errorf("%d deliveries: %+v", len(got), got)
	}
}

// A webhook that is deleted takes its deliveries along, in any state, and can be made again; what ends meanwhile
// is no event of it.
func TestADeletedWebhookLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(f.Tenant, "gone", api.WebhookFilter{}, allKinds()...)
	f.put(f.Tenant, "stays", api.WebhookFilter{}, allKinds()...)
	for range 5 {
		f.Submit(f.Job())
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	}
	if len(f.delivered("gone")) != 5 {
		t.Fatal("no deliveries")
	}
	lanes, err := f.Store.Lanes.Ensure(t.Context(), f.Tenant, []lanes.Ask{{Key: lanes.NewKey(f.Tenant, api.WebhookQueue("gone"), api.EventJobCompleted, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	held := f.Claim(2, time.Minute, lanes[0].Lane)
	f.MustEnd(f.fail(jobs.Ending{Lease: held[0].Lease(), Permanent: true}))
	f.Exec(`UPDATE jobs SET state = 'scheduled', ready_at = NULL WHERE id = (SELECT id FROM jobs WHERE state = 'queued' AND queue = '_webhook.gone' LIMIT 1)`)
	f.Submit(f.Job())
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete}) // an event without a delivery
	if err := f.Store.Webhooks.DeleteWebhook(t.Context(), f.Tenant, "gone"); err != nil {
		t.Fatal(err)
	}
	f.Submit(f.Job())
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	_, err = f.Store.Webhooks.PutWebhook(t.Context(), f.Tenant, "gone", api.WebhookRequest{URL: "https://example.com", Events: allKinds()}, nil)
	if refused, ok := errors.AsType[*problem.Problem](err); !ok || refused.Code != problem.QueueNotEmpty {
		t.Errorf("made again while it is removed: %v", err)
	}
	batches := 0
	for more := true; more; batches++ {
		if more, err = f.Store.Webhooks.RemoveWebhookData(t.Context(), webhook.Deleted{TenantID: f.Tenant, Name: "gone"}, 2); err != nil || batches > 20 {
			t.Fatal(batches, err)
		}
	}
	if batches < 4 {
		t.Errorf("removed in %d batches", batches)
	}
	for _, table := range []string{"jobs", "dead_letters"} {
		if n := f.CountOf(`SELECT count(*) FROM ` + table + ` WHERE queue = '_webhook.gone'`); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
	if n := f.CountOf(`SELECT count(*) FROM queues WHERE name = '_webhook.gone'`); n != 0 {
		t.Error("its queue is there")
	}
	if got := f.delivered("stays"); len(got) != 7 {
		t.Errorf("the other one has %d deliveries, want 7", len(got))
	}
	if ended := f.End(jobs.Ending{Lease: held[1].Lease(), Kind: api.KindComplete}); !errors.Is(ended.Err, jobs.ErrLeaseLost) && !errors.Is(ended.Err, store.ErrNotFound) {
		t.Errorf("the holder of a removed delivery: %v", ended.Err)
	}
	f.put(f.Tenant, "gone", api.WebhookFilter{}, allKinds()...)
	f.NoDrift()
}

// Deliveries are in no list that does not ask for them, and in no cap.
func TestDeliveriesAreShownApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(f.Tenant, "all", api.WebhookFilter{}, allKinds()...)
	capped := func(n *submit.NewJob) { n.Caps = []caps.Cap{f.ActiveCap(1)} }
	for range 3 { // each has room only if the deliveries of the others take none
		f.Submit(f.Job(capped))
		f.MustEnd(f.fail(jobs.Ending{Lease: f.ClaimOne().Lease(), Permanent: true}))
		f.delivered("all")
	}
	f.Exec(`UPDATE jobs SET deadline = now() - interval '1 s'`)
	if _, err := f.Store.Jobs.ExpireDeadlines(t.Context(), time.Hour, 1); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]int{"": 0, api.WebhookQueue("all"): 2} {
		live, err := f.Store.JobReads.List(t.Context(), f.Tenant, api.JobFilter{Queue: filter, States: []string{api.StateQueued}}, 10, "")
		if err != nil || len(live.Items) != want {
			t.Errorf("of the queue %q: %d live jobs, want %d; %v", filter, len(live.Items), want, err)
		}
	}
	for filter, want := range map[string]int{"": 3, api.WebhookQueue("all"): 1} {
		dead, err := f.Store.DeadLetters.DeadLetters(t.Context(), f.Tenant, "", api.DeadLetterFilter{Queue: filter}, 10, "")
		if err != nil || len(dead.Items) != want {
			t.Errorf("of the queue %q: %d dead letters, want %d; %v", filter, len(dead.Items), want, err)
		}
		matched, err := f.Store.DeadLetters.Matching(t.Context(), f.Tenant, "", api.DeadLetterFilter{Queue: filter})
		if err != nil || matched.Matched != int64(want) {
			t.Errorf("of the queue %q: %+v match, want %d; %v", filter, matched, want, err)
		}
	}
	if queues, err := f.Store.Queues.List(t.Context(), f.Tenant, queues.Page{Size: 10}); err != nil || len(queues) != 1 || queues[0].Name != "default" {
		t.Errorf("queues %+v, %v", queues, err)
	}
	today, yesterday := time.Now().UTC().Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) // it may be midnight
	counted, err := f.Store.Ledger.Usage(t.Context(), f.Tenant, hop.UsageRequest{By: api.ByType, From: yesterday, To: today}, "", 10)
	if err != nil || len(counted.Items) != 1 || counted.Items[0].Accepted != 3 || counted.Items[0].DeadLetter != 3 {
		t.Errorf("usage %+v, %v", counted.Items, err)
	}
	shown, err := f.Store.Webhooks.Webhook(t.Context(), f.Tenant, "all")
	if err != nil || shown.Deliveries.Waiting != 2 || shown.Deliveries.DeadLetter != 1 || shown.Queue != api.WebhookQueue("all") {
		t.Errorf("%+v, %v", shown, err)
	}
	f.NoDrift()
}

// A budget that a worker closes is an event, and once as long as it is closed.
func TestAClosedBudgetIsAnEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(f.Tenant, "hook", api.WebhookFilter{Queue: new("of.no.event")}, api.EventBudgetClosed)
	f.put(f.Tenant, "other", api.WebhookFilter{}, api.EventJobCompleted)
	if err := f.Store.Budgets.Put(t.Context(), f.Tenant, "openai", api.BudgetRequest{Unit: "tokens", Amount: 10, PerMS: new(int64(60_000))}); err != nil {
		t.Fatal(err)
	}
	for _, ms := range []int64{30_000, 60_000} {
		f.Submit(f.Job())
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindSnooze, Delay: time.Hour, Throttle: map[string]api.Throttle{"openai": {RetryAfterMS: ms}}})
	}
	made := f.delivered("hook")
	if len(made) != 1 || len(f.delivered("other")) != 0 {
		t.Fatalf("%d deliveries", len(made))
	}
	event := made[0].Event
	if closed := event.Data.Budget; event.Type != api.EventBudgetClosed || closed == nil || closed.Name != "openai" || closed.Unit != "tokens" || event.Data.Job != nil ||
		closed.ClosedUntil.Sub(event.Timestamp.Time) != 30*time.Second {
		t.Errorf("%s", made[0].Raw)
	}
}
