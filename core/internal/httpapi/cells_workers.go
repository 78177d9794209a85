package httpapi

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// workerRoutes serve a platform's workers, whose jobs are in all cells; a tenant's worker asks its cell.
func (d *Divider) workerRoutes() map[string]handler {
	return table(
		route{hop.ClaimJobs.Path, d.claimAnywhere},
		forPlatform(d, hop.ReportOutcomes, d.reportAnywhere),
		forPlatform(d, hop.Heartbeat, d.beatEverywhere),
		forPlatform(d, hop.RegisterWorker, d.registerEverywhere),
		forPlatform(d, hop.Leave, d.leaveEverywhere),
		forPlatform(d, hop.ListParents, d.parentsAnywhere),
	)
}

// forPlatform serves a platform's items with serve, side by side. A call without any is divided.
func forPlatform[Req, Resp any](d *Divider, op hop.Op[Req, Resp], serve func(context.Context, hop.Item[Req]) hop.Result[Resp]) route {
	byTenant := d.byTenant(op.Path)
	side := atOnceResults(op, func(ctx context.Context, item hop.Item[Req]) hop.Result[Resp] {
		if item.Principal.Kind == hop.PrincipalPlatform {
			return serve(ctx, item)
		}
		cell, err := d.cellOf(ctx, item.Principal)
		if err != nil {
			return result[Req, Resp](ctx, &item, nil, err)
		}
		answer, _ := single(ctx, d, cell, op, item)
		return answer
	})
	return route{op.Path, func(ctx context.Context, body []byte) (response, error) {
		items, err := decodeItems[struct{}](body)
		if err != nil || !hasPlatform(items) {
			return byTenant(ctx, body)
		}
		return side.serve(ctx, body)
	}}
}

// inAll asks all cells, and gives the answers by cell.
func inAll[Req, Resp any](ctx context.Context, d *Divider, op hop.Op[Req, Resp], of func(cell int) hop.Item[Req]) []hop.Result[Resp] {
	answers := make([]hop.Result[Resp], len(d.Cells))
	eachCell(d, func(cell int) {
		answers[cell], _ = single(ctx, d, cell, op, of(cell))
	})
	return answers
}

// bestOf gives the first answer without a problem, or the first problem.
func bestOf[Resp any](answers []hop.Result[Resp]) hop.Result[Resp] {
	for i := range answers {
		if answers[i].Problem == nil {
			return answers[i]
		}
	}
	return answers[0]
}

func (d *Divider) registerEverywhere(ctx context.Context, item hop.Item[api.WorkerRequest]) hop.Result[api.Worker] {
	// A cell that does not answer now has the worker's row with its next claim there.
	return bestOf(inAll(ctx, d, hop.RegisterWorker, func(int) hop.Item[api.WorkerRequest] { return item }))
}

func (d *Divider) leaveEverywhere(ctx context.Context, item hop.Item[hop.ID]) hop.Result[struct{}] {
	answers := inAll(ctx, d, hop.Leave, func(int) hop.Item[hop.ID] { return item })
	for i := range answers {
		if answers[i].Problem != nil { // its leases there are not given back: the call may be repeated
			return answers[i]
		}
	}
	return answers[0]
}

// parentsAnywhere finds the cell of a job that a platform's worker holds.
func (d *Divider) parentsAnywhere(ctx context.Context, item hop.Item[hop.PageFor]) hop.Result[api.Page[api.JobParent]] {
	answers := inAll(ctx, d, hop.ListParents, func(int) hop.Item[hop.PageFor] { return item })
	for i := range answers {
		if answers[i].Problem == nil {
			return answers[i]
		}
	}
	for i := range answers { // where a cell does not answer, the job may be there
		if answers[i].Status != http.StatusNotFound {
			return answers[i]
		}
	}
	return answers[0]
}

