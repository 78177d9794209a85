package submit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// wouldWait says whether one of its jobs is refused for how long it would wait.
func (s *Submission) wouldWait() bool {
	return slices.ContainsFunc(s.Jobs, func(j NewJob) bool { return j.WouldWait != nil })
}

// submitGuarded settles submissions of which some carry a key or come under a
// cap: those with a saved response get it, of the others what is admitted is stored;
// key, counts and jobs are one commit (D4). A refused job leaves no key behind.
func (s *Submitter) submitGuarded(ctx context.Context, submissions []Submission, answers []Answer) error {
	if storedWhole(submissions) {
		err := s.submitCapped(ctx, submissions, answers)
		if !store.IsUnique(err) {
			return err
		}
		// An id is taken: in rounds, it refuses its job alone.
	}
	return s.underLock(ctx, submissions, func(tx pgx.Tx, locks *Locks) (*pgx.Batch, error) {
		stored, last, err := locks.Store(ctx, tx, submissions)
		copy(answers, stored)
		return last, err
	})
}

// underLock runs work in a transaction that holds the tenants' locks. The batch that it returns is sent together with
// COMMIT.
func (s *Submitter) underLock(ctx context.Context, submissions []Submission, work func(pgx.Tx, *Locks) (*pgx.Batch, error)) error {
	locks := s.Locks(submissions)
	return locks.Committed(s.InShortTx(ctx, func(batch *pgx.Batch) {
		store.QueueTakesJobs(batch, ownersOf(submissions))
		locks.Lock(ctx, batch)
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		if err := locks.settle(ctx, tx); err != nil {
			return nil, err
		}
		return work(tx, locks)
	}))
}

// storedWhole says that every job that is admitted is also stored, or none: none has an
// Idempotency-Key, a dedupe_key or a deadline, or is one of an atomic batch, or has a rate by key, or a limit by key and a run_at,
// which may be due.
func storedWhole(submissions []Submission) bool {
	if anyInRounds(submissions) {
		return false
	}
	return !slices.ContainsFunc(submissions, func(s Submission) bool {
		return s.Idempotency != nil || slices.ContainsFunc(s.Jobs, func(j NewJob) bool { return j.Deadline != nil || j.ToGate || j.Limit != gate.None && j.RunAt != nil })
	})
}

// submitCapped settles submissions that are storedWhole: jobs and counts are sent together with
// COMMIT.
func (s *Submitter) submitCapped(ctx context.Context, submissions []Submission, answers []Answer) error {
	var chosen []Submission
	var results [][]JobResult
	err := s.underLock(ctx, submissions, func(_ pgx.Tx, locks *Locks) (*pgx.Batch, error) {
		chosen = slices.Clone(submissions) // a second try admits again from the start
		for i := range chosen {
			chosen[i].admit(locks.counts, s.room)
			chosen[i].countRefused(locks.counts)
		}
		locks.keys.hold(chosen)
		batch := &pgx.Batch{}
		var waiting []place
		if results, waiting = openAll(chosen); len(waiting) > 0 {
			statement := insertJobsSQL
			args, keyed := insertArgs(chosen, waiting)
			if keyed {
				statement = insertKeyedSQL
				addKeys(args, chosen, waiting)
			}
			batch.Queue(statement, args).Query(func(rows pgx.Rows) error {
				missing, err := collectInserted(rows, chosen, waiting, results)
				if err == nil && len(missing) > 0 {
					err = fmt.Errorf("%d of %d jobs were not stored", len(missing), len(waiting))
				}
				return err
			})
		}
		locks.counts.Append(batch)
		return batch, nil
	})
	if err == nil {
		answerAll(chosen, results, answers)
	}
	return err
}

