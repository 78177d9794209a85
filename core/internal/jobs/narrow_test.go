package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What is asked for a thousand jobs at once and shows no payload reads none.
func TestAnswersWithoutPayloadsReadNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := &celltest.Statements{}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 2, PoolWait: time.Minute, Tracer: seen}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	keyed := f.Job(func(j *submit.NewJob) { j.DedupeKey = new("k"); j.MaxAttempts = 1 })
	f.Submit(keyed)
	keyed.ID = uuid.Must(uuid.NewV7())
	if _, err := store.Submits.Submit(t.Context(), []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{keyed}}}); err != nil {
		t.Fatal(err)
	}
	claimed := f.ClaimOne()
	failed := []jobs.Ending{{Lease: claimed.Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "t"}}}
	store.Jobs.End(t.Context(), failed)
	if again := store.Jobs.End(t.Context(), failed); again[0].Err != nil || !again[0].Replayed {
		t.Fatalf("the repeat is %+v", again[0])
	}
	if redriven := store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{claimed.ID}, nil); redriven[0].Err != nil {
		t.Fatal(redriven[0].Err)
	}
	conn := celltest.Connect(t, f.URL)
	for sql := range seen.Seen() {
		rewritten, _, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), conn, sql, nil)
		if err != nil {
			t.Fatal(err)
		}
		described, err := conn.Prepare(t.Context(), "", rewritten)
		if err != nil {
			continue // BEGIN and the like
		}
		for _, field := range described.Fields {
			// PostgreSQL does not say what lies under a UNION
			if field.Name == "payload" && (field.TableOID != 0 || !strings.Contains(sql, "NULL::json AS payload")) {
				t.Errorf("payloads are read by\n%s", sql)
			}
		}
	}
}
