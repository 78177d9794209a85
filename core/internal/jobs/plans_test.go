package jobs_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
)

// fillSQL makes 150,000 jobs: of a hundred tenants' lanes, of all priorities, most
// of them queued, some scheduled, some leased; and history.
var fillSQL = []string{
	`INSERT INTO lanes (tenant_id, queue, type, tags, created_at)
	 SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'default', 'test', '{}', now() FROM generate_series(1, 100) n`,
	`INSERT INTO jobs (id, tenant_id, lane_id, queue, type, user_id, state, priority, payload, tags, metadata, max_attempts, attempt, epoch,
	                   retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, deadline, dedupe_key,
	                   lease_id, lease_expires_at, visibility_timeout_ms, started_at, worker_id, worker_owner, size)
	 SELECT gen_random_uuid(), l.tenant_id, l.id, 'default', 'test', CASE WHEN n % 3 = 0 THEN 'u' || n % 50 END,
	        CASE WHEN n % 10 < 7 THEN 'queued' WHEN n % 10 < 9 THEN 'scheduled' ELSE 'running' END, n % 10, '{}', '{}', '{}', 3, (n % 10 = 9)::int, (n % 10 = 9)::int,
	        1000, 1000, 0, now(), now() + n * interval '1 ms', CASE WHEN n % 10 < 7 THEN now() - (150000 - n) * interval '1 ms' END,
	        CASE WHEN n % 100 = 0 THEN now() + interval '1 day' END, CASE WHEN n % 1000 = 0 THEN 'd' || n END,
	        CASE WHEN n % 10 = 9 THEN gen_random_uuid() END, CASE WHEN n % 10 = 9 THEN now() + n * interval '1 s' END, CASE WHEN n % 10 = 9 THEN 30000 END,
	        CASE WHEN n % 10 = 9 THEN now() END, CASE WHEN n % 10 = 9 THEN 'w' END, CASE WHEN n % 10 = 9 THEN l.tenant_id END, 6
	 FROM generate_series(1, 150000) n JOIN (SELECT id, tenant_id, row_number() OVER () AS nth FROM lanes) l ON l.nth = 1 + n / 10 % 100`,
	`INSERT INTO finished_jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, attempt, max_attempts, epoch, redrives,
	                            retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, cancel_requested, finished_at)
	 SELECT gen_random_uuid(), tenant_id, lane_id, queue, type, 'completed', priority, payload, tags, metadata, 1, 3, 1, 0, 1, 1, 0, now(), now(), false, now()
	 FROM jobs WHERE state = 'queued' LIMIT 60000`,
	`INSERT INTO dead_letters (id, tenant_id, lane_id, queue, type, priority, payload, tags, metadata, attempt, max_attempts, epoch, redrives,
	                           retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, cancel_requested, reason, fingerprint, died_at)
	 SELECT gen_random_uuid(), tenant_id, lane_id, queue, type, priority, payload, tags, metadata, 3, 3, 3, 0, 1, 1, 0, now(), now(), false, 'exhausted', md5(priority::text), now()
	 FROM jobs WHERE state = 'queued' LIMIT 30000`,
	`INSERT INTO attempts (job_id, epoch, tenant_id, attempt, kind, started_at, ended_at) SELECT id, 1, tenant_id, 1, 'failed', now(), now() FROM dead_letters`,
	`INSERT INTO dependencies (tenant_id, parent_id, child_id, on_failed, redrives, resolved_at)
	 SELECT tenant_id, id, gen_random_uuid(), 'cancel', 0, CASE WHEN n % 10 > 0 THEN now() END FROM (SELECT id, tenant_id, row_number() OVER () AS n FROM jobs LIMIT 100000) AS parents`,
	`INSERT INTO workflows (id, tenant_id, name, metadata, created_at) SELECT gen_random_uuid(), tenant_id, 'w', '{}', now() FROM jobs LIMIT 10000`,
	`INSERT INTO workflow_jobs (workflow_id, ref, job_id) SELECT w.id, 'r' || n, j.id FROM (SELECT id, row_number() OVER () AS n FROM jobs LIMIT 100000) j JOIN (SELECT id, row_number() OVER () AS m FROM workflows) w ON m = 1 + n % 10000`,
	`INSERT INTO webhooks (tenant_id, name, events, created_at, updated_at)
	 SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n % 1000 + 1), 12, '0'))::uuid, 'hook' || n, '{job.completed,job.dead_letter,job.cancelled,workflow.ended}', now(), now() FROM generate_series(1, 20000) n`,
	`INSERT INTO webhook_events (tenant_id, webhook, kind, job, finished_at) SELECT tenant_id, 'hook1', 'job.completed', row_to_json(finished_jobs), now() FROM finished_jobs LIMIT 20000`,
	`INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at) SELECT tenant_id, id, 'completed', 0, now() FROM finished_jobs LIMIT 20000`,
	`INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
	 SELECT tenant_id, '', 'submit', id::text, decode(repeat('00', 32), 'hex'), ARRAY[id], 202, '{}', now() FROM dead_letters`,
}

