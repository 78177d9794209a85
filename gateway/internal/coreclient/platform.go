package coreclient

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A platform's workers serve the tenants of all cells. A claim waits in all of them; the lease tokens that they get name
// the cell, which heartbeats and outcomes go to.

// tokenMark is between the name of a cell and a lease token of it. The home cell's tokens have no name.
const tokenMark = "~"

// inSeveral makes the calls that are not of the cell of one tenant; is is false for all others.
func inSeveral[Req, Resp any](ctx context.Context, c *Client, of hop.Op[Req, Resp], how cellclient.How, item hop.Item[Req]) (answer hop.Result[Resp], is bool, err error) {
	if item.Principal.Kind == hop.PrincipalPlatform {
		switch item := any(item).(type) {
		case hop.Item[api.ClaimRequest]:
			answer, err = as[Resp](c.claimAnywhere(ctx, how, item))
			return answer, true, err
		case hop.Item[api.OutcomesRequest]:
			answer, err = as[Resp](c.reportAnywhere(ctx, how, item), nil)
			return answer, true, err
		case hop.Item[hop.AppendOutputRequest]:
			cell, token := c.ofToken(item.Request.Output.LeaseToken)
			item.Request.Output.LeaseToken = token
			answer, err = as[Resp](cellclient.Call(ctx, cell.Cell, hop.AppendOutput, how, item))
			return answer, true, err
		case hop.Item[hop.WorkerHeartbeat]:
			answer, err = as[Resp](c.beatEverywhere(ctx, item))
			return answer, true, err
		}
		switch of.Path {
		case hop.RegisterWorker.Path, hop.Leave.Path, hop.ListParents.Path:
			answer, err = bestOf(inCells(ctx, c.cells, nil, func(ctx context.Context, cell *oneCell) (hop.Result[Resp], error) {
				return cellclient.Call(ctx, cell.Cell, of, how, item)
			}), of.Path == hop.Leave.Path)
			return answer, true, err
		}
	}
	return merged(ctx, c, of, how, item)
}

// as is a result with the type that its caller asks for, which may be the encoded one.
func as[Resp, T any](result hop.Result[T], err error) (hop.Result[Resp], error) {
	if typed, is := any(result).(hop.Result[Resp]); is || err != nil {
		return typed, err
	}
	made := hop.Result[Resp]{Status: result.Status, Replayed: result.Replayed, Problem: result.Problem}
	if result.Value == nil {
		return made, nil
	}
	text, err := cellclient.Encode(result.Value)
	if err != nil {
		return made, err
	}
	made.Value = new(Resp)
	return made, cellclient.Read(text, made.Value)
}

// bestOf gives an answer with a value, or, where all must have one, the first without. A cell that does not answer is worse than one that
// has not found something: what is asked for may be there.
func bestOf[Resp any](answers []answerOf[hop.Result[Resp]], all bool) (best hop.Result[Resp], err error) {
	rank := func(one answerOf[hop.Result[Resp]]) int {
		switch {
		case one.err != nil:
			return 2
		case one.value.Problem == nil:
			if all {
				return 0
			}
			return 3
		case one.value.Problem.Status == http.StatusNotFound && !all:
			return 1
		}
		return 2
	}
	first := answers[0]
	for _, one := range answers[1:] {
		if rank(one) > rank(first) {
			first = one
		}
	}
	return first.value, first.err
}

// claimed is what a claim in one cell has brought.
type claimed struct {
	cell   *oneCell
	result hop.Result[api.ClaimResponse]
	err    error
}

func (c claimed) jobs() []api.ClaimedJob {
	if c.err != nil || c.result.Value == nil {
		return nil
	}
	return c.result.Value.Jobs
}

// claimAnywhere asks one cell after the other, and then waits in all of them.
func (c *Client) claimAnywhere(ctx context.Context, how cellclient.How, item hop.Item[api.ClaimRequest]) (hop.Result[api.ClaimResponse], error) {
	found := c.claimInTurn(ctx, item)
	refused := found.err == nil && found.result.Problem != nil && found.result.Problem.Status < http.StatusInternalServerError
	if how.Parked && len(found.jobs()) == 0 && !refused && ctx.Err() == nil {
		found = c.claimInAll(ctx, item)
	}
	jobs := found.jobs()
	for i := range jobs {
		jobs[i].LeaseToken = found.cell.named(jobs[i].LeaseToken, c)
	}
	return found.result, found.err
}