// leaseCell gives the cell of a lease: its token names the tenant. A token that is none is any cell's
// to refuse.
func (d *Divider) leaseCell(ctx context.Context, token string) (int, error) {
	lease, err := job.ParseToken(token)
	if err != nil {
		return 0, nil //nolint:nilerr // see above
	}
	return d.cellOfTenant(ctx, lease.Tenant)
}

// reportAnywhere sends each outcome to the cell of its lease.
func (d *Divider) reportAnywhere(ctx context.Context, item hop.Item[api.OutcomesRequest]) hop.Result[api.OutcomesResponse] {
	sent := item.Request.Outcomes
	if len(sent) == 0 || len(sent) > api.MaxOutcomes {
		answer, _ := single(ctx, d, 0, hop.ReportOutcomes, item)
		return answer
	}
	made := api.OutcomesResponse{Results: make([]api.OutcomeResult, len(sent))}
	parts := make([][]int, len(d.Cells))
	for i := range sent {
		cell, err := d.leaseCell(ctx, sent[i].LeaseToken)
		if err != nil {
			made.Results[i] = outcomeResult(ctx, i, nil, err)
			continue
		}
		parts[cell] = append(parts[cell], i)
	}
	eachCell(d, func(cell int) {
		places := parts[cell]
		if len(places) == 0 {
			return
		}
		part := item
		part.Request.Outcomes = make([]api.OutcomeRequest, len(places))
		for i, place := range places {
			part.Request.Outcomes[i] = sent[place]
		}
		answer, _ := single(ctx, d, cell, hop.ReportOutcomes, part)
		for i, place := range places {
			if answer.Problem != nil || answer.Value == nil || len(answer.Value.Results) != len(places) {
				made.Results[place] = refusedOutcome(place, answer.Problem)
				continue
			}
			made.Results[place] = answer.Value.Results[i]
			made.Results[place].Index = place
		}
	})
	return hop.Result[api.OutcomesResponse]{Status: http.StatusOK, Value: &made}
}

func refusedOutcome(index int, p *problem.Problem) api.OutcomeResult {
	if p == nil {
		p = problem.New(problem.Internal, "The request could not be served.")
	}
	return api.OutcomeResult{Index: index, Status: p.Status, Problem: p}
}

// beatEverywhere extends leases, each in its cell, and is a sign of life in all cells. The leases of a
// cell that does not answer are told as they were, without a time: they are not extended, and whether
// they are lost is not known. The jobs in other cells must not suffer.
func (d *Divider) beatEverywhere(ctx context.Context, item hop.Item[hop.WorkerHeartbeat]) hop.Result[api.HeartbeatResponse] {
	made := api.HeartbeatResponse{Leases: make([]api.LeaseStatus, len(item.Request.Leases))}
	parts := make([][]int, len(d.Cells))
	for i, lease := range item.Request.Leases {
		made.Leases[i] = api.LeaseStatus{JobID: lease.JobID, Status: api.LeaseOK}
		if cell, err := d.leaseCell(ctx, lease.LeaseToken); err == nil {
			parts[cell] = append(parts[cell], i)
		}
	}
	answers := inAll(ctx, d, hop.Heartbeat, func(cell int) hop.Item[hop.WorkerHeartbeat] {
		part := item
		part.Request.Leases = make([]api.Lease, len(parts[cell]))
		for i, place := range parts[cell] {
			part.Request.Leases[i] = item.Request.Leases[place]
		}
		return part
	})
	best := bestOf(answers)
	for cell := range answers {
		answer := &answers[cell]
		switch {
		case answer.Problem != nil && len(parts[cell]) > 0 && answer.Status < http.StatusInternalServerError:
			return *answer // such as worker_unknown: it is to register again, in all cells
		case answer.Problem != nil || answer.Value == nil || len(answer.Value.Leases) != len(parts[cell]):
			continue
		}
		for i, place := range parts[cell] {
			made.Leases[place] = answer.Value.Leases[i]
		}
	}
	if best.Problem != nil {
		return best
	}
	made.Status = best.Value.Status
	return hop.Result[api.HeartbeatResponse]{Status: http.StatusOK, Value: &made}
}