// large are the tables of which no statement may read more than it needs.
var large = []string{"jobs", "finished_jobs", "dead_letters", "attempts", "idempotency_keys", "dependencies", "follow_ups", "workflows", "workflow_jobs", "webhooks", "webhook_events"}

// mostPages bounds what one statement touches, index and table together: a batch here
// has at most 100 jobs, and each of its rows up to a dozen index entries. Reading a
// table of half a million jobs through would be more than 10,000.
const mostPages = 8000

// Whatever the statistics say, from before the first job or of today, and whichever
// plan is taken, every statement of the hot path stays on the index that it was
// written for.
func TestStatementsStayOnTheirIndexes(t *testing.T) {
	celltest.Large(t, "TestStepsAreLinear")
	t.Parallel()
	f := &fixture{celltest.NewFixtureOn(t, celltest.NewURL(t))}
	f.Exec(`DO $$ DECLARE t regclass; BEGIN
		FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
			EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', t);
		END LOOP; END $$`)
	// Full pages: what is counted is what a plan touches, and not how much room pages have for new versions.
	f.Exec(`ALTER TABLE jobs SET (fillfactor = 100)`)
	f.Exec(`ANALYZE`) // statistics of an empty database
	recorded := &celltest.Statements{}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: 5 * time.Second, Tracer: recorded}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f.Exec(`SET synchronous_commit = off`)
	for _, sql := range fillSQL {
		f.Exec(sql)
	}
	hotPath(f, store)
	t.Logf("%d statements", len(recorded.Seen()))
	for _, phase := range []struct{ name, sql string }{
		{"statistics of the empty database", ""},
		{"statistics of today", `ANALYZE`},
		{"statistics of today, few rows left among dead entries", `DELETE FROM jobs WHERE abs(hashtext(id::text)) % 100 > 0`},
		{"statistics of few rows among dead entries", `ANALYZE`},
	} {
		if phase.sql != "" {
			f.Exec(phase.sql)
		}
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			t.Run(phase.name+", "+mode, func(t *testing.T) { checkPlans(f, t, recorded, mode, !strings.Contains(phase.name, "dead")) })
		}
	}
}

