package submits

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// Chain ends an attempt by a complete or a wait, stores the jobs of the call and sends the signals, in one transaction: all of it, or
// nothing. Where a job or a signal is refused, so is the outcome, with the refusal, and the lease stays. A repeat gets the first answer,
// with the ids of then. The call is of the job's tenant; signals of the user's jobs only, where one is named.
func (s *Submits) Chain(ctx context.Context, ending jobs.Ending, call Call, signals []jobs.ChainSignal, user string) jobs.Ended {
	call.Batch = true // not atomic: each job has its own refusal, and the first one rolls all of it back
	calls, answers := []Call{call}, make([]Answer, 1)
	s.judgeCosts(ctx, calls, answers)
	lanes := s.lanesOf(ctx, calls, answers)
	if err := answers[0].Err; err != nil {
		if again := s.store.Jobs.AnswerUnheld(ctx, &ending); again.Replayed { // it was accepted then
			return again
		}
		return jobs.Ended{Err: err}
	}
	s.refuseLate(ctx, &calls[0], lanes[0])
	submission := s.submission(&calls[0], lanes[0])
	chain := jobs.Chain{Signals: signals, User: user}
	for _, id := range call.IDs {
		chain.Submitted = append(chain.Submitted, id.String())
	}
	made, stored, err := s.store.Submits.Chain(ctx, s.store.Jobs, &ending, &submission, chain)
	if err != nil {
		return jobs.Ended{Err: err}
	}
	if made == nil {
		return s.store.Jobs.AnswerUnheld(ctx, &ending)
	}
	made.Committed()
	s.publisher.Publish(ctx, publish.Changes{Endings: []jobs.Ending{ending}, Ended: []jobs.Ended{made.Ended}, Stored: []submit.Answer{stored}, Promoted: made.Woken})
	return made.Ended
}