// storeInRounds settles any submissions.
func (l *Locks) storeInRounds(ctx context.Context, tx pgx.Tx, submissions []Submission, answers []Answer) (batch *pgx.Batch, err error) {
	submissions = slices.Clone(submissions) // a second try refuses again from the start
	holdAll(submissions)
	workflows, err := lockWorkflows(ctx, tx, submissions)
	if err != nil {
		return nil, err
	}
	parents, err := lockParents(ctx, tx, submissions)
	if err != nil {
		return nil, err
	}
	all := make([]int, len(submissions))
	for i := range all {
		all[i] = i
	}
	batch = &pgx.Batch{}
	round := round{room: l.submits.room, counts: l.counts, parents: parents, workflows: workflows, batch: batch}
	// Each round stores the first submission of each key. One with the same key and another body,
	// where the first was refused, is not a mismatch: it is stored in the next round.
	for len(all) > 0 {
		fresh, followers := sortByKey(submissions, all, l.known, answers)
		kept, next, err := round.store(ctx, tx, submissions, fresh, answers)
		if err != nil {
			return nil, err
		}
		again := make(map[int]bool, len(next))
		for _, index := range next {
			again[index] = true
		}
		for follower, first := range followers {
			if again[first] {
				next = append(next, follower)
				continue
			}
			if !kept[first] && submissions[follower].Idempotency.Fingerprint != submissions[first].Idempotency.Fingerprint {
				next = append(next, follower)
				continue
			}
			answers[follower] = follow(&submissions[follower], &submissions[first], &answers[first])
			answers[follower].Replayed = kept[first]
		}
		slices.Sort(next)
		all = next
	}
	l.counts.Append(batch)
	gate.Append(batch, round.checks)
	l.followUps, l.checks = round.followUps, len(round.checks) > 0 || round.amended
	return batch, nil
}

// round is what the rounds of one transaction share.
type round struct {
	room    RetryAfter
	counts  *caps.Tally
	parents map[dependency.Key]dependency.Parent
	// workflows are those to which jobs are added.
	workflows map[uuid.UUID]*workflow.Held
	// batch is sent together with COMMIT.
	batch *pgx.Batch
	// followUps says that some are in batch.
	followUps bool
	// checks are the keys of jobs that came to their gates; amended says that replaced jobs have appended some.
	checks  []gate.Key
	amended bool
}

// store admits and stores the submissions that fresh names, and answers them.
// It returns the submissions whose response is saved for their key, and those to be tried
// again: they were refused for a cap, and jobs that were counted under it were then not
// stored, because of their dedupe_key or their deadline.
func (r *round) store(ctx context.Context, tx pgx.Tx, submissions []Submission, fresh []int, answers []Answer) (kept map[int]bool, again []int, err error) {
	kept = map[int]bool{}
	chosen := make([]Submission, len(fresh))
	for i, index := range fresh {
		chosen[i] = submissions[index]
	}
	if err := linkAll(ctx, tx, chosen, r.parents); err != nil {
		return nil, nil, err
	}
	if err := admit(ctx, tx, r.counts, chosen, r.room); err != nil {
		return nil, nil, err
	}
	results, amended, err := insertJobs(ctx, tx, chosen)
	if err != nil {
		return nil, nil, err
	}
	r.amended = r.amended || amended
	roomAgain := putBack(r.counts, chosen, results)
	r.followUps = storeLinks(r.batch, chosen, results) || r.followUps
	r.checks = append(r.checks, checksOf(chosen, results)...)
	for i, index := range fresh {
		answers[index] = newAnswer(&chosen[i], results[i])
		if chosen[i].Workflow != nil && answers[index].Problem == nil {
			answers[index].Workflow = chosen[i].storeWorkflow(r.batch, r.workflows[chosen[i].Workflow.ID], results[i])
		}
		if chosen[i].Idempotency != nil && answers[index].isSaved() {
			if err := saveResponse(r.batch, &chosen[i], &answers[index]); err != nil {
				return nil, nil, err
			}
			kept[index] = true
		}
		if p := answers[index].Problem; roomAgain && p != nil && (p.Code == problem.ActiveCapReached || p.Code == problem.QueueFull) {
			answers[index] = Answer{}
			again = append(again, index)
			continue
		}
		chosen[i].countRefused(r.counts)
	}
	return kept, again, nil
}

// admit takes a slot of every cap for each job, in order, and refuses those for
// which one is full. A job whose dedupe_key a live one has takes none: it is
// answered with that one. Of an atomic batch all are admitted or none.
func admit(ctx context.Context, tx pgx.Tx, counts *caps.Tally, submissions []Submission, room RetryAfter) error {
	if len(counts.Counts) == 0 && !slices.ContainsFunc(submissions, func(s Submission) bool { return s.wouldWait() }) {
		return nil
	}
	capped := func(s *Submission, j int) bool { return len(s.Jobs[j].Caps) > 0 || s.Jobs[j].WouldWait != nil }
	if err := findHolders(ctx, tx, submissions, capped); err != nil {
		return err
	}
	for i := range submissions {
		submissions[i].admit(counts, room)
	}
	return nil
}