// linkedPath makes the store say what it says for jobs that come after others.
func linkedPath(run *fixture) {
	run.Helper()
	ctx, store := run.Context(), run.Store
	after := func(policy job.OnFailed, parents []submit.NewJob) func(*submit.NewJob) {
		return func(j *submit.NewJob) {
			for i := range parents {
				j.After = append(j.After, submit.After{Parent: parents[i].ID, OnFailed: policy})
			}
		}
	}
	lane := run.NewLane(run.Tenant, "linked")
	in := func(j *submit.NewJob) { j.Lane, j.Queue = lane.ID, lane.Queue }
	parents := run.Jobs(50, in)
	run.Submit(parents...)
	children := run.Jobs(50, in, after(job.CancelChild, parents[:25]), after(job.HoldChild, parents[25:]))
	run.TrySubmit(submit.Submission{Tenant: run.Tenant, Batch: true, Jobs: children})
	var endings []jobs.Ending
	for i, taken := range run.Claim(40, time.Minute, lane) {
		ending := jobs.Ending{Lease: taken.Lease(), Kind: api.KindComplete}
		if i == 39 {
			ending.Kind, ending.Permanent, ending.Error = api.KindFail, true, &api.JobError{Type: "t", Message: "m"}
		}
		endings = append(endings, ending)
	}
	store.Jobs.End(ctx, endings)
	for range 20 {
		if _, err := store.Jobs.FollowUp(ctx, run.Tenant); err != nil {
			run.Fatal(err)
		}
	}
	run.Get(children[0].ID)
	if _, err := store.JobReads.List(ctx, run.Tenant, api.JobFilter{}, 50, ""); err != nil {
		run.Fatal(err)
	}
	flow := submit.Submission{Tenant: run.Tenant, Batch: true, Atomic: true, Jobs: run.Jobs(2, in), Workflow: &workflow.New{ID: uuid.Must(uuid.NewV7()), Name: "w", Metadata: []byte("{}"), Refs: []string{"a", "b"}}}
	more := submit.Submission{Tenant: run.Tenant, Batch: true, Atomic: true, Jobs: run.Jobs(1, in), Workflow: &workflow.New{ID: flow.Workflow.ID, Add: true, Refs: []string{"c"}}}
	run.TrySubmit(flow)
	run.TrySubmit(more)
	workflowPath(run, flow.Workflow.ID, children[0].ID)
	_, oldestErr := store.Dependencies.WaitingTenants(ctx)
	_, forgetErr := store.Dependencies.ForgetEdges(ctx, time.Hour, dependency.EdgePlace{}, 100)
	if err := errors.Join(oldestErr, forgetErr); err != nil {
		run.Fatal(err)
	}
}

// webhookPath makes it say what it says for webhooks and their deliveries; jobs have ended before.
func webhookPath(run *fixture) {
	run.Helper()
	ctx, store := run.Context(), run.Store
	_, tenantsErr := store.Webhooks.EventTenants(ctx)
	step, nextErr := store.Webhooks.NextEvents(ctx, run.Tenant)
	if err := errors.Join(tenantsErr, nextErr); err != nil || len(step.Lanes) == 0 {
		run.Fatal(len(step.Lanes), err)
	}
	for name := range step.Lanes {
		made, err := store.Lanes.Ensure(ctx, run.Tenant, []lanes.Ask{{Key: name.Key(run.Tenant)}})
		if err != nil {
			run.Fatal(err)
		}
		step.Lanes[name] = made[0].ID
	}
	delivered, err := store.Webhooks.Deliver(ctx, &step)
	if err != nil || len(delivered.Answers) == 0 {
		run.Fatal(len(delivered.Answers), err)
	}
	_, listErr := store.Webhooks.Webhooks(ctx, run.Tenant, "", 50)
	rotateErr := store.Webhooks.RotateSecret(ctx, run.Tenant, "all", func([]byte, []byte) ([]byte, error) { return []byte("sealed"), nil })
	callsErr := store.Webhooks.RecordLastCalls(ctx, []webhook.LastCall{{Tenant: run.Tenant, Name: "all", Status: new(200)}})
	deleteErr := store.Webhooks.DeleteWebhook(ctx, run.Tenant, "all")
	_, deletedErr := store.Webhooks.DeletedWebhooks(ctx, 100)
	_, removeErr := store.Webhooks.RemoveWebhookData(ctx, webhook.Deleted{TenantID: run.Tenant, Name: "all"}, 100)
	if err := errors.Join(listErr, rotateErr, callsErr, deleteErr, deletedErr, removeErr); err != nil {
		run.Fatal(err)
	}
}

// workflowPath makes it say what it says for a workflow, and for a job with parents.
func workflowPath(run *fixture, id, child uuid.UUID) {
	run.Helper()
	ctx, store := run.Context(), run.Store
	_, detailErr := store.Workflows.WorkflowDetail(ctx, run.Tenant, "", id)
	_, listErr := store.Workflows.ListWorkflows(ctx, run.Tenant, "", api.WorkflowFilter{State: api.WorkflowRunning}, 50, "")
	_, parentsErr := store.JobReads.Parents(ctx, run.Tenant, "", child, read.ParentsPage{Size: 200})
	live, liveErr := store.Workflows.Uncancelled(ctx, id)
	_, _, cancelErr := store.Jobs.CancelAll(ctx, run.Tenant, live)
	_, deadErr := store.Workflows.DeadLettersOfWorkflow(ctx, id)
	_, forgetErr := store.Workflows.ForgetWorkflows(ctx, time.Hour, uuid.Nil, 100)
	if err := errors.Join(detailErr, listErr, parentsErr, liveErr, cancelErr, deadErr, forgetErr); err != nil {
		run.Fatal(err)
	}
}

