package handlers

import (
	"context"
	"fmt"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/hop"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// send asks core on behalf of the call's principal. Core has the usual timeout
// and what the caller is ready to wait; when the caller leaves, the call ends.
func send[Req, Resp any](ctx context.Context, h *Handlers, c *Call, op hop.Op[Req, Resp], request Req) (Response[Resp], error) {
	return sendAs(ctx, h, c, op, coreclient.How{}, request)
}

// sendAs is send for a call that is parked, or shares its request.
func sendAs[Req, Resp any](ctx context.Context, h *Handlers, c *Call, op hop.Op[Req, Resp], how coreclient.How, request Req) (Response[Resp], error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout+c.wait)
	defer cancel()
	result, err := coreclient.Call(ctx, h.core, op, how, hop.Item[Req]{
		Principal:     c.Principal(),
		RequestID:     c.RequestID,
		CorrelationID: c.CorrelationID,
		Traceparent:   c.Traceparent,
		Request:       request,
	})
	if err != nil {
		return Response[Resp]{}, err
	}
	if result.Problem != nil {
		return Response[Resp]{}, uniformNotFound(result.Problem)
	}
	answer := Response[Resp]{Status: result.Status, Replayed: result.Replayed}
	if result.Value != nil {
		answer.Value = *result.Value
	} else if _, nothing := any(answer.Value).(None); !nothing {
		return Response[Resp]{}, fmt.Errorf("%w: status %d without a value", coreclient.ErrContract, result.Status)
	}
	return answer, nil
}

// uniformNotFound is core's refusal as the caller gets it. A not_found has the same text
// from gateway and core: otherwise it would distinguish a malformed id from an unknown
// one, and an unknown one from another tenant's.
func uniformNotFound(p *problem.Problem) *problem.Problem {
	if p.Code == problem.NotFound {
		return ErrNoSuchID
	}
	if p.Code == problem.WorkerUnknown {
		return errNoSuchWorker
	}
	return p
}

// errMissingItems is for an answer of core's without a result for each item.
func errMissingItems(got, want int) error {
	return fmt.Errorf("%w: %d answers to %d items", coreclient.ErrContract, got, want)
}
