package jobs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
)

// BenchmarkHeartbeats gives what a heartbeat costs in statements of 200, while all of n jobs run: with the lease in the job's
// row, as it is; with no index by its end, so that a heartbeat can be a HOT update; and with a narrow table of leases
// (decision 48). Each job has six heartbeats, which is a minute of leases of 30 s. An old snapshot is held for ten minutes of
// heartbeats, and the figures are of the last one.
//
//	go test -run '^$' -bench Heartbeats -benchtime 1x ./core/internal/jobs
func BenchmarkHeartbeats(b *testing.B) {
	for _, load := range []struct {
		n, payload int
		snapshot   bool
	}{{10_000, 400, false}, {10_000, 1400, false}, {50_000, 400, false}, {50_000, 1400, false}, {10_000, 400, true}} {
		for _, form := range leaseForms() {
			b.Run(fmt.Sprintf("jobs=%d/bytes=%d/snapshot=%t/%s", load.n, load.payload, load.snapshot, form.name), func(b *testing.B) {
				r := newRunning(b, form, load.n, load.payload)
				if load.snapshot {
					r.exec(r.holder, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
					r.exec(r.holder, `SELECT FROM tenants`)
					r.beats(54)
				}
				for b.Loop() {
					before := r.wal()
					took := r.beats(6)
					b.ReportMetric(float64(r.wal()-before)/float64(6*load.n), "WAL-B/beat")
					b.ReportMetric(median(took)/200, "µs/beat")
					b.ReportMetric(r.reap()/1000, "idle-reap-ms")
					r.sizes()
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// leaseForm is a place for leases.
type leaseForm struct {
	name  string
	setup []string
	// beat is nil for core's own statement.
	beat *string
	// reap finds expired leases.
	reap  string
	table string
}

func leaseForms() []leaseForm {
	beat := `
WITH held AS (
UPDATE leases
SET expires_at = LEAST(statement_timestamp() + visibility_timeout_ms * interval '1 millisecond', ends_at)
WHERE job_id = ANY(@ids::uuid[])
  AND ((job_id, tenant_id, epoch, lease_id) IN (
    SELECT * FROM unnest(@ids::uuid[], @tenants::uuid[], @epochs::bigint[], @leases::uuid[]))) IS TRUE
RETURNING job_id, tenant_id, epoch, lease_id, expires_at, cancel_requested
)
SELECT job_id, tenant_id, epoch, lease_id, expires_at, cancel_requested, statement_timestamp() AS now FROM held`
	return []leaseForm{
		{
			name: "row", table: "jobs",
			reap: `SELECT * FROM jobs WHERE state = 'running' AND lease_expires_at < statement_timestamp() ORDER BY lease_expires_at, id LIMIT 500 FOR UPDATE SKIP LOCKED`,
		},
		{
			name: "no-index", table: "jobs",
			setup: []string{`DROP INDEX jobs_running`, `CREATE INDEX jobs_running ON jobs (started_at, id) WHERE state = 'running'`},
			reap:  `SELECT * FROM jobs WHERE state = 'running' AND lease_expires_at < statement_timestamp() ORDER BY started_at, id LIMIT 500 FOR UPDATE SKIP LOCKED`,
		},
		{
			name: "table", table: "leases", beat: &beat,
			setup: []string{
				`CREATE TABLE leases (job_id uuid PRIMARY KEY, tenant_id uuid NOT NULL, lease_id uuid NOT NULL, epoch bigint NOT NULL,
				   expires_at timestamptz NOT NULL, visibility_timeout_ms bigint NOT NULL, ends_at timestamptz, cancel_requested boolean NOT NULL) WITH (fillfactor = 50)`,
				`INSERT INTO leases SELECT id, tenant_id, lease_id, epoch, lease_expires_at, visibility_timeout_ms, NULL, false FROM jobs WHERE state = 'running'`,
				`VACUUM ANALYZE leases`,
			},
			reap: `SELECT * FROM leases WHERE expires_at < statement_timestamp() LIMIT 500 FOR UPDATE SKIP LOCKED`,
		},
	}
}

// running are jobs that run.
type running struct {
	*testing.B

	form           leaseForm
	store          *cell.Cell
	direct, holder *pgx.Conn
	leases         []job.Lease
}

func newRunning(b *testing.B, form leaseForm, n, payload int) *running {
	b.Helper()
	url := celltest.URL(b)
	r := &running{B: b, form: form, store: celltest.OpenURL(b, url), direct: celltest.Connect(b, url), holder: celltest.Connect(b, url)}
	for _, sql := range []string{
		`SET synchronous_commit = off`,
		`ALTER TABLE jobs SET (autovacuum_enabled = false)`,
		fmt.Sprintf(`INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms,
		     retry_jitter, created_at, run_at, ready_at, size)
		   SELECT (lpad(to_hex(1800000000000 + i), 12, '0') || '7000' || '8' || substr(md5(i::text), 1, 15))::uuid, gen_random_uuid(), 1, 'default', 'test', 'queued', 5,
		     to_json((SELECT string_agg(md5(i || '/' || part), '') FROM generate_series(1, %d) part)), '{}', '{}', 3, 1000, 1000, 0, now(), now(), now(), %d
		   FROM generate_series(1, %d) i`, payload/32, payload, n),
		`UPDATE jobs SET state = 'running', attempt = 1, epoch = 1, lease_id = gen_random_uuid(), worker_id = 'w', worker_owner = tenant_id,
		   started_at = statement_timestamp(), visibility_timeout_ms = 3600000, lease_expires_at = statement_timestamp() + interval '1 hour'`,
	} {
		r.exec(r.direct, sql)
	}
	for _, sql := range form.setup {
		r.exec(r.direct, sql)
	}
	r.exec(r.direct, `VACUUM ANALYZE jobs`)
	rows, err := r.direct.Query(b.Context(), `SELECT tenant_id, id, epoch, lease_id FROM jobs`)
	if err != nil {
		b.Fatal(err)
	}
	r.leases, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (lease job.Lease, err error) {
		err = row.Scan(&lease.Tenant, &lease.Job, &lease.Epoch, &lease.ID)
		return lease, err
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, setting := range []string{"plan_cache_mode = force_generic_plan", "enable_bitmapscan = off", "jit = off"} {
		r.exec(r.direct, "SET "+setting)
	}
	return r
}

func (r *running) exec(conn *pgx.Conn, sql string, args ...any) {
	r.Helper()
	if _, err := conn.Exec(r.Context(), sql, args...); err != nil {
		r.Fatal(err)
	}
}

// beats extends each lease rounds times, in any order, and gives the µs of each statement.
func (r *running) beats(rounds int) []float64 {
	r.Helper()
	var took []float64
	for range rounds {
		rand.Shuffle(len(r.leases), func(i, j int) { r.leases[i], r.leases[j] = r.leases[j], r.leases[i] })
		for part := range slices.Chunk(r.leases, 200) {
			begun := time.Now()
			if n := r.beat(part); n != len(part) {
				r.Fatalf("%d of %d leases were extended", n, len(part))
			}
			took = append(took, float64(time.Since(begun).Microseconds()))
		}
	}
	return took
}

func (r *running) beat(leases []job.Lease) int {
	r.Helper()
	if r.form.beat == nil {
		held, err := r.store.Jobs.Heartbeat(r.Context(), leases)
		if err != nil {
			r.Fatal(err)
		}
		return len(held)
	}
	args := pgx.StrictNamedArgs{"ids": []uuid.UUID{}, "tenants": []uuid.UUID{}, "epochs": []int64{}, "leases": []uuid.UUID{}}
	ids, tenants, epochs, tokens := make([]uuid.UUID, len(leases)), make([]uuid.UUID, len(leases)), make([]int64, len(leases)), make([]uuid.UUID, len(leases))
	for i, lease := range leases {
		ids[i], tenants[i], epochs[i], tokens[i] = lease.Job, lease.Tenant, lease.Epoch, lease.ID
	}
	args["ids"], args["tenants"], args["epochs"], args["leases"] = ids, tenants, epochs, tokens
	conn, err := r.store.Acquire(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Release()
	tag, err := conn.Exec(r.Context(), *r.form.beat, args)
	if err != nil {
		r.Fatal(err)
	}
	return int(tag.RowsAffected())
}

// reap gives the µs of looking for expired leases where there are none.
func (r *running) reap() float64 {
	r.Helper()
	r.exec(r.direct, `SET enable_seqscan = `+map[bool]string{true: "on", false: "off"}[r.form.table == "leases"])
	var took []float64
	for range 20 {
		begun := time.Now()
		r.exec(r.direct, r.form.reap)
		took = append(took, float64(time.Since(begun).Microseconds()))
	}
	return median(took)
}

func (r *running) wal() (bytes int64) {
	r.Helper()
	if err := r.direct.QueryRow(r.Context(), `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&bytes); err != nil {
		r.Fatal(err)
	}
	return bytes
}

// sizes reports the share of HOT updates, once the sessions of the store have ended and told of theirs, and the table's size.
func (r *running) sizes() {
	r.Helper()
	r.store.Close()
	var hot, bytes float64
	celltest.Eventually(r, "the sessions have ended", func() bool {
		var others int
		if err := r.direct.QueryRow(r.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`).Scan(&others); err != nil {
			r.Fatal(err)
		}
		return others == 2
	})
	if err := r.direct.QueryRow(r.Context(), `SELECT 100.0 * n_tup_hot_upd / GREATEST(n_tup_upd - CASE relname WHEN 'jobs' THEN $2 ELSE 0 END, 1), pg_total_relation_size(relid) / 1e6
		FROM pg_stat_user_tables WHERE relname = $1`, r.form.table, len(r.leases)).Scan(&hot, &bytes); err != nil {
		r.Fatal(err)
	}
	r.ReportMetric(hot, "HOT-%")
	r.ReportMetric(bytes, "MB")
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