// hotPath makes the store say everything that it says for each job, and what duties say
// each second.
func hotPath(f *fixture, store *cell.Cell) {
	f.Helper()
	ctx := f.Context()
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	run := &fixture{&celltest.Fixture{T: f.T, URL: f.URL, Store: store, Tenant: f.NewTenant(), Direct: f.Direct}}
	run.Lane = run.NewLane(run.Tenant, "default")
	run.Submit(run.Jobs(80)...)
	run.TrySubmit(submit.Submission{Tenant: run.Tenant, Jobs: run.Jobs(1), Idempotency: &submit.Idempotency{Operation: "submit", Key: "k", Fingerprint: [32]byte{1}}})
	run.Submit(run.Jobs(5, func(j *submit.NewJob) { j.Caps = []caps.Cap{run.ActiveCap(1000)} })...)
	run.Submit(run.Job(func(j *submit.NewJob) { j.Delay = time.Hour }), run.Job(func(j *submit.NewJob) { j.DedupeKey = new("x") }))
	run.Submit(run.Job(func(j *submit.NewJob) { j.DedupeKey = new("x") }))
	_, err := store.Webhooks.PutWebhook(ctx, run.Tenant, "all", api.WebhookRequest{
		URL: "https://example.com", Events: []string{api.EventJobCompleted, api.EventJobDeadLetter, api.EventJobCancelled, api.EventWorkflowEnded},
	}, []byte("sealed"))
	must(err)
	linkedPath(run)
	webhookPath(run)

	var shares []claim.Share
	known, err := store.Lanes.After(ctx, 0, time.Time{})
	must(err)
	_, _, err = store.Lanes.Retire(ctx, 100)
	must(err)
	_, _, err = store.Lanes.Delete(ctx, 100)
	must(err)
	_, _, err = store.Lanes.OrphanLanes(ctx, 0, 100)
	must(err)
	must(store.Queues.Put(ctx, run.Tenant, "gone", api.QueueRequest{}))
	run.NewLane(run.Tenant, "gone")
	must(store.Queues.Delete(ctx, run.Tenant, "gone"))
	settled, err := store.Queues.SettleDeleted(ctx, queues.DeletedPlace{}, 100)
	must(err)
	if settled.Seen != 1 {
		f.Fatalf("settled = %+v", settled)
	}
	_, err = store.Lanes.JobsOfLane(ctx, known[0].ID, 100)
	must(err)
	request := claim.Request{Workers: []claim.Worker{{ID: "w", Max: 100}}, Owner: tenant.Platform, LeaseID: uuid.New()}
	for _, lane := range known[:25] {
		request.Lanes = append(request.Lanes, claim.Lane{ID: lane.ID, Tenant: lane.Tenant, VisibilityTimeout: time.Minute})
		shares = append(shares, celltest.ShareOf(4, lane.Lane, 9, 5, 4, 3, 0))
	}
	request.Shares = shares
	taken, err := store.Claims.Claim(ctx, request)
	must(err)
	if len(taken.Jobs) != 100 {
		f.Fatalf("claimed %d", len(taken.Jobs))
	}
	request.Lanes[0].Caps, request.LeaseID = []caps.Cap{{CountKey: caps.CountKey{Tenant: known[0].Tenant, Counter: caps.RunningTenant}, Limit: 5000}}, uuid.New()
	request.Lanes[1].Rates = []caps.Rate{{QueueKey: tenant.QueueKey{Tenant: known[1].Tenant, Name: "default"}, PerSecond: 100}}
	capped, err := store.Claims.Claim(ctx, request)
	must(err)
	leases := make([]job.Lease, len(taken.Jobs))
	for i := range taken.Jobs {
		leases[i] = taken.Jobs[i].Lease()
	}
	_, err = store.Jobs.Heartbeat(ctx, leases)
	must(err)
	reports := jobs.Plain(leases)
	for i := range reports {
		reports[i].Checkpoint = []byte(`{"page":7}`)
	}
	_, err = store.Jobs.Report(ctx, reports)
	must(err)
	endings := make([]jobs.Ending, len(leases))
	for i := range leases {
		endings[i] = jobs.Ending{Lease: leases[i], Kind: []string{api.KindComplete, api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease}[i%5]}
		if endings[i].Kind == api.KindFail {
			endings[i].Error, endings[i].Permanent = &api.JobError{Type: "t", Message: "m"}, i%2 == 0
		}
	}
	store.Jobs.End(ctx, endings)
	store.Jobs.End(ctx, endings) // repeats
	store.Jobs.GiveBack(ctx, []job.Lease{capped.Jobs[0].Lease()})
	for i := range endings {
		if _, err = store.EndedJobs.Delete(ctx, endings[i].Lease.Tenant, "", endings[i].Lease.Job); err != nil && !errors.Is(err, jobs.ErrLive) {
			f.Fatal(err)
		}
	}

	var lists []claim.ReadyList
	for _, lane := range known[:50] {
		lists = append(lists, celltest.ShareOf(1, lane.Lane, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0).Lists...)
	}
	_, err = store.Claims.Probe(ctx, lists, 8)
	must(err)
	_, err = store.Claims.Scan(ctx, claim.ReadyList{}, 500)
	must(err)

	must(store.Queues.Put(ctx, known[0].Tenant, known[0].Queue, api.QueueRequest{}))
	counted, err := store.Queues.List(ctx, known[0].Tenant, queues.Page{Size: 50})
	must(err)
	if len(counted) == 0 || counted[0].Queued == 0 {
		f.Fatalf("counted %+v", counted)
	}
	_, err = store.Queues.List(ctx, known[0].Tenant, queues.Page{Size: 50, CountTogether: 100})
	must(err)
	_, err = store.JobReads.HeldBy(ctx, known[0].Tenant, "w", time.Now().Add(time.Hour), 100)
	must(err)
	_, err = store.Workers.Remove(ctx, known[0].Tenant, "w")
	must(err)
	f.Exec(`UPDATE jobs SET lease_expires_at = now() - interval '1 minute' WHERE id IN (SELECT id FROM jobs WHERE state = 'running' LIMIT 100)`)
	f.Exec(`UPDATE jobs SET run_at = now() - interval '1 minute' WHERE id IN (SELECT id FROM jobs WHERE state = 'scheduled' LIMIT 100)`)
	f.Exec(`UPDATE jobs SET deadline = now() - interval '1 minute' WHERE id IN (SELECT id FROM jobs WHERE deadline IS NOT NULL LIMIT 100)`)
	_, err = store.Jobs.Reap(ctx, time.Now().Add(-time.Hour), 100, func() float64 { return 0.5 })
	must(err)
	_, err = store.Jobs.Promote(ctx, jobs.AllTime, 100)
	must(err)
	_, _, err = store.Jobs.NextDue(ctx, jobs.AllTime)
	must(err)
	_, _, err = store.Jobs.NextDeadline(ctx, jobs.AllTime, time.Hour)
	must(err)
	_, err = store.Jobs.ExpireDeadlines(ctx, jobs.AllTime, 100)
	must(err)
	_, err = store.JobReads.Totals(ctx, 1000)
	must(err)
	id := capped.Jobs[1].ID
	_, err = store.JobReads.Get(ctx, capped.Jobs[1].TenantID, "", id)
	must(err)
	_, err = store.JobReads.AheadOf(ctx, read.QueuePosition{ID: id, Lane: known[3].Lane, Priority: 5, Beside: []lanes.ID{known[0].ID, known[1].ID}})
	must(err)
	must(store.Stats.ReportRates(ctx, uuid.New(), []stats.LaneRate{{Lane: known[3].ID, Pace: stats.Pace{PerSecond: 1}}}))
	_, err = store.Stats.OtherRates(ctx, id)
	must(err)
	_, err = store.JobReads.Snapshots(ctx, []uuid.UUID{id})
	must(err)
	_, err = store.JobReads.List(ctx, known[3].Tenant, api.JobFilter{}, 50, "")
	must(err)
	_, err = store.DeadLetters.DeadLetters(ctx, known[3].Tenant, "", api.DeadLetterFilter{}, 50, "")
	must(err)
	_, err = store.JobReads.Attempts(ctx, capped.Jobs[1].TenantID, "", id, 0, 50)
	must(err)
	_, _, err = store.Jobs.Cancel(ctx, capped.Jobs[2].TenantID, "", capped.Jobs[2].ID)
	must(err)
	dead, err := store.DeadLetters.DeadLetters(ctx, known[4].Tenant, "", api.DeadLetterFilter{}, 20, "")
	must(err)
	var ids []uuid.UUID
	for _, one := range dead.Items {
		ids = append(ids, uuid.MustParse(one.Job.ID))
	}
	store.DeadLetters.Redrive(ctx, known[4].Tenant, "", ids[:10], nil)
	_, err = store.DeadLetters.Discard(ctx, known[4].Tenant, "", ids[10:])
	must(err)
	leaves := known[5].Tenant
	f.Exec(`INSERT INTO tenants (id, name, plan, weight, overrides, created_at) VALUES ($1, 'leaves', 'standard', 1, '{}', now()) ON CONFLICT DO NOTHING`, leaves)
	_, err = store.Tenants.Delete(ctx, leaves)
	must(err)
	var place tenants.RemovalPlace
	for removed := 1; removed > 0; {
		removed, place, err = store.Tenants.RemoveData(ctx, leaves, place, 100)
		must(err)
	}
}

