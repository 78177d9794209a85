package stats_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// BenchmarkRead reads a day by minutes of a tenant with 1,000 queues: of one queue, and of all; then while an old
// snapshot keeps the entries of parts that were rolled up since.
func BenchmarkRead(b *testing.B) {
	url := celltest.URL(b)
	store, direct := celltest.OpenURL(b, url), celltest.Connect(b, url)
	owner := uuid.New()
	exec := func(sql string, args ...any) {
		b.Helper()
		if _, err := direct.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(`INSERT INTO job_stats (tenant_id, queue, grain, at, submitted, started, completed, failed_attempts, dead_letter, cancelled, waiting_ms, running_ms)
		SELECT $1::uuid, CASE q WHEN 0 THEN '' ELSE 'q' || q END, 1, date_trunc('minute', now()) - m * interval '1 minute', 1, 1, 1, 0, 0, 0, 1, 1
		FROM generate_series(0, 1000) AS q, generate_series(1, 1440) AS m`, owner)
	to := time.Now()
	read := func(name string) func(*testing.B) {
		request := hop.StatsRequest{Queue: name, From: new(api.At(to.Add(-24 * time.Hour))), To: new(api.At(to)), Step: api.StepMinute}
		return func(b *testing.B) {
			for b.Loop() {
				if made, err := store.Stats.JobStats(b.Context(), owner, request); err != nil || len(made.Items) < 1440 {
					b.Fatal(len(made.Items), err)
				}
			}
		}
	}
	b.Run("one-queue", read("q500"))
	b.Run("all-queues", read(""))

	old := celltest.Connect(b, url)
	if _, err := old.Exec(b.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tenants"); err != nil {
		b.Fatal(err)
	}
	// 12 parts for each of 1,440 minutes, as one core appends them, of two queues
	exec(`INSERT INTO job_stats (tenant_id, queue, grain, at, submitted, started, completed, failed_attempts, dead_letter, cancelled, waiting_ms, running_ms)
		SELECT $1::uuid, q, 0, date_trunc('minute', now()) - m * interval '1 minute', 1, 1, 1, 0, 0, 0, 1, 1
		FROM unnest('{q500,""}'::text[]) AS q, generate_series(1, 1440) AS m, generate_series(1, 12)`, owner)
	b.Run("one-queue-before-the-roll-up", read("q500"))
	for {
		done, err := store.Stats.RollUpMinutes(b.Context(), time.Time{}, 5000)
		if err != nil {
			b.Fatal(err)
		}
		if done.Rows == 0 {
			break
		}
	}
	b.Run("one-queue-beside-an-old-snapshot", read("q500"))
	b.Run("all-queues-beside-an-old-snapshot", read(""))
}

// BenchmarkRecord counts a flush of 100 events of one queue, and of 100 queues.
func BenchmarkRecord(b *testing.B) {
	owner := uuid.New()
	for _, queues := range []int{1, 100} {
		events := make([]stats.Event, 100)
		for i := range events {
			events[i] = event(owner, fmt.Sprint("q", i%queues), 1)
		}
		b.Run(fmt.Sprint("queues-", queues), func(b *testing.B) {
			r := stats.NewJobRecorder(nothingWaits)
			for b.Loop() {
				r.Record(events...)
			}
		})
	}
}
