package submits

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// cancelsPerStep bounds one transaction.
const cancelsPerStep = 100

// CancelWorkflow cancels all jobs of a tenant's workflow: those that wait end, the holders of those
// that run are asked to stop. A repeat continues where the first one failed.
func (s *Submits) CancelWorkflow(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Workflow, error) {
	if err := s.store.Workflows.RecordCancel(ctx, owner, user, id); err != nil {
		return api.Workflow{}, err
	}
	// Jobs may be added meanwhile, and dead letters redriven: the next list has them, and is short.
	const lists = 10
	for range lists {
		ids, err := s.store.Workflows.Uncancelled(ctx, id)
		if err != nil {
			return api.Workflow{}, err
		}
		if len(ids) == 0 {
			return s.store.Workflows.Workflow(ctx, owner, user, id)
		}
		for some := range slices.Chunk(ids, cancelsPerStep) {
			ended, requested, err := s.store.Jobs.CancelAll(ctx, owner, some)
			if err != nil {
				return api.Workflow{}, err
			}
			s.publisher.Publish(ctx, publish.Changes{Jobs: ended, Reported: requested})
		}
	}
	return api.Workflow{}, fmt.Errorf("submits: cancel workflow: %w: jobs were added all the time", store.ErrOverloaded)
}

// RedriveWorkflow queues the dead letters of a tenant's workflow again.
func (s *Submits) RedriveWorkflow(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) ([]deadletter.Redriven, error) {
	if _, err := s.store.Workflows.Workflow(ctx, owner, user, id); err != nil {
		return nil, err
	}
	ids, err := s.store.Workflows.DeadLettersOfWorkflow(ctx, id)
	if err != nil {
		return nil, err
	}
	redriven := make([]deadletter.Redriven, 0, len(ids))
	for from := 0; from < len(ids); from += api.MaxBatchJobs {
		redriven = append(redriven, s.Redrive(ctx, owner, user, ids[from:min(from+api.MaxBatchJobs, len(ids))])...)
	}
	return redriven, nil
}