var partition = regexp.MustCompile(`_\d{8}$|_p?\d{4}_\d{2}_\d{2}$`)

func checkPlans(f *fixture, t *testing.T, recorded *celltest.Statements, mode string, bounded bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, setting := range []string{"plan_cache_mode = " + mode, "enable_seqscan = off", "enable_bitmapscan = off"} {
		if _, err := conn.Exec(t.Context(), "SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	for sql, args := range recorded.Seen() {
		plan, ok := celltest.Explain(t, conn, sql, args)
		if !ok || strings.Contains(sql, scansRunning) {
			continue
		}
		if pages := plan.Hit + plan.Read; bounded && pages > mostPages && !strings.Contains(sql, walksRunning) {
			t.Errorf("%d pages for\n%s", pages, sql)
		}
		if strings.Contains(sql, leases) && !leasesByKey(plan) {
			t.Errorf("not by the primary key alone in\n%s", sql)
		}
		plan.Walk(func(n *celltest.PlanNode) {
			table := partition.ReplaceAllString(n.Relation, "")
			if !slices.Contains(large, table) {
				return
			}
			if n.Node == "Seq Scan" || strings.Contains(n.Node, "Bitmap") || strings.HasSuffix(n.Node, "Index Scan") && n.IndexCond == "" && !ordered(n.Index) {
				t.Errorf("%s on %s by %q without a condition in\n%s", n.Node, n.Relation, n.Index, sql)
			}
			if strings.Contains(sql, "id = ANY(") && !strings.Contains(sql, "ctid = ANY(") && strings.Contains(n.Index, "by_tenant") && !strings.Contains(sql, "uuid_send(id)") {
				t.Errorf("%s instead of the primary key in\n%s", n.Index, sql)
			}
		})
	}
}

// leases is in statements that lease jobs. They update what one index scan finds, and
// join nothing: see leaseSQL.
const leases = "lease_id = @lease_id"

func leasesByKey(plan *celltest.PlanNode) bool {
	for _, n := range plan.Plans {
		if n.Parent == "Outer" {
			return n.Node == "Index Scan" && n.Index == "jobs_pkey" && len(n.Plans) == 0 && strings.Contains(n.IndexCond, "id = ANY")
		}
	}
	return false
}

// scansRunning counts a tenant's running jobs while a new cap's count is not settled:
// it scans the index of all running jobs, see decision 9.
const scansRunning = "state = 'running' AND tenant_id = @tenant_id LIMIT"

// walksRunning lists a worker's leases by the index of all running jobs: there is none by worker.
const walksRunning = "worker_owner = @owner AND worker_id = @worker_id"

// ordered are indexes that are read from their head, in order and up to a LIMIT.
func ordered(index string) bool {
	return slices.Contains([]string{"jobs_scheduled", "jobs_ready", "jobs_waiting", "jobs_running", "dead_letters_by_age", "follow_ups_by_tenant"}, index)
}
