package deadletter

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The states of a job of a sample; canary.go says what follows from them.
const (
	sampleChosen    = "chosen"
	sampleSkipped   = "skipped"
	sampleQueued    = "queued"
	sampleCompleted = "completed"
	sampleFailed    = "failed"
)

// maxSampleError bounds the text of an error in a reason, in characters.
const maxSampleError = 200

// chooseSampleSQL takes one of each cause in turn, at random: a rare cause is in the sample as well as the
// most frequent. It looks at what the count looks at.
const chooseSampleSQL = `
WITH newest AS MATERIALIZED (
  SELECT id, queue, type, user_id, reason, fingerprint, died_at, redrives
  FROM dead_letters
  WHERE tenant_id = @tenant_id
  ORDER BY uuid_send(id) DESC
  LIMIT @most
), ranked AS (
  SELECT id, redrives, row_number() OVER (PARTITION BY fingerprint, queue ORDER BY random()) AS turn
  FROM newest
  WHERE died_at <= @dead_by AND ` + deadMatches + `
)
INSERT INTO redrive_samples (redrive_id, job_id, state, redrives)
SELECT @id, id, 'chosen', redrives FROM ranked ORDER BY turn, random() LIMIT @count`

// chooseSample writes down which jobs are the sample of a redrive that was just made.
func chooseSample(ctx context.Context, tx pgx.Tx, row *redriveRow, count int) error {
	args := deadArgs(row.TenantID, row.user(), row.filter())
	args["id"], args["dead_by"], args["count"], args["most"] = row.ID, row.CreatedAt, count, api.MaxDeadLetterRows+1
	_, err := tx.Exec(ctx, chooseSampleSQL, args)
	return err
}

// readSampleSQL gives the jobs of a sample, and where those are now that had not ended, in one snapshot: a
// job that moves between tables is in exactly one of them. LIMIT makes it a look-up for each; they end after
// the redrive began, so that only the partitions since then are opened.
const readSampleSQL = `
SELECT s.job_id, s.state, s.redrives, s.cause, s.error,
       now.place, now.redrives AS redrives_now, now.reason, now.fingerprint, now.last_error
FROM redrive_samples s
LEFT JOIN LATERAL (
  SELECT 'live' AS place, redrives, NULL AS reason, NULL AS fingerprint, NULL::json AS last_error
  FROM jobs WHERE id = s.job_id AND s.state = 'queued'
  UNION ALL
  SELECT state, redrives, NULL, NULL, NULL
  FROM finished_jobs WHERE id = s.job_id AND finished_at >= @since AND s.state = 'queued'
  UNION ALL
  SELECT 'dead_letter', redrives, reason, fingerprint, last_error
  FROM dead_letters WHERE id = s.job_id AND s.state = 'queued'
  LIMIT 1
) AS now ON true
WHERE s.redrive_id = @id
ORDER BY s.job_id`

// sampleRow is a job of a sample; Place and what follows it are nil for one that has ended, is not queued
// yet, or is in no table any more.
type sampleRow struct {
	JobID       uuid.UUID
	State       string
	Redrives    int
	Cause       *string
	Error       *string
	Place       *string
	RedrivesNow *int
	Reason      *string
	Fingerprint *string
	LastError   []byte
}

func readSample(ctx context.Context, tx pgx.Tx, id uuid.UUID, since time.Time) ([]*sampleRow, error) {
	rows, err := tx.Query(ctx, readSampleSQL, store.Args{"id": id, "since": since})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[sampleRow])
}

// judge finds out how a queued job of a sample ended, and says whether it did. A job that was redriven
// once more had died before.
func (r *sampleRow) judge() (ended bool) {
	switch {
	case r.State != sampleQueued:
		return false
	case r.Place == nil:
		r.fail("deleted", "deleted before its end was seen")
	case *r.RedrivesNow > r.Redrives+1:
		r.fail("redriven", "died again, and was redriven by another request")
	case *r.Place == "live":
		return false
	case *r.Place == api.StateCompleted:
		r.State = sampleCompleted
	case *r.Place == api.StateDeadLetter:
		r.fail(*r.Fingerprint, deathOf(*r.Reason, r.LastError))
	default:
		r.fail(*r.Place, *r.Place)
	}
	return true
}

func (r *sampleRow) fail(cause, text string) {
	r.State, r.Cause, r.Error = sampleFailed, store.NullIfEmpty(cause), store.NullIfEmpty(text)
}

// deathOf is the error of a dead letter in a line.
func deathOf(reason string, lastError []byte) string {
	var failure api.JobError
	_ = json.Unmarshal(lastError, &failure) // written from such a value by this program alone
	text := failure.Message
	switch {
	case failure.Type != "" && text != "":
		text = failure.Type + ": " + text
	case text == "":
		text = failure.Type
	}
	if text == "" {
		return reason
	}
	if runes := []rune(text); len(runes) > maxSampleError {
		text = string(runes[:maxSampleError]) + "…"
	}
	return text
}

const writeSampleSQL = `
UPDATE redrive_samples AS s
SET state = n.state, cause = n.cause, error = n.error
FROM unnest(@ids::uuid[], @states::text[], @causes::text[], @errors::text[]) AS n(job_id, state, cause, error)
WHERE s.redrive_id = @id AND s.job_id = n.job_id`

func writeSample(ctx context.Context, tx pgx.Tx, id uuid.UUID, changed []*sampleRow) error {
	if len(changed) == 0 {
		return nil
	}
	ids, states := make([]uuid.UUID, len(changed)), make([]string, len(changed))
	causes, errors := make([]*string, len(changed)), make([]*string, len(changed))
	for i, row := range changed {
		ids[i], states[i], causes[i], errors[i] = row.JobID, row.State, row.Cause, row.Error
	}
	_, err := tx.Exec(ctx, writeSampleSQL, store.Args{"id": id, "ids": ids, "states": states, "causes": causes, "errors": errors})
	return err
}

const dropSampleSQL = `DELETE FROM redrive_samples WHERE redrive_id = @id`
