package submit

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Locks are those of the tenants of some submissions, with what is read under them. A transaction that does more than
// submit takes them itself:
//
//	locks := submits.Locks(candidates)
//	err := db.InShortTx(ctx, func(first *pgx.Batch) {
//		locks.Lock(ctx, first)
//	}, func(tx pgx.Tx) (last *pgx.Batch, err error) {
//		answers, last, err = locks.Store(ctx, tx, chosen)
//		return last, err
//	})
//	err = locks.Committed(err)
type Locks struct {
	submits    *Submitter
	candidates []Submission
	counts     *caps.Tally
	known      map[IdempotencyKey]SavedAnswer
	keys       *keys
	// taken says that the transaction has the locks, and uses what was read.
	taken bool
	// followUps says that some are stored.
	followUps bool
	// checks says that jobs came to the gates of their keys.
	checks bool
}

// Locks are those of the candidates' tenants. What is stored under them is of these tenants and under the caps of the
// candidates, as many submissions as the transaction likes.
func (s *Submitter) Locks(candidates []Submission) *Locks {
	return &Locks{submits: s, candidates: candidates}
}

// Lock queues the statements that take the locks, and those that read under them.
func (l *Locks) Lock(ctx context.Context, batch *pgx.Batch) {
	l.taken, l.followUps, l.checks = false, false, false
	l.counts = l.submits.counts.QueueLockAndRead(ctx, batch, store.LockSubmit, guarded(l.candidates), caps.KeysOf(capsIn(l.candidates)...))
	l.known = queueFindKeys(batch, keysOf(l.candidates))
	if storedWhole(l.candidates) {
		l.keys = l.submits.queueKeys(batch, l.candidates)
	}
}

// settle makes the counts exact that were read with the locks.
func (l *Locks) settle(ctx context.Context, tx pgx.Tx) error {
	if l.taken {
		return nil
	}
	l.taken = true
	if err := l.counts.EnsureRows(ctx, tx); err != nil {
		return err
	}
	return l.counts.Exact(ctx, tx, capsIn(l.candidates)...)
}

// Refresh reads the counts again: the transaction has ended jobs, whose capacity is free.
func (l *Locks) Refresh(ctx context.Context, tx pgx.Tx) (err error) {
	l.taken = true
	if len(l.counts.Counts) > 0 {
		l.counts, err = caps.ReadExact(ctx, tx, capsIn(l.candidates)...)
	}
	return err
}

// Store settles submissions: those with a saved response get it, of the others what is admitted is stored. The batch is
// to be sent together with COMMIT.
func (l *Locks) Store(ctx context.Context, tx pgx.Tx, submissions []Submission) (answers []Answer, last *pgx.Batch, err error) {
	if err := l.settle(ctx, tx); err != nil {
		return nil, nil, err
	}
	answers = make([]Answer, len(submissions))
	last, err = l.storeInRounds(ctx, tx, submissions, answers)
	return answers, last, err
}

// Committed is called after the transaction, with its error. It gives ErrIdempotencyInFlight where it may have waited too
// long for the first request of a key.
func (l *Locks) Committed(err error) error {
	if !l.taken {
		return inFlight(err, l.candidates)
	}
	if err != nil {
		return err
	}
	l.submits.counts.ReportUse(l.counts)
	if l.followUps {
		l.submits.edges.Appended()
	}
	if l.checks {
		l.submits.gate.Appended()
	}
	return nil
}

// inFlight is the error of a wait for the lock that took too long. Where all submissions have a
// key, the first request of a key may hold the lock; otherwise there is too much work.
func inFlight(err error, submissions []Submission) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.Code != "55P03" { // lock_not_available
		return err
	}
	for i := range submissions {
		if submissions[i].Idempotency == nil {
			return err // each submission gets its own error, see LockTimedOut
		}
	}
	return ErrIdempotencyInFlight
}

// Guarded says whether the submission goes under its tenant's lock: it has an
// Idempotency-Key, a job under a cap or a limit by key, or one that comes after others, would wait, or replaces a live one.
func (s *Submission) Guarded() bool {
	if s.Idempotency != nil || s.isLinked() || s.limited() {
		return true
	}
	for i := range s.Jobs {
		if len(s.Jobs[i].Caps) > 0 || s.Jobs[i].WouldWait != nil || s.Jobs[i].replaces() {
			return true
		}
	}
	return false
}

func anyGuarded(submissions []Submission) bool {
	return slices.ContainsFunc(submissions, func(s Submission) bool { return s.Guarded() })
}

// guarded are the tenants whose submits go one at a time: those that sent an
// Idempotency-Key, so that its look-up is a plain read, and those with a cap, so
// that no other submit adds to their counts meanwhile.
func guarded(submissions []Submission) []tenant.ID {
	var tenants []tenant.ID
	for i := range submissions {
		if submissions[i].Guarded() {
			tenants = append(tenants, submissions[i].Tenant)
		}
	}
	return tenants
}

// ownersOf are the tenants of submissions.
func ownersOf(submissions []Submission) []tenant.ID {
	owners := make([]tenant.ID, len(submissions))
	for i := range submissions {
		owners[i] = submissions[i].Tenant
	}
	return owners
}

func capsIn(submissions []Submission) [][]caps.Cap {
	var caps [][]caps.Cap
	for i := range submissions {
		for j := range submissions[i].Jobs {
			if under := submissions[i].Jobs[j].Caps; len(under) > 0 {
				caps = append(caps, under)
			}
		}
	}
	return caps
}
