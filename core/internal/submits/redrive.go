package submits

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Redrive queues a tenant's dead letters again.
func (s *Submits) Redrive(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) []deadletter.Redriven {
	if err := s.cached.Limits.Load(ctx, owner); err != nil {
		refused := make([]deadletter.Redriven, len(ids))
		for i := range refused {
			refused[i].Err = err
		}
		return refused
	}
	redriven := s.store.DeadLetters.Redrive(ctx, owner, user, ids, s.capsOf(owner))
	s.redriven(ctx, redriven)
	return redriven
}

// StepRedrive processes one batch of a redrive by filter. worked says that this core held it.
func (s *Submits) StepRedrive(ctx context.Context, due deadletter.DueRedrive, random float64) (worked bool, err error) {
	if err := s.cached.Limits.Load(ctx, due.TenantID); err != nil {
		return false, err
	}
	action := bulk{Submits: s}
	step, err := s.store.DeadLetters.StepRedrive(ctx, due.ID, s.capsOf(due.TenantID), action.act, random)
	if err != nil {
		return false, err
	}
	action.committed(ctx)
	s.redriven(ctx, step.Redriven, step.Discarded...)
	return step.Worked, nil
}

// capsOf gives the caps on active jobs of a tenant; nil where there are none.
func (s *Submits) capsOf(owner tenant.ID) deadletter.CapsOf {
	if !s.cached.MayCapActive(owner) {
		return nil
	}
	return func(name string, user *string) []caps.Cap { return s.cached.ActiveCaps(owner, name, user) }
}

// redriven publishes jobs that were queued again, and moves those whose lane is gone.
func (s *Submits) redriven(ctx context.Context, found []deadletter.Redriven, discarded ...uuid.UUID) {
	changes := publish.Redriven(found)
	s.publisher.Publish(ctx, publish.Changes{Jobs: changes, Deleted: discarded, Discarded: len(discarded)})
	var lanes []lanes.ID
	for i := range changes {
		lanes = append(lanes, changes[i].Ready.Lane)
	}
	s.moveRedriven(ctx, lanes)
}
