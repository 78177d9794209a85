package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Ending is an outcome as its lease holder reports it.
type Ending struct {
	Lease job.Lease
	Kind  string
	// Result belongs to a complete; nil is JSON null.
	Result []byte
	// Error, RetryAfter and Permanent belong to a fail. RetryAfter takes the place
	// of the backoff.
	Error      *api.JobError
	RetryAfter *time.Duration
	Permanent  bool
	// Delay belongs to a snooze; of a wait it is how long it lasts at most.
	Delay time.Duration
	// Wait, of a wait, is what the job waits for. Checkpoint is what its next attempt gets; nil for what there is.
	Wait       *Wait
	Checkpoint []byte
	// Deferral, where not 0, says that a snooze or a release is because the job's destination
	// cannot take it: a snooze without Delay waits by the retry policy, and a job that was deferred
	// for this long in total has failed instead.
	Deferral time.Duration
	// Random is uniform in [0, 1): the backoff's jitter.
	Random float64
	// Left says that a release is because the worker has left, and not the holder's report: no answer
	// is stored for it, and whatever the holder still reports gets ErrLeaseLost.
	Left bool
	// Used is what the attempt has used of budgets. Throttle, of a fail or a snooze, closes budgets.
	Used     api.Amounts
	Throttle map[string]api.Throttle
	// Submit is the JSON of the jobs that a complete or a wait submits, Signal of the signals that it sends; nil for none. See EndIn.
	Submit, Signal []byte
	// Logged says that the holder itself writes the attempt's log line.
	Logged bool
	// Span is the request's, for the trace of the flush; zero for none.
	Span trace.SpanContext
}

// hash distinguishes two endings of one lease: same kind and body, same hash (D5).
func (e *Ending) hash() [32]byte {
	return sha256.Sum256(store.JSON(struct {
		Kind       string
		Result     string
		Error      *api.JobError
		RetryAfter *time.Duration
		Permanent  bool
		Delay      time.Duration
		Used       api.Amounts             `json:",omitzero"`
		Throttle   map[string]api.Throttle `json:",omitzero"`
		Submit     string                  `json:",omitzero"`
		Signal     string                  `json:",omitzero"`
		Wait       *Wait                   `json:",omitzero"`
		Checkpoint string                  `json:",omitzero"`
	}{e.Kind, string(e.Result), e.Error, e.RetryAfter, e.Permanent, e.Delay, e.Used, e.Throttle, string(e.Submit), string(e.Signal), e.Wait, string(e.Checkpoint)}))
}

// Ended is the result of an ending.
type Ended struct {
	// Outcome is the answer; nil with an Err.
	Outcome *api.Outcome
	// Err is ErrNotFound, ErrLeaseLost, ErrOutcomeConflict, or a fault.
	Err error
	// Kind is what the ending counts as: a deferral that lasted too long is a fail, whatever the
	// holder reported.
	Kind string
	// Replayed: the same ending was stored before; nothing changed.
	Replayed bool
	// Execution is the attempt's duration, EndToEnd the time since the submit; for a complete only.
	Execution, EndToEnd time.Duration
	// Change is what became of the job; zero with an Err, and of a repeat.
	Change
}

