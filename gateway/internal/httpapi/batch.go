package httpapi

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// submitBatch answers POST /v1/jobs/batch with an api.BatchResponse: 200, each
// job with a status of its own. With atomic, the first bad job's problem is the
// answer, and nothing is stored.
//
//	@Summary     Submit up to 1000 jobs
//	@Description Each job has a status of its own in `results`, in the order sent: some may be accepted and others refused. With `atomic` all are stored or none, and the first bad job's status and problem are the whole answer.
//	@Description
//	@Description A batch costs one request, and one job for each job in it. With an `Idempotency-Key` a repeat of the whole batch gets the first answer again. A body may have 8 MiB.
//	@ID          submitBatch
//	@Tags        Jobs
//	@Param       batch           body   api.BatchRequest true  "The jobs."
//	@Param       Idempotency-Key header string           false "1 to 255 visible ASCII characters, bare or quoted; remembered for a day."
//	@Success     200 {object} api.BatchResponse "An answer for each job."
//	@Header      200 {string} Idempotent-Replayed "`true` where the first answer is given again."
//	@x-access    "submit"
//	@x-problems  ["cost_above_burst", "active_cap_reached", "queue_full", "too_many_lanes"]
//	@x-example-basic  {"jobs": [{"type": "hash.sha256", "payload": {"text": "one"}}, {"type": "hash.sha256", "payload": {"text": "two"}}]}
//	@x-example-whole  {"jobs": [{"type": "hash.sha256", "payload": {"text": "all"}}, {"type": "hash.sha256", "payload": {"text": "or none"}}], "atomic": true}
//	@Router      /v1/jobs/batch [post]
func (s *Server) submitBatch(ctx context.Context, c *call, batch api.BatchRequest) (reply[api.HopSubmitResponse], error) {
	var nothing reply[api.HopSubmitResponse]
	if fields := batch.Validate(); len(fields) > 0 {
		return nothing, problem.Invalid(fields...)
	}
	request := api.HopSubmitRequest{Jobs: batch.Jobs, Batch: true, Atomic: batch.Atomic, Idempotency: c.idempotency}
	for range batch.Jobs {
		id, err := uuid.NewV7()
		if err != nil {
			return nothing, fmt.Errorf("draw a job id: %w", err)
		}
		request.IDs = append(request.IDs, id.String())
	}
	problems, refused := admitJobs(c, batch.Jobs)
	switch {
	case refused > 0 && batch.Atomic:
		return nothing, firstOf(problems)
	case refused == len(batch.Jobs) && c.idempotency == nil:
		return allRefused(problems) // nothing for core to store, or to know again
	case refused > 0:
		request.Problems = problems
	}
	brought := workOf(c, batch, problems)
	if err := s.limiter.Charge(ctx, &c.account, brought); err != nil {
		return nothing, err
	}
	answer, err := send[api.HopSubmitRequest, api.HopSubmitResponse](ctx, s, c, submitOp(c), request)
	if err != nil {
		s.limiter.NoteCaps(ctx, c.principal().Tenant, brought, err)
	}
	return answer, err
}

// workOf counts the jobs that go on to core.
func workOf(c *call, batch api.BatchRequest, problems []*problem.Problem) admission.Work {
	brought := admission.Submit(batch.Atomic, c.idempotency != nil)
	for i := range batch.Jobs {
		if problems[i] == nil {
			brought.Add(&batch.Jobs[i])
		}
	}
	return brought
}

// admitJobs judges each job for itself. What is refused does not travel: its
// place in jobs is emptied, its problem stands in the same place of problems.
func admitJobs(c *call, jobs []api.SubmitRequest) (problems []*problem.Problem, refused int) {
	problems = make([]*problem.Problem, len(jobs))
	for i := range jobs {
		p := admitJob(&jobs[i], c.principal(), fmt.Sprintf("jobs[%d].", i))
		if p == nil {
			continue
		}
		problems[i] = c.sign(p)
		jobs[i] = api.SubmitRequest{}
		refused++
	}
	return problems, refused
}

func firstOf(problems []*problem.Problem) error {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}

func allRefused(problems []*problem.Problem) (reply[api.HopSubmitResponse], error) {
	response := api.BatchResponse{Results: make([]api.BatchResult, len(problems)), Rejected: len(problems)}
	for i, p := range problems {
		response.Results[i] = api.BatchResult{Index: i, Status: p.Status, Problem: p}
	}
	text, err := encode(response)
	return reply[api.HopSubmitResponse]{value: text}, err
}