// admit takes the slots of one submission.
func (s *Submission) admit(t *caps.Tally, room RetryAfter) {
	var taken [][]caps.Cap
	var turn turn
	for j := range s.Jobs {
		caps := s.Jobs[j].Caps
		if wait := s.Jobs[j].WouldWait; wait != nil && s.refusal(j) == nil && s.holder(j) == nil {
			s.refuse(j, wait)
			if s.Atomic {
				break
			}
		}
		if len(caps) == 0 || s.refusal(j) != nil || s.holder(j) != nil {
			continue
		}
		full := t.Full(caps)
		if len(full) == 0 {
			t.Take(caps, 1)
			taken = append(taken, caps)
			continue
		}
		s.refuse(j, turn.capReached(full, room))
		if s.Atomic {
			break
		}
	}
	if s.Atomic && s.refusesAny() {
		for _, caps := range taken {
			t.Take(caps, -1)
		}
	}
}

// countRefused counts the jobs that a full cap refused. Of an atomic batch that is the first.
func (s *Submission) countRefused(t *caps.Tally) {
	for j := range s.Jobs {
		if refused := s.refusal(j); refused != nil {
			for _, policy := range refused.Policies {
				t.Refuse(s.Jobs[j].Caps, policy.Name)
			}
		}
	}
}

func (s *Submission) holder(j int) *read.Row {
	if s.holders == nil {
		return nil
	}
	return s.holders[j]
}

func (s *Submission) refusesAny() bool {
	for j := range s.Jobs {
		if s.refusal(j) != nil {
			return true
		}
	}
	return false
}

// refuse sets one refusal without touching the caller's slice.
func (s *Submission) refuse(j int, why *problem.Problem) {
	own := make([]*problem.Problem, len(s.Jobs))
	copy(own, s.Refused)
	own[j] = why
	s.Refused = own
}

// findHolders looks for live jobs that have the dedupe_keys of jobs for which asked says so.
func findHolders(ctx context.Context, tx pgx.Tx, submissions []Submission, asked func(s *Submission, j int) bool) error {
	var keyed []place
	for i := range submissions {
		s := &submissions[i]
		for j := range s.Jobs {
			if s.Jobs[j].DedupeKey != nil && s.refusal(j) == nil && s.holder(j) == nil && asked(s, j) {
				keyed = append(keyed, place{i, j})
			}
		}
	}
	if len(keyed) == 0 {
		return nil
	}
	found, err := dedupeHolders(ctx, tx, submissions, keyed)
	if err != nil {
		return err
	}
	// one that waits is locked, so that it does not start before it is replaced; one that runs gets a follower
	locked, err := lockReplaced(ctx, tx, submissions, keyed, found)
	if err != nil {
		return err
	}
	now := time.Time{}
	if len(locked) > 0 {
		if now, err = store.Clock(ctx, tx); err != nil {
			return err
		}
	}
	for _, p := range keyed {
		s := &submissions[p.submission]
		if s.holders == nil {
			s.holders = make([]*read.Row, len(s.Jobs))
		}
		var met JobResult
		if s.Jobs[p.job].replaces() && !now.IsZero() && s.late(p.job, now) {
			s.refuse(p.job, deadlinePast())
			continue
		}
		if holder := found[s.Jobs[p.job].dedupe(s.Tenant)]; holder != nil {
			s.Jobs[p.job].meet(holder, locked[holder.ID], &met)
		}
		if s.holders[p.job] = met.Row; met.Refused != nil {
			s.refuse(p.job, met.Refused)
		}
	}
	return nil
}

// putBack gives back the slots of admitted jobs that were not stored: their
// dedupe_key or their deadline kept them out.
func putBack(t *caps.Tally, submissions []Submission, results [][]JobResult) (gaveBack bool) {
	if len(t.Counts) == 0 {
		return false
	}
	for i := range submissions {
		s := &submissions[i]
		if s.Atomic && s.refusesAny() {
			continue // took none
		}
		for j := range s.Jobs {
			if s.refusal(j) != nil || s.holder(j) != nil {
				continue // took none
			}
			if r := results[i][j]; r.Row == nil || r.Deduplicated {
				t.Take(s.Jobs[j].Caps, -1)
				gaveBack = gaveBack || len(s.Jobs[j].Caps) > 0
			}
		}
	}
	return gaveBack
}
