package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/explain"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// waitsPerCall bounds the statements of a call whose jobs have a max_wait_ms: one for each lane and priority of which
	// nothing is known from a moment ago. Of the others it is not known how long they would wait.
	waitsPerCall = 10
	// leastWaitRetry and mostWaitRetry bound when a job that would wait for too long may be tried again.
	leastWaitRetry = 100 * time.Millisecond
	mostWaitRetry  = time.Minute
)

// refuseLate finds the jobs of a call whose turn is likely to come later than they may wait. alone says that it would have
// to ask PostgreSQL in a shared call, and has done nothing. A call without max_wait_ms pays nothing.
func (d *Dispatcher) refuseLate(ctx context.Context, call *SubmitCall, lanes []lanes.Made) (alone bool) {
	var turns map[waitKey]explain.Turn
	reads := 0
	for i := range call.Jobs {
		request := &call.Jobs[i]
		if request.MaxWaitMS == nil || !call.startsInLine(i) || lanes[i].ID == 0 {
			continue
		}
		key := waitKey{lanes[i].ID, null.Or(request.Priority, api.DefaultPriority)}
		turn, known := turns[key]
		if settings := d.lanes.Settings(call.Tenant, lanes[i].Queue); d.heldBack(&settings) {
			continue
		}
		if !known {
			if turn, known = d.waits.get(key); !known {
				if call.Shared {
					return true
				}
				if reads++; reads > waitsPerCall {
					continue
				}
				turn = d.newTurn(ctx, &lanes[i].Lane, key.priority)
				d.waits.set(key, turn)
			}
		}
		if turns == nil {
			turns = map[waitKey]explain.Turn{}
		}
		if late := wouldWait(&turn, *request.MaxWaitMS); late != nil {
			if call.late == nil {
				call.late = make([]*problem.Problem, len(call.Jobs))
			}
			call.late[i] = late
		} else {
			turn.Ahead++
			d.waits.joined(key)
		}
		turns[key] = turn
	}
	return false
}

// startsInLine says whether a job is queued at once, if it is stored: not one that waits for its time or for others.
func (c *SubmitCall) startsInLine(i int) bool {
	request := &c.Jobs[i]
	return (c.Refused == nil || c.Refused[i] == nil) && request.RunAt == nil && null.Or(request.DelayMS, 0) == 0 &&
		len(request.After) == 0 && (c.Workflow == nil || len(c.Refs[i]) == 0)
}

// wouldWait is the refusal of a job that may wait for so long; nil for none.
func wouldWait(turn *explain.Turn, mostMS int64) *problem.Problem {
	likely := turn.AtLeastMS()
	if likely <= mostMS {
		return nil
	}
	retry := time.Duration(min(likely-mostMS, mostWaitRetry.Milliseconds())) * time.Millisecond
	retry = max(retry, leastWaitRetry)
	retry += rand.N(retry/10 + 1) //nolint:gosec // spreads load, guards nothing
	refusal := problem.New(problem.WouldWait, fmt.Sprintf(
		"The job's turn is likely to come in %d ms, and it may wait for %d: %d jobs are likely to start before it, %v in a second. Nothing was stored.",
		likely, mostMS, turn.Ahead, explain.Rounded(turn.PerSecond)))
	refusal.Policies = append(refusal.Policies, problem.Policy{Name: "wait", Limit: mostMS, Current: likely, RetryAfterMS: new(retry.Milliseconds())})
	return refusal.WithRetryAfter(retry)
}