// End ends attempts, of any tenants, as their holders report. Each has its own result: completes
// are one commit, the other kinds another.
func (s *Jobs) End(ctx context.Context, endings []Ending) []Ended {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	ended := make([]Ended, len(endings))
	var completes, settling, others []int
	firsts := map[job.Lease]int{}
	repeats := map[int]int{}
	for _, i := range s.notMoved(endings, all(len(endings)), ended) {
		// A lease named twice in one call: the first decides, the second is compared with it.
		if first, ok := firsts[endings[i].Lease]; ok {
			repeats[i] = first
			continue
		}
		firsts[endings[i].Lease] = i
		if endings[i].Kind == api.KindComplete {
			if endings[i].Used != nil {
				settling = append(settling, i)
				continue
			}
			completes = append(completes, i)
		} else {
			others = append(others, i)
		}
	}
	missing := s.endCompletes(ctx, completeOthers, endings, completes, ended)
	missing = s.endCompletes(ctx, completeParents, endings, append(missing, settling...), ended)
	missing = append(missing, s.endOthers(ctx, endings, others, ended)...)
	s.answerUnheld(ctx, endings, missing, ended)
	missing = missing[:0]
	for repeat, first := range repeats {
		if errors.Is(ended[first].Err, ErrOutcomeConflict) {
			// The first decided nothing: this one may be the repeat of the stored outcome.
			missing = append(missing, repeat)
			continue
		}
		ended[repeat] = repeatedOutcome(&endings[repeat], &endings[first], ended[first])
	}
	s.answerUnheld(ctx, endings, missing, ended)
	return ended
}

// all are the first n places.
func all(n int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	return places
}

// notMoved gives the places of endings without those of tenants that were refused a moment ago, which have their error.
func (s *Jobs) notMoved(endings []Ending, places []int, ended []Ended) []int {
	others, some := s.moved.Split(len(places), func(i int) tenant.ID { return endings[places[i]].Lease.Tenant }, func(i int, err error) {
		ended[places[i]] = Ended{Err: err}
	})
	if !some {
		return places
	}
	for i, other := range others {
		others[i] = places[other]
	}
	return others
}

func repeatedOutcome(repeat, first *Ending, answered Ended) Ended {
	if answered.Err != nil {
		return Ended{Err: answered.Err}
	}
	if first.Left && !answered.Replayed {
		return Ended{Err: ErrLeaseLost}
	}
	if repeat.hash() != first.hash() {
		return Ended{Err: ErrOutcomeConflict}
	}
	return Ended{Outcome: answered.Outcome, Replayed: true}
}

func (s *Jobs) endCompletes(ctx context.Context, by completion, endings []Ending, indexes []int, ended []Ended) (missing []int) {
	if len(indexes) == 0 {
		return nil
	}
	chosen := make([]*Ending, len(indexes))
	for i, index := range indexes {
		chosen[i] = &endings[index]
	}
	done, err := s.complete(ctx, by, chosen)
	if s.moved.Note(err) {
		return s.endCompletes(ctx, by, endings, s.notMoved(endings, indexes, ended), ended)
	}
	if err != nil && mayTryAlone(err, len(indexes)) {
		for i := range indexes {
			missing = append(missing, s.endCompletes(ctx, by, endings, indexes[i:i+1], ended)...)
		}
		return missing
	}
	for _, index := range indexes {
		row, ok := done[endings[index].Lease]
		switch {
		case err != nil:
			ended[index].Err = err
		case ok:
			ended[index] = s.endedOf(&row)
		default:
			missing = append(missing, index)
		}
	}
	return missing
}

// endOthers locks the held rows, decides each in Go by the transition table, and stores the
// verdicts in the same transaction.
func (s *Jobs) endOthers(ctx context.Context, endings []Ending, indexes []int, ended []Ended) (missing []int) {
	if len(indexes) == 0 {
		return nil
	}
	leases := make([]job.Lease, len(indexes))
	for i, index := range indexes {
		leases[i] = endings[index].Lease
	}
	var waiting []uuid.UUID
	for _, index := range indexes {
		if endings[index].Wait != nil {
			waiting = append(waiting, endings[index].Lease.Job)
		}
	}
	var held map[job.Lease]*lockedRow
	var signals map[uuid.UUID][]string
	var transitions []*transition
	err := s.InShortTx(ctx, func(batch *pgx.Batch) {
		held = queueLockHeld(batch, leases)
		if len(waiting) > 0 {
			signals = queueSignals(batch, waiting)
		}
	}, func(pgx.Tx) (*pgx.Batch, error) {
		missing, transitions = missing[:0], nil // of the first try, see InTx
		for _, index := range indexes {
			row, ok := held[endings[index].Lease]
			if !ok {
				missing = append(missing, index)
				continue
			}
			made, err := decide(row, &endings[index], signals[row.ID])
			if err != nil {
				ended[index] = Ended{Err: err}
				continue
			}
			transitions = append(transitions, made)
			ended[index] = made.result()
			ended[index].Attempt = s.attemptOf(row)
		}
		return finish(transitions), nil
	})
	if err == nil {
		s.appended(transitions)
		return missing
	}
	if s.moved.Note(err) {
		return s.endOthers(ctx, endings, s.notMoved(endings, indexes, ended), ended)
	}
	if mayTryAlone(err, len(indexes)) {
		missing = nil
		for i := range indexes {
			missing = append(missing, s.endOthers(ctx, endings, indexes[i:i+1], ended)...)
		}
		return missing
	}
	for _, index := range indexes {
		ended[index] = Ended{Err: fmt.Errorf("jobs: outcome: %w", err)}
	}
	return nil
}

