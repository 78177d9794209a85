package read_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// BenchmarkList reads pages of 50 of a tenant with a million finished jobs, the
// first and the thousandth. The bar is a ratio of at most 2.
//
//	go test ./internal/jobs/read -run '^$' -bench BenchmarkList -benchtime 200x
func BenchmarkList(b *testing.B) {
	url := celltest.URL(b)
	store := celltest.OpenURL(b, url)
	direct := celltest.Connect(b, url)
	owner := uuid.Must(uuid.NewV7())
	// Ids as UUID v7 makes them, a millisecond apart; over the days there are
	// partitions for.
	const insert = `
INSERT INTO finished_jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, attempt, max_attempts,
  epoch, redrives, retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, cancel_requested, finished_at)
SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
  $1, 1, 'q', 'bench', 'completed', 5, '{"n":1}', '{}', '{}', 1, 3, 1, 0, 5000, 300000, 0.2, now(), now(), false,
  now() + (n % 6) * interval '1 day'
FROM generate_series(1, 1000000) n`
	if _, err := direct.Exec(b.Context(), insert, owner); err != nil {
		b.Fatal(err)
	}
	if _, err := direct.Exec(b.Context(), `VACUUM ANALYZE finished_jobs`); err != nil {
		b.Fatal(err)
	}
	var deep uuid.UUID
	if err := direct.QueryRow(b.Context(), `SELECT id FROM finished_jobs ORDER BY uuid_send(id) DESC OFFSET 49950 LIMIT 1`).Scan(&deep); err != nil {
		b.Fatal(err)
	}
	for name, token := range map[string]string{"page=1": "", "page=1000": deep.String()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				page, err := store.JobReads.List(b.Context(), owner, api.JobFilter{}, 50, token)
				if err != nil || len(page.Items) != 50 {
					b.Fatalf("%d items, %v", len(page.Items), err)
				}
			}
		})
	}
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.JobReads.Get(b.Context(), owner, "", deep); err != nil {
				b.Fatal(err)
			}
		}
	})
}
