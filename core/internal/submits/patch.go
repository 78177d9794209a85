package submits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Patch changes a job that waits, and gives it as it is then. matches, where not nil, is asked about the job as it is before; check
// about its type, where the payload changes.
func (s *Submits) Patch(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, patch *api.JobPatch, matches func(*api.Job) (bool, error), check func(jobType string) error) (found api.Job, made []amend.Amended, err error) {
	// Another change may come between the read and the edit.
	const rounds = 10
	for range rounds {
		before, err := s.store.JobReads.Get(ctx, owner, user, id)
		if err != nil {
			return found, nil, err
		}
		if matches != nil {
			switch fits, err := matches(&before); {
			case err != nil:
				return found, nil, err
			case !fits:
				return found, nil, amend.ErrPrecondition
			}
		}
		edit, err := s.editOf(ctx, owner, id, &before, patch, check)
		if err != nil {
			return found, nil, err
		}
		job, one, err := s.store.Edits.One(ctx, owner, user, edit, matches)
		if err == nil {
			return job, []amend.Amended{one}, nil
		}
		if !errors.Is(err, amend.ErrUnlike) {
			return found, nil, err
		}
	}
	return found, nil, fmt.Errorf("submits: patch: %w", amend.ErrUnlike)
}

// editOf is a patch of a job as it was read.
func (s *Submits) editOf(ctx context.Context, owner tenant.ID, id uuid.UUID, of *api.Job, patch *api.JobPatch, check func(jobType string) error) (amend.Edit, error) {
	edit := amend.Edit{ID: id, MaxAttempts: int32Of(patch.MaxAttempts)}
	if state := job.State(of.State); state == job.Running || state.Terminal() {
		return edit, amend.ErrStarted
	}
	if api.SystemQueue(of.Queue) {
		return edit, problem.Invalid(problem.FieldError{Field: "queue", Message: "the job is a delivery of a webhook, and cannot be changed"})
	}
	if patch.Priority != nil {
		edit.Priority = new(int16(*patch.Priority)) //nolint:gosec // 0 to 9
	}
	if len(patch.Payload) > 0 && string(patch.Payload) != "null" {
		if err := check(of.Type); err != nil {
			return edit, err
		}
		edit.Payload = patch.Payload
		edit.Like = amend.Like{Queue: of.Queue, Type: of.Type, Tags: of.Tags} // it was checked by this type
	}
	if patch.Metadata != nil {
		text, err := json.Marshal(patch.Metadata)
		if err != nil {
			return edit, fmt.Errorf("submits: patch: %w", err)
		}
		edit.Metadata = text
	}
	if patch.RunAt != nil {
		edit.RunAt = &patch.RunAt.Time
	}
	if patch.Deadline != nil {
		edit.Deadline = &patch.Deadline.Time
	}
	if patch.Tags != nil {
		edit.Tags = &patch.Tags
	}
	if patch.Queue == nil && patch.Tags == nil {
		return edit, nil
	}
	queue, tags := store.OrElse(patch.Queue, of.Queue), of.Tags
	if patch.Tags != nil {
		tags = patch.Tags
	}
	return edit, s.moveTo(ctx, owner, &edit, of, queue, tags)
}

// moveTo finds the lane of a job in a queue and with tags.
func (s *Submits) moveTo(ctx context.Context, owner tenant.ID, edit *amend.Edit, of *api.Job, queue string, tags []string) error {
	if err := s.cached.Limits.Load(ctx, owner); err != nil {
		return err
	}
	key := of.Key
	if key == nil && len(of.Costs) > 0 {
		key = new("")
	}
	ask := lanes.Ask{Key: s.cached.LaneOf(owner, queue, of.Type, tags, of.User, key, len(of.Costs) > 0), RequestedBy: store.OrElse(of.User, "")}
	lane, ok := s.cached.Lanes.Find(&ask)
	if !ok {
		made, err := s.cached.Maker.Ensure(ctx, owner, []lanes.Ask{ask})
		if err != nil {
			return err
		}
		lane = made[0]
	}
	switch {
	case lane.Refused != 0:
		return lane.Refused.Refusal()
	case lane.ID == 0:
		return fmt.Errorf("%w: the job's lane could not be created in time", store.ErrOverloaded)
	}
	edit.To, edit.ToFair = lane.ID, lane.Fair
	edit.Like = amend.Like{Queue: of.Queue, Type: of.Type, Tags: of.Tags}
	if queue != of.Queue {
		edit.Queue, edit.Caps = queue, s.cached.ActiveCaps(owner, queue, of.User)
	}
	return nil
}

func int32Of(value *int) *int32 {
	if value == nil {
		return nil
	}
	return new(int32(*value)) //nolint:gosec // bounded
}
