package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// appendOutputSQL appends chunks of an attempt that come after those that there are. Beyond MaxOutput the chunks after the job's first
// half are deleted but for the last half, each time that another 64 KiB are there.
const appendOutputSQL = `
WITH last AS (
  SELECT epoch, seq, upto FROM job_output
  WHERE job_id = @id AND at >= earliest_end(@id)
  ORDER BY epoch DESC, seq DESC LIMIT 1
), fresh AS (
  SELECT c.seq, c.stream, c.text,
         COALESCE((SELECT upto FROM last), 0) + sum(GREATEST(octet_length(c.text), 64)) OVER (ORDER BY c.seq) AS upto
  FROM unnest(@seqs::bigint[], @streams::text[], @texts::text[]) AS c(seq, stream, text)
  WHERE c.seq > COALESCE((SELECT seq FROM last WHERE epoch = @epoch), 0)
), stored AS (
  INSERT INTO job_output (job_id, epoch, seq, tenant_id, stream, text, upto, at)
  SELECT @id, @epoch, seq, @tenant_id, stream, text, upto, statement_timestamp() FROM fresh
  RETURNING seq
), linked AS (
  UPDATE jobs SET linked = true WHERE id = @id AND NOT linked AND EXISTS (SELECT FROM fresh)
), trimmed AS (
  DELETE FROM job_output
  WHERE job_id = @id AND at >= earliest_end(@id) AND upto > @most / 2 AND upto <= (SELECT max(upto) FROM fresh) - @most / 2
    AND (SELECT max(upto) FROM fresh) > @most
    AND (SELECT max(upto) FROM fresh)::bigint / 65536 > (SELECT upto FROM last) / 65536
)
SELECT COALESCE((SELECT max(seq) FROM stored), (SELECT seq FROM last WHERE epoch = @epoch), 0) + 1 AS next,
       EXISTS (SELECT FROM stored) AS stored`

// Appended says what has become of chunks of output.
type Appended struct {
	// Next is the number of the next chunk; Stored says that some of these were.
	Next   int64
	Stored bool
}

// AppendOutput stores what the holder of a lease says. Chunks with a number that was there are left out: a repeat changes nothing. The
// error is ErrLeaseLost, also for a job that does not exist.
func (s *Jobs) AppendOutput(ctx context.Context, lease job.Lease, chunks []api.OutputChunk) (made Appended, err error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	args := store.Args{"id": lease.Job, "epoch": lease.Epoch, "most": int64(api.MaxOutput)}
	seqs, streams, texts := make([]int64, len(chunks)), make([]string, len(chunks)), make([]string, len(chunks))
	for i := range chunks {
		seqs[i], streams[i], texts[i] = chunks[i].Seq, chunks[i].Stream, chunks[i].Text
	}
	args["seqs"], args["streams"], args["texts"] = seqs, streams, texts
	var held map[job.Lease]*lockedRow
	err = s.InShortTx(ctx, func(batch *pgx.Batch) {
		held = queueLockHeld(batch, []job.Lease{lease})
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		row, ok := held[lease]
		if !ok {
			return nil, ErrLeaseLost
		}
		args["tenant_id"] = row.TenantID
		rows, err := tx.Query(ctx, appendOutputSQL, args)
		if err != nil {
			return nil, err
		}
		made, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Appended])
		return nil, err
	})
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		return made, fmt.Errorf("jobs: output: %w", err)
	}
	return made, err
}