// mayTryAlone says whether n requests that failed together may be tried one by one, so that a bad
// one does not fail the others: nothing took effect, and the database as a whole did not fail.
func mayTryAlone(err error, n int) bool {
	return n > 1 && store.Definite(err) && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrOverloaded)
}

// decide applies the transition table to the holder's ending. signals are the names of those that the job has, where it would wait.
func decide(row *lockedRow, reported *Ending, signals []string) (*transition, error) {
	ending, deferred := deferral(row, reported)
	events := map[string]job.Event{api.KindFail: job.Fail, api.KindSnooze: job.Snooze, api.KindRelease: job.Release, api.KindWait: job.Wait}
	facts := endingFacts(row, ending)
	facts.Signalled = ending.Wait != nil && ending.Wait.over(signals)
	verdict, err := job.Next(job.Running, events[ending.Kind], facts)
	if err != nil {
		return nil, err
	}
	made := &transition{
		row: row, verdict: verdict, kind: ending.Kind, err: ending.Error, delay: ending.Delay, deferred: deferred,
		used: ending.Used, free: ending.Kind == api.KindRelease, throttle: ending.Throttle,
		wait: ending.Wait, checkpoint: ending.Checkpoint,
	}
	if ending.Kind == api.KindFail {
		made.attemptKind = "failed"
	}
	if verdict.State == job.Cancelled {
		made.attemptKind = "cancelled"
	}
	if verdict.Backoff {
		made.delay = row.retry().Wait(int(row.Attempt), ending.Random)
		if ending.RetryAfter != nil {
			made.delay = *ending.RetryAfter
		}
	}
	if !reported.Left {
		made.saveReplay(reported)
	}
	return made, nil
}

// deferral gives the delay of a deferred job, or a fail after too long a deferral.
func deferral(row *lockedRow, reported *Ending) (ending *Ending, deferred bool) {
	if reported.Deferral == 0 {
		return reported, false
	}
	var waited time.Duration
	if row.DeferredSince != nil {
		waited = row.Now.Sub(*row.DeferredSince)
	}
	made := *reported
	if waited >= reported.Deferral {
		made.Kind, made.Delay = api.KindFail, 0
		return &made, false
	}
	if made.Kind == api.KindSnooze && made.Delay == 0 {
		made.Delay = row.retry().Defer(waited, reported.Random)
	}
	made.Delay = min(made.Delay, reported.Deferral-waited)
	return &made, true
}

// recordedColumns are the stored outcome of a job, without the payload: a thousand payloads would
// be 256 MB.
const recordedColumns = `id, tenant_id, attempt, epoch, outcome_lease_id, outcome_hash, outcome_answer`

// lastOutcomeSQL looks for jobs that the named lease did not hold: live, finished or dead, in one
// statement, so that a job that moves is not missed.
const lastOutcomeSQL = `
SELECT ` + recordedColumns + ` FROM jobs WHERE id = ANY(@ids::uuid[])
UNION ALL
SELECT ` + recordedColumns + ` FROM finished_jobs WHERE id = ANY(@ids::uuid[]) AND finished_at >= @since
UNION ALL
SELECT ` + recordedColumns + ` FROM dead_letters WHERE id = ANY(@ids::uuid[])`

