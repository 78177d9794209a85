package submits

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/ended"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// changesPerStep bounds a step: others wait for the disk while its pages are written. rerunsPerStep bounds one whose jobs are submitted
	// one by one.
	changesPerStep = 100
	rerunsPerStep  = 50
)

// bulk is a step of a bulk action.
type bulk struct {
	*Submits

	turn *deadletter.Turn
	// changes are to be told after the commit; cancelled, told and amended likewise.
	changes   publish.Changes
	cancelled jobs.Cancelled
	told      bool
	amended   *amend.Batch
}

// act does a batch of what a bulk action asks for.
func (b *bulk) act(ctx context.Context, tx store.Tx, turn *deadletter.Turn) error {
	*b = bulk{Submits: b.Submits, turn: turn} // of the first try
	if turn.Most = min(turn.Most, changesPerStep); turn.Action == api.BulkRerun {
		turn.Most = min(turn.Most, rerunsPerStep)
	}
	before := turn.Cursor
	found, done, err := read.Scan(ctx, tx, turn.Tenant, turn.Filter, api.BulkEnded(turn.Action), turn.CreatedAt, &turn.Cursor, turn.Most)
	if err != nil {
		return err
	}
	turn.Ended = done
	if len(found) == 0 && turn.Action != api.BulkDelete {
		return nil
	}
	ids := make([]uuid.UUID, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	switch turn.Action {
	case api.BulkCancel:
		return b.cancel(ctx, tx, ids)
	case api.BulkDelete:
		return b.delete(ctx, tx, ids)
	case api.BulkRerun:
		return b.rerun(ctx, ids, before)
	default:
		return b.amend(ctx, tx, found, ids)
	}
}

// onlyUser says that a filter names a user and nothing else: then all of the user is meant.
func onlyUser(filter api.JobFilter) bool {
	named := filter.User != ""
	filter.User = ""
	return named && reflect.ValueOf(filter).IsZero()
}

// committed is called after the commit of a step.
func (b *bulk) committed(ctx context.Context) {
	b.store.Jobs.Committed(&b.cancelled)
	b.store.EndedJobs.Committed(b.told)
	if b.amended != nil {
		b.store.Edits.Committed(b.amended)
	}
	b.publisher.Publish(ctx, b.changes)
}

func (b *bulk) cancel(ctx context.Context, tx store.Tx, ids []uuid.UUID) (err error) {
	states := b.turn.Filter.States
	b.cancelled, err = jobs.CancelSome(ctx, tx, b.turn.Tenant, ids, len(states) > 0 && !slices.Contains(states, api.StateRunning))
	b.changes = publish.Changes{Jobs: b.cancelled.Ended, Reported: b.cancelled.Requested}
	b.turn.Done = int64(len(b.cancelled.Ended) + len(b.cancelled.Requested))
	b.refuse(problem.JobStarted, len(b.cancelled.Running))
	return err
}

func (b *bulk) delete(ctx context.Context, tx store.Tx, ids []uuid.UUID) (err error) {
	b.changes.Deleted, b.told, err = ended.DeleteSome(ctx, tx, b.turn.Tenant, b.turn.User, ids)
	b.turn.Done = int64(len(b.changes.Deleted))
	if err == nil && b.turn.Ended && onlyUser(b.turn.Filter) { // after the last deletion, which appends to the ledger
		err = tenants.ForgetUser(ctx, tx, b.turn.Tenant, b.turn.Filter.User)
	}
	return err
}

func (b *bulk) refuse(code problem.Code, n int) {
	if n > 0 {
		b.turn.Refused[string(code)] += int64(n)
	}
}

// amend changes jobs that wait; those that run are refused.
func (b *bulk) amend(ctx context.Context, tx store.Tx, found []*read.Listed, ids []uuid.UUID) error {
	edits := make([]amend.Edit, 0, len(found))
	capped := false
	for _, one := range found {
		edit, err := b.edit(ctx, one)
		if refused, ok := problem.From(err); ok {
			b.refuse(refused.Code, 1)
			continue
		}
		if err != nil {
			return err
		}
		capped = capped || len(edit.Caps) > 0
		edits = append(edits, edit)
	}
	live, err := b.store.Edits.LockSome(ctx, tx, b.turn.Tenant, ids, capped)
	if err != nil {
		return err
	}
	made, err := amend.Prepare(ctx, tx, live, edits)
	if err != nil {
		return err
	}
	for i, why := range made.Refused {
		refused, ok := problem.From(why)
		switch {
		case why == nil:
		case ok:
			b.refuse(refused.Code, 1)
		case errors.Is(why, amend.ErrStarted):
			if live[edits[i].ID] != nil { // otherwise it has ended, and is not one of these jobs
				b.refuse(problem.JobStarted, 1)
			}
		default: // changed meanwhile: the next try finds it as it is
			return fmt.Errorf("%w: %w", store.ErrOverloaded, why)
		}
	}
	b.amended, b.turn.Done = made, int64(len(made.Amended))
	if err := made.Send(ctx, tx); err != nil {
		return err
	}
	b.changes.Amended = made.Amended
	return nil
}

// edit is what becomes of one job.
func (b *bulk) edit(ctx context.Context, of *read.Listed) (amend.Edit, error) {
	edit := amend.Edit{ID: of.ID}
	if api.SystemQueue(of.Queue) {
		return edit, problem.New(problem.InvalidRequest, "A delivery of a webhook cannot be changed.")
	}
	switch to := &b.turn.To; b.turn.Action {
	case api.BulkSetPriority:
		edit.Priority = new(int16(*to.Priority)) //nolint:gosec // 0 to 9
	case api.BulkRunNow:
		edit.Delay = new(time.Duration)
	case api.BulkDelay:
		edit.Delay = new(time.Duration(*to.DelayMS) * time.Millisecond)
	case api.BulkMove:
		if of.Queue == *to.Queue {
			return edit, nil
		}
		job := of.Job()
		return edit, b.moveTo(ctx, b.turn.Tenant, &edit, &job, *to.Queue, job.Tags)
	default:
		return edit, fmt.Errorf("submits: bulk: no action %s", b.turn.Action)
	}
	return edit, nil
}

// rerun submits each job again under an idempotency key of its own: a step that is done again submits none twice.
func (b *bulk) rerun(ctx context.Context, ids []uuid.UUID, before uuid.UUID) error {
	for i, id := range ids {
		fresh, err := uuid.NewV7()
		if err != nil {
			return err
		}
		answer := b.Rerun(ctx, Call{
			Tenant: b.turn.Tenant, User: b.turn.User, IDs: []uuid.UUID{fresh}, Jobs: []api.SubmitRequest{{}}, RerunOf: &id,
			Idempotency: &submit.Idempotency{Operation: "bulk", Key: b.turn.ID.String() + "/" + id.String()},
			Render: func(*submit.Answer) (submit.Response, error) {
				return submit.Response{Status: 202, Body: []byte("{}")}, nil
			},
		})
		refused := answer.Problem
		if p, ok := problem.From(answer.Err); ok {
			refused = p
		}
		switch {
		case refused != nil && (refused.Code == problem.ActiveCapReached || refused.Code == problem.QueueFull):
			if b.turn.Waiting, b.turn.Cursor = true, before; i > 0 {
				b.turn.Cursor = ids[i-1]
			}
			return nil
		case refused != nil && refused.Code == problem.Overloaded: // the next try submits none twice
			return fmt.Errorf("%w: %w", store.ErrOverloaded, refused)
		case refused != nil:
			b.refuse(refused.Code, 1)
		case errors.Is(answer.Err, store.ErrNotFound), errors.Is(answer.Err, jobs.ErrLive): // deleted, or redriven, since it was found
		case answer.Err != nil:
			return answer.Err
		default:
			b.turn.Done++
		}
	}
	return nil
}