// claimInTurn asks one cell after the other, without waiting for jobs, and gives the first answer
// with jobs; otherwise one without, or a failure where no cell answered.
func (c *Client) claimInTurn(ctx context.Context, item hop.Item[api.ClaimRequest]) (best claimed) {
	item.Request.WaitMS = nil
	for _, cell := range c.turns.order(c.cells) {
		one := c.claimSoon(ctx, cell, item)
		if len(one.jobs()) > 0 || ctx.Err() != nil {
			return one
		}
		if best.cell == nil || best.err != nil && one.err == nil {
			best = one
		}
	}
	return best
}

// claimSoon asks one cell, within its patience. What it leases later is given back.
func (c *Client) claimSoon(ctx context.Context, cell *oneCell, item hop.Item[api.ClaimRequest]) claimed {
	answer := within(ctx, cell, func(ctx context.Context, cell *oneCell) (hop.Result[api.ClaimResponse], error) {
		return cellclient.Call(ctx, cell.Cell, hop.ClaimJobs, cellclient.How{}, item)
	}, func(late answerOf[hop.Result[api.ClaimResponse]]) {
		c.giveBack(ctx, claimed{cell, late.value, late.err}, item)
	})
	return claimed{cell, answer.value, answer.err}
}

// claimInAll waits in all cells for the first that has jobs. What another one leases meanwhile goes back
// at once. A cell that does not answer does not end the others' waiting.
func (c *Client) claimInAll(ctx context.Context, item hop.Item[api.ClaimRequest]) claimed {
	waiting, leave := context.WithCancel(ctx)
	answers := make(chan claimed, len(c.cells))
	for _, cell := range c.cells {
		go func() {
			result, err := cellclient.Call(waiting, cell.Cell, hop.ClaimJobs, cellclient.How{Parked: true}, item)
			answers <- claimed{cell, result, err}
		}()
	}
	var best claimed
	for left := len(c.cells); left > 0; left-- {
		one := <-answers
		if len(one.jobs()) > 0 {
			leave() // each of the others hears that it is to end
			go func() {
				for range left - 1 {
					c.giveBack(ctx, <-answers, item)
				}
			}()
			return one
		}
		if best.cell == nil || best.err != nil && one.err == nil {
			best = one
		}
	}
	leave()
	return best
}

// giveBackTime bounds the giving back of jobs that nobody waits for.
const giveBackTime = 10 * time.Second

