package celltest

import (
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/shared/api"
)

// addDeadLettersSQL makes n dead letters of a tenant, with deaths and ids a second apart.
const addDeadLettersSQL = `
INSERT INTO dead_letters (id, tenant_id, lane_id, queue, type, user_id, priority, payload, tags, metadata, attempt, max_attempts, epoch,
                          redrives, retry_base_ms, retry_cap_ms, retry_jitter, dedupe_key, created_at, run_at, cancel_requested,
                          last_error, reason, fingerprint, died_at)
SELECT ('018f0000-' || lpad(to_hex((n + $8) / 65536), 4, '0') || '-7' || lpad(to_hex((n + $8) % 4096), 3, '0') || '-8000-' || lpad(to_hex(n + $8), 12, '0'))::uuid,
       $1, $2, $4, $5, NULLIF($6, ''), 5, '{"n":1}', '{}', '{}', 3, 3, 3, 0, 5000, 300000, 0.2, NULL, statement_timestamp(), statement_timestamp(), false,
       '{"type":"e","message":"broken","stack":""}', $7, md5($7 || $5), statement_timestamp() - interval '1 day' + n * interval '1 millisecond'
FROM generate_series(1, $3::integer) AS n`

// DeadLetterRows are the columns of dead letters; From numbers them.
type DeadLetterRows struct {
	Queue, Type, User, Reason string
	From                      int
}

// AddDeadLetters makes dead letters with SQL, without the store, which is fast.
func (f *Fixture) AddDeadLetters(n int, g DeadLetterRows) {
	f.Helper()
	if g.Queue == "" {
		g.Queue = "default"
	}
	if g.Type == "" {
		g.Type = "test"
	}
	if g.Reason == "" {
		g.Reason = "exhausted"
	}
	f.Exec(addDeadLettersSQL, f.Tenant, f.Lane.ID, n, g.Queue, g.Type, g.User, g.Reason, g.From)
}

// Redrive creates a redrive.
func (f *Fixture) Redrive(action string, filter api.DeadLetterFilter, rate *float64) api.Redrive {
	f.Helper()
	made, err := f.Store.DeadLetters.CreateRedrive(f.Context(), f.Tenant, "", deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: action, Filter: filter, Rate: rate})
	if err != nil {
		f.Fatal(err)
	}
	return made
}
