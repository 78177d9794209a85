package deadletter

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// canaryStep is a step of a redrive whose sample has not passed: it writes down which jobs of the sample have
// ended, decides, and queues the next of the sample. All of it commits with the progress.
func (s *Letters) canaryStep(ctx context.Context, tx pgx.Tx, step *RedriveStep, capsOf CapsOf) error {
	var waited time.Duration
	if err := tx.QueryRow(ctx, "SELECT statement_timestamp() - $1::timestamptz", step.row.CreatedAt).Scan(&waited); err != nil {
		return err
	}
	sample, err := readSample(ctx, tx, step.row.ID, step.row.CreatedAt)
	if err != nil {
		return err
	}
	var changed []*sampleRow
	for _, row := range sample {
		if row.judge() {
			changed = append(changed, row)
		}
	}
	canary := step.row.canary()
	left := time.Duration(canary.TimeoutSeconds)*time.Second - waited
	canary.State = tallyOf(sample).decide(canary.Success, left <= 0)
	if canary.State == api.CanarySampling {
		queued, err := s.queueSample(ctx, tx, step, sample, capsOf)
		if err != nil {
			return err
		}
		changed = append(changed, queued...)
		canary.State = stateAfterQueueing(sample)
	}
	step.keep(canary, sample, pauseAfter(waited, left))
	if canary.State == api.CanarySampling || canary.State == api.CanaryWaiting {
		return writeSample(ctx, tx, step.row.ID, changed)
	}
	_, err = tx.Exec(ctx, dropSampleSQL, store.Args{"id": step.row.ID})
	return err
}

// stateAfterQueueing is waiting also where all of the sample were skipped: the next step decides.
func stateAfterQueueing(sample []*sampleRow) string {
	if tallyOf(sample).chosen > 0 {
		return api.CanarySampling
	}
	return api.CanaryWaiting
}

// keep fills in what is shown of the canary.
func (r *RedriveStep) keep(canary *api.Canary, sample []*sampleRow, pause time.Duration) {
	t := tallyOf(sample)
	canary.Sampled, canary.Completed, canary.Failed, canary.Waiting = t.queued+t.completed+t.failed, t.completed, t.failed, t.queued
	if canary.State == api.CanaryFailed {
		reason := reasonOf(canary, t, sample)
		canary.Reason = &reason
	}
	r.canary = canary
	if canary.State == api.CanaryWaiting {
		r.pause = pause
	}
}

// queueSample queues the next batch of a sample and gives the rows that changed. What others have redriven or
// discarded since, and what has a dedupe_key that is taken, is skipped: the rest of the redrive counts these.
func (s *Letters) queueSample(ctx context.Context, tx pgx.Tx, step *RedriveStep, sample []*sampleRow, capsOf CapsOf) ([]*sampleRow, error) {
	batch := map[uuid.UUID]*sampleRow{}
	var ids []uuid.UUID
	for _, row := range sample {
		if row.State == sampleChosen && len(ids) < step.row.batch() {
			batch[row.JobID] = row
			ids = append(ids, row.JobID)
		}
	}
	if err := s.redriveStep(ctx, tx, step, ids, capsOf); err != nil {
		return nil, err
	}
	step.refused, step.cursor = 0, step.row.Cursor
	for _, id := range step.later {
		delete(batch, id)
	}
	changed := make([]*sampleRow, 0, len(batch))
	for _, row := range batch {
		row.State = sampleSkipped
		changed = append(changed, row)
	}
	for _, one := range step.Redriven {
		batch[one.ID].State = sampleQueued
	}
	return changed, nil
}