// giveBack releases jobs: their attempts are not spent. If that fails the leases expire.
func (c *Client) giveBack(ctx context.Context, unwanted claimed, item hop.Item[api.ClaimRequest]) {
	jobs := unwanted.jobs()
	if len(jobs) == 0 {
		return
	}
	release := hop.Item[api.OutcomesRequest]{Principal: item.Principal, RequestID: item.RequestID, CorrelationID: item.CorrelationID}
	for i := range jobs {
		release.Request.Outcomes = append(release.Request.Outcomes, api.OutcomeRequest{JobID: jobs[i].ID, Kind: api.KindRelease, LeaseToken: jobs[i].LeaseToken})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	_, _ = cellclient.Call(ctx, unwanted.cell.Cell, hop.ReportOutcomes, cellclient.How{}, release) // see above
}

// named is a lease token with the name of its cell.
func (c *oneCell) named(token string, of *Client) string {
	if c == of.home() {
		return token
	}
	return c.Name() + tokenMark + token
}

// ofToken gives the cell that a lease token names, and the token as that cell knows it. One that names none is the home cell's to
// refuse.
func (c *Client) ofToken(token string) (*oneCell, string) {
	name, rest, marked := strings.Cut(token, tokenMark)
	if cell := c.named(name); marked && name != "" && cell != nil {
		return cell, rest
	}
	return c.home(), token
}

// reportAnywhere sends each outcome to the cell that its lease token names.
func (c *Client) reportAnywhere(ctx context.Context, how cellclient.How, item hop.Item[api.OutcomesRequest]) hop.Result[api.OutcomesResponse] {
	sent := item.Request.Outcomes
	parts, places := map[*oneCell][]api.OutcomeRequest{}, map[*oneCell][]int{}
	for i, outcome := range sent {
		var cell *oneCell
		cell, outcome.LeaseToken = c.ofToken(outcome.LeaseToken)
		parts[cell], places[cell] = append(parts[cell], outcome), append(places[cell], i)
	}
	answers := inCells(ctx, c.cells, func(cell *oneCell) bool { return len(parts[cell]) > 0 },
		func(ctx context.Context, cell *oneCell) (hop.Result[api.OutcomesResponse], error) {
			part := item
			part.Request.Outcomes = parts[cell]
			return cellclient.Call(ctx, cell.Cell, hop.ReportOutcomes, how, part)
		})
	made := api.OutcomesResponse{Results: make([]api.OutcomeResult, len(sent))}
	for _, answer := range answers {
		refused := answer.value.Problem
		if answer.err != nil {
			refused = asProblem(answer.err)
		} else if refused == nil && (answer.value.Value == nil || len(answer.value.Value.Results) != len(places[answer.cell])) {
			refused = problem.New(problem.Internal, "The request could not be served.")
		}
		for i, place := range places[answer.cell] {
			if refused != nil {
				made.Results[place] = api.OutcomeResult{Status: refused.Status, Problem: refused}
			} else {
				made.Results[place] = answer.value.Value.Results[i]
			}
			made.Results[place].Index = place
		}
	}
	return hop.Result[api.OutcomesResponse]{Status: http.StatusOK, Value: &made}
}

// asProblem is why a cell has no answer for a part of a call.
func asProblem(err error) *problem.Problem {
	if refused, is := problem.From(err); is {
		return refused
	}
	switch {
	case errors.Is(err, cellclient.ErrOutcomeUnknown), errors.Is(err, errLate):
		return problem.New(problem.OutcomeUnknown, "The outcome may or may not have taken effect. Repeat it unchanged.").WithRetryAfter(time.Second)
	case errors.Is(err, cellclient.ErrOverloaded):
		return problem.New(problem.Overloaded, "The gateway has more calls under way than it may. Nothing was changed; try again later.").WithRetryAfter(time.Second)
	}
	return problem.New(problem.CoreUnavailable, "The cell of the job cannot be reached. Nothing was changed; try again later.").WithRetryAfter(2 * time.Second)
}

// beatEverywhere extends leases, each in the cell that its token names, and is a sign of life in all cells. The leases of a
// cell that does not answer are told as they were, without a time: they are not extended, and whether
// they are lost is not known. The jobs in other cells must not suffer.
func (c *Client) beatEverywhere(ctx context.Context, item hop.Item[hop.WorkerHeartbeat]) (hop.Result[api.HeartbeatResponse], error) {
	leases := item.Request.Leases
	made := api.HeartbeatResponse{Leases: make([]api.LeaseStatus, len(leases))}
	parts, places := map[*oneCell][]api.Lease{}, map[*oneCell][]int{}
	for i, lease := range leases {
		made.Leases[i] = api.LeaseStatus{JobID: lease.JobID, Status: api.LeaseOK}
		var cell *oneCell
		cell, lease.LeaseToken = c.ofToken(lease.LeaseToken)
		parts[cell], places[cell] = append(parts[cell], lease), append(places[cell], i)
	}
	answers := inCells(ctx, c.cells, nil, func(ctx context.Context, cell *oneCell) (hop.Result[api.HeartbeatResponse], error) {
		part := item
		part.Request.Leases = append([]api.Lease{}, parts[cell]...)
		return cellclient.Call(ctx, cell.Cell, hop.Heartbeat, cellclient.How{}, part)
	})
	best, err := bestOf(answers, false)
	for _, answer := range answers {
		switch {
		case answer.err != nil:
			continue
		case answer.value.Problem != nil && len(parts[answer.cell]) > 0 && answer.value.Problem.Status < http.StatusInternalServerError:
			return answer.value, nil // such as worker_unknown: it is to register again, in all cells
		case answer.value.Problem != nil || answer.value.Value == nil || len(answer.value.Value.Leases) != len(parts[answer.cell]):
			continue
		}
		for i, place := range places[answer.cell] {
			made.Leases[place] = answer.value.Value.Leases[i]
		}
	}
	if err != nil || best.Problem != nil || best.Value == nil {
		return best, err
	}
	made.Status = best.Value.Status
	return hop.Result[api.HeartbeatResponse]{Status: http.StatusOK, Value: &made}, nil
}
