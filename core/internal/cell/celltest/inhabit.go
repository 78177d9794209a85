package celltest

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Inhabit gives a tenant some of all that a tenant can have.
func (f *Fixture) Inhabit(owner tenant.ID) {
	f.Helper()
	ctx, must := audit.WithActor(f.Context(), audit.Actor{Kind: "operator"}), func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	in := &Fixture{T: f.T, URL: f.URL, Store: f.Store, Tenant: owner, Direct: f.Direct}
	in.Lane = in.NewLane(owner, "default")
	must(f.Store.Queues.Put(ctx, owner, "default", api.QueueRequest{MaxRunning: new(int64(9))}))
	capped := func(j *submit.NewJob) { j.Caps = []caps.Cap{in.ActiveCap(1000)} }
	in.Submit(in.Jobs(6, capped)...)
	speaking := func() job.Lease {
		f.Helper()
		lease := in.ClaimOne().Lease()
		_, err := f.Store.Jobs.AppendOutput(ctx, lease, []api.OutputChunk{{Seq: 1, Stream: api.OutputOut, Text: "hello"}})
		must(err)
		return lease
	}
	for i := range 4 {
		in.MustEnd(jobs.Ending{Lease: speaking(), Kind: []string{api.KindComplete, api.KindFail}[i%2], Permanent: true, Error: &api.JobError{Type: "t", Message: "m"}})
	}
	speaking() // one runs
	parent := in.Submit(in.Job(capped, func(j *submit.NewJob) { j.Delay = time.Hour }))[0]
	in.Submit(in.Job(capped, func(j *submit.NewJob) { j.After = []submit.After{{Parent: parent, OnFailed: job.HoldChild}} }))
	in.TrySubmit(in.Single(Keyed("k", "b")))
	every := int64(3_600_000)
	_, err := f.Store.Schedules.PutSchedule(ctx, owner, "", "s", api.ScheduleRequest{EveryMS: &every, Job: api.ScheduleJob{Type: "t"}})
	must(err)
	_, _, err = f.Store.JobTypes.PutType(ctx, owner, "t", jobtypes.Definition{})
	must(err)
	_, err = f.Store.DeadLetters.CreateRedrive(ctx, owner, "", deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive})
	must(err)
	_, err = f.Store.Keys.Create(ctx, hop.CreateKeyRequest{KeyID: "k" + owner.String(), Kind: "tenant", Tenant: owner.String(), Scopes: []string{"read"}, SecretHMAC: make([]byte, 32)})
	must(err)
	flow := uuid.Must(uuid.NewV7())
	f.Exec(`INSERT INTO workflows (id, tenant_id, name, metadata, created_at) VALUES ($1, $2, 'w', '{}', now())`, flow, owner)
	f.Exec(`INSERT INTO workflow_jobs (workflow_id, ref, job_id) VALUES ($1, 'r', $2)`, flow, parent)
	f.Exec(`INSERT INTO schedule_runs (tenant_id, name, at, skipped) VALUES ($1, 's', now(), 'cap')`, owner)
	f.Exec(`INSERT INTO rate_log (tenant_id, queue, seq, due) VALUES ($1, 'q', 1, now())`, owner)
	f.Exec(`INSERT INTO ledger VALUES ($1, 'day', '', now()::date, 1, 1, 1, 1, 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO ledger_entries VALUES ($1, now()::date, 't', '', 1, 1, 1, 1, 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO limit_stats VALUES ($1, 'tenant-active', '', 0, now(), 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO job_stats VALUES ($1, 'q', 0, now(), 1, 1, 1, 1, 1, 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO job_signals (job_id, name, tenant_id, at) VALUES (gen_random_uuid(), 'approved', $1, now())`, owner)
	f.Exec(`INSERT INTO job_waits (job_id, tenant_id, names, all_of) VALUES (gen_random_uuid(), $1, '{approved}', false)`, owner)
	f.Exec(`INSERT INTO key_checks (tenant_id, queue, keys) VALUES ($1, 'default', '{k}')`, owner)
	f.Exec(`INSERT INTO key_rates (tenant_id, queue, key, used_to) VALUES ($1, 'default', 'k', now())`, owner)
	f.Exec(`INSERT INTO budgets (tenant_id, name, unit, amount, per_ms, created_at, updated_at) VALUES ($1, 'b', 'tokens', 1, 1000, now(), now())`, owner)
	f.Exec(`INSERT INTO budget_log (tenant_id, budget, subject, seq, parts, amounts, running, since, day, reserved, used, overdrawn) VALUES ($1, 'b', '', 1, '{}', '{}', 0, now(), now()::date, 0, 0, 0)`, owner)
	f.Exec(`INSERT INTO budget_settlements (tenant_id, budget, subject, at, started_at, reserved, used) VALUES ($1, 'b', '', now(), now(), 1, 1)`, owner)
	f.Exec(`INSERT INTO budget_days (tenant_id, budget, day, reserved, used, overdrawn) VALUES ($1, 'b', now()::date, 1, 1, 0)`, owner)
	f.Exec(`INSERT INTO budget_line (tenant_id, budget, subject, job_id, rank, key, turn, cost) VALUES ($1, 'b', '', gen_random_uuid(), 4, '', now(), 1)`, owner)
	f.Exec(`INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at) VALUES ($1, gen_random_uuid(), 'completed', 0, now())`, owner)
	f.Exec(`INSERT INTO webhooks (tenant_id, name, events, created_at, updated_at) VALUES ($1, 'hook', '{job.completed}', now(), now())`, owner)
	f.Exec(`INSERT INTO alerts (tenant_id, webhook, state, name, detail, began_at) VALUES ($1, 'hook', 'queue.stalled', 'q', '', now())`, owner)
	f.Exec(`INSERT INTO webhook_events (tenant_id, webhook, kind, job, finished_at) VALUES ($1, 'hook', 'job.completed', '{}', now())`, owner)
	f.Exec(`INSERT INTO usage_counts (tenant_id, counter, name, opened_at, settled) VALUES ($1, 1, '', now(), true) ON CONFLICT DO NOTHING`, owner)
	f.Exec(`INSERT INTO workers (owner, worker_id, status, queues, tags, concurrency, metadata, registered_at, last_heartbeat_at)
	 VALUES ($1, 'w9', 'ACTIVE', '{}', '{}', 1, '{}', now(), now())`, owner)
}

// RowsOf counts a tenant's rows in every table that has a column for whose they are, but for those of moves.
func (f *Fixture) RowsOf(owner tenant.ID) map[string]int {
	f.Helper()
	columns, err := f.Direct.Query(f.Context(), `
SELECT table_name, column_name FROM information_schema.columns JOIN pg_class ON relname = table_name AND NOT relispartition
WHERE table_schema = 'public' AND column_name IN ('tenant_id', 'owner') AND table_name NOT LIKE 'tenant\_%'`)
	if err != nil {
		f.Fatal(err)
	}
	owners := map[string]string{}
	for columns.Next() {
		var table, column string
		if err := columns.Scan(&table, &column); err != nil {
			f.Fatal(err)
		}
		owners[table] = column
	}
	counts := map[string]int{}
	for table, column := range owners {
		var n int
		if err := f.Direct.QueryRow(f.Context(), fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s = $1`, table, column), owner).Scan(&n); err != nil {
			f.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}
