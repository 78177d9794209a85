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

// outputSQL reads chunks from a place on, with that one: by what came before a chunk it is known whether some are missing.
const outputSQL = `
SELECT epoch, seq, stream, text, at, upto, upto - GREATEST(octet_length(text), 64) AS begins
FROM job_output
WHERE job_id = @id AND at >= earliest_end(@id) AND (epoch, seq) >= (@epoch, @seq)
ORDER BY epoch, seq LIMIT @most`

// Output gives what a job has said after a chunk, the oldest first. The error is store.ErrNotFound.
func (s *Reader) Output(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, after api.OutputPlace) (page api.OutputPage, err error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	page.Items = []api.Output{}
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		page.Items, page.More, page.Truncated = page.Items[:0], false, false
		if _, err := GetIn(ctx, tx, owner, user, id); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, outputSQL, store.Args{"id": id, "epoch": after.Epoch, "seq": after.Seq, "most": outputPage + 2})
		if err != nil {
			return err
		}
		type chunk struct {
			Epoch, Seq, Upto, Begins int64
			Stream, Text             string
			At                       time.Time
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[chunk])
		if err != nil {
			return err
		}
		var upto int64 // of the chunk before; those after a place that is no longer kept lack some
		if len(found) > 0 && found[0].Epoch == after.Epoch && found[0].Seq == after.Seq {
			upto, found = found[0].Upto, found[1:]
		} else if after != (api.OutputPlace{}) {
			upto = -1
		}
		if page.More = len(found) > outputPage; page.More {
			found = found[:outputPage]
		}
		for _, one := range found {
			gap := one.Begins != upto
			page.Items = append(page.Items, api.Output{
				ID: api.OutputPlace{Epoch: one.Epoch, Seq: one.Seq}.String(), Stream: one.Stream, Text: one.Text, At: api.At(one.At), Gap: gap,
			})
			page.Truncated, upto = page.Truncated || gap, one.Upto
		}
		return nil
	})
	if err != nil {
		return api.OutputPage{}, fmt.Errorf("jobs: output: %w", store.NotApplied(err))
	}
	return page, nil
}
