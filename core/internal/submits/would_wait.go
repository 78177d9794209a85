package submits

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/explain"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// waitsPerCall bounds the statements of a call whose jobs have a max_wait_ms: one for each lane and priority of which
	// nothing is known from a moment ago. Of the others it is not known how long they would wait.
	waitsPerCall = 10
)

// refuseLate finds the jobs of a call whose turn is likely to come later than they may wait. alone says that it would have
// to ask PostgreSQL in a shared call, and has done nothing. A call without max_wait_ms pays nothing.
func (s *Submits) refuseLate(ctx context.Context, call *Call, lanes []lanes.Made) (alone bool) {
	var turns map[explain.LineKey]explain.Turn
	reads := 0
	for i := range call.Jobs {
		request := &call.Jobs[i]
		if request.MaxWaitMS == nil || !call.startsInLine(i) || lanes[i].ID == 0 {
			continue
		}
		key := explain.LineOf(&lanes[i].Lane, store.OrElse(request.Priority, api.DefaultPriority), keyOf(request, s.costsOf(call.Tenant, request)))
		turn, known := turns[key]
		if settings := s.cached.Lanes.Settings(call.Tenant, lanes[i].Queue); s.cached.HeldBack(&settings) {
			continue
		}
		if !known {
			if turn, known = s.explainer.TurnOf(key); !known {
				if call.Shared {
					return true
				}
				if reads++; reads > waitsPerCall {
					continue
				}
				turn = s.explainer.ReadTurn(ctx, &lanes[i].Lane, key)
			}
		}
		if turns == nil {
			turns = map[explain.LineKey]explain.Turn{}
		}
		if late := turn.WouldWait(*request.MaxWaitMS); late != nil {
			if call.late == nil {
				call.late = make([]*problem.Problem, len(call.Jobs))
			}
			call.late[i] = late
		} else {
			turn.Ahead++
			s.explainer.Joined(key)
		}
		turns[key] = turn
	}
	return false
}

// startsInLine says whether a job is queued at once, if it is stored: not one that waits for its time or for others.
func (c *Call) startsInLine(i int) bool {
	request := &c.Jobs[i]
	return (c.Refused == nil || c.Refused[i] == nil) && request.RunAt == nil && store.OrElse(request.DelayMS, 0) == 0 &&
		len(request.After) == 0 && (c.Workflow == nil || len(c.Refs[i]) == 0)
}