type recorded struct {
	ID             uuid.UUID
	TenantID       tenant.ID
	Attempt        int32
	Epoch          int64
	OutcomeLeaseID *uuid.UUID
	OutcomeHash    []byte
	OutcomeAnswer  []byte
}

// answerUnheld answers holders without a lease from the stored outcome: the same answer again, a
// conflict, a lost lease, or not found.
func (s *Jobs) answerUnheld(ctx context.Context, endings []Ending, missing []int, ended []Ended) {
	if len(missing) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(missing))
	for i, index := range missing {
		ids[i] = endings[index].Lease.Job
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToAddrOfStructByName[recorded], lastOutcomeSQL, store.Args{"ids": ids, "since": retention.Since(ids...)})
	found := make(map[uuid.UUID]*recorded, len(rows))
	for _, row := range rows {
		found[row.ID] = row
	}
	for _, index := range missing {
		if err != nil {
			ended[index].Err = fmt.Errorf("jobs: last outcome: %w", store.NotApplied(err))
			continue
		}
		ended[index] = recordedOutcome(found[endings[index].Lease.Job], &endings[index])
	}
}

func recordedOutcome(row *recorded, ending *Ending) Ended {
	// The platform sees every tenant's jobs; it comes here only with a token that was never this
	// job's.
	if row == nil || (row.TenantID != ending.Lease.Tenant && ending.Lease.Tenant != tenant.Platform) {
		return Ended{Err: store.ErrNotFound}
	}
	if row.OutcomeLeaseID == nil || *row.OutcomeLeaseID != ending.Lease.ID || row.Epoch != ending.Lease.Epoch {
		return Ended{Err: ErrLeaseLost}
	}
	if hash := ending.hash(); !bytes.Equal(row.OutcomeHash, hash[:]) {
		return Ended{Err: ErrOutcomeConflict}
	}
	if row.OutcomeAnswer == nil {
		return Ended{Outcome: completedOutcome(row.ID, row.Attempt, row.Epoch), Replayed: true}
	}
	outcome := completedOutcome(row.ID, row.Attempt, row.Epoch) // of a complete only what it submitted is stored
	if err := json.Unmarshal(row.OutcomeAnswer, outcome); err != nil {
		return Ended{Err: fmt.Errorf("jobs: stored outcome: %w", err)}
	}
	return Ended{Outcome: outcome, Replayed: true}
}

// GiveBack returns claimed jobs that were not delivered, attempt included, as by a release.
func (s *Jobs) GiveBack(ctx context.Context, leases []job.Lease) []Ended {
	endings := make([]Ending, len(leases))
	for i, lease := range leases {
		endings[i] = Ending{Lease: lease, Kind: api.KindRelease}
	}
	return s.End(ctx, endings)
}

// ParseLease reads a lease token for one job on behalf of a tenant, or of the platform, which may
// hold leases of all tenants. A token of another job is a lost lease; another tenant's job is not
// found.
func ParseLease(owner tenant.ID, id uuid.UUID, token string) (job.Lease, error) {
	lease, err := job.ParseToken(token)
	if err != nil || lease.Job != id {
		// A token of another job holds nothing; the look-up is done with the job's own id, to
		// distinguish a lost lease from an unknown job.
		lease = job.Lease{Tenant: owner, Job: id}
	}
	if owner != tenant.Platform && lease.Tenant != owner {
		return job.Lease{}, store.ErrNotFound
	}
	return lease, nil
}

// endingFacts are the facts of a verdict when the holder ends its attempt; a requested cancel is
// one of them, whatever the holder reports.
func endingFacts(row *lockedRow, ending *Ending) job.Facts {
	facts := row.facts()
	facts.Permanent, facts.Delayed = ending.Permanent, ending.Delay > 0
	return facts
}
