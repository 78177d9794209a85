package read

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// outputPage bounds the chunks of a page.
const outputPage = 500

// outputSQL reads chunks from a place on, with that one: by what came before a chunk it is known whether some are missing. Where the
// job is not there, or not for the caller, there is no row.
const outputSQL = `
SELECT page.epoch, page.seq, page.stream, page.text, page.at, page.upto, page.upto - GREATEST(octet_length(page.text), 64) AS begins
FROM (
  SELECT user_id FROM jobs WHERE id = @id AND tenant_id = @tenant_id
  UNION ALL
  SELECT user_id FROM finished_jobs WHERE id = @id AND finished_at >= earliest_end(@id) AND tenant_id = @tenant_id
  UNION ALL
  SELECT user_id FROM dead_letters WHERE id = @id AND tenant_id = @tenant_id
  LIMIT 1
) AS job
LEFT JOIN LATERAL (
  SELECT epoch, seq, stream, text, at, upto FROM job_output
  WHERE job_id = @id AND at >= earliest_end(@id) AND (epoch, seq) >= (@epoch, @seq)
  ORDER BY epoch, seq LIMIT @most
) AS page ON true
WHERE @user::text = '' OR job.user_id = @user
ORDER BY page.epoch, page.seq`

// outputRow is a row of outputSQL; a job without output has one of nulls.
type outputRow struct {
	Epoch, Seq, Upto, Begins *int64
	Stream, Text             *string
	At                       *time.Time
}

// Output gives what a job has said after a chunk, the oldest first. The error is store.ErrNotFound.
func (s *Reader) Output(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, after api.OutputPlace) (api.OutputPage, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	found, err := store.Query(ctx, s.Store, pgx.RowToStructByName[outputRow], outputSQL, store.Args{
		"id": id, "tenant_id": owner, "user": user, "epoch": after.Epoch, "seq": after.Seq, "most": outputPage + 2,
	})
	if err != nil {
		return api.OutputPage{}, fmt.Errorf("jobs: output: %w", store.NotApplied(err))
	}
	if len(found) == 0 {
		return api.OutputPage{}, store.ErrNotFound
	}
	if found[0].Seq == nil {
		found = nil
	}
	var upto int64 // of the chunk before; those after a place that is no longer kept lack some
	if len(found) > 0 && *found[0].Epoch == after.Epoch && *found[0].Seq == after.Seq {
		upto, found = *found[0].Upto, found[1:]
	} else if after != (api.OutputPlace{}) {
		upto = -1
	}
	page := api.OutputPage{Items: []api.Output{}, More: len(found) > outputPage}
	for _, one := range found[:min(len(found), outputPage)] {
		gap := *one.Begins != upto
		page.Items = append(page.Items, api.Output{
			ID: api.OutputPlace{Epoch: *one.Epoch, Seq: *one.Seq}.String(), Stream: *one.Stream, Text: *one.Text, At: api.At(*one.At), Gap: gap,
		})
		page.Truncated, upto = page.Truncated || gap, *one.Upto
	}
	return page, nil
}
