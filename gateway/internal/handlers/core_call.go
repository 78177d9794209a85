package handlers

import (
	"context"
	"fmt"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
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

// byID asks core about what the path's {id} names.
func byID[Resp any](ctx context.Context, h *Handlers, c *Call, op hop.Op[hop.ID, Resp]) (Response[Resp], error) {
	id, err := c.id()
	if err != nil {
		return Response[Resp]{}, err
	}
	return send(ctx, h, c, op, hop.ID{ID: id})
}

// byName asks core about what the path's {name} names.
func byName[Resp any](ctx context.Context, h *Handlers, c *Call, op hop.Op[hop.Name, Resp]) (Response[Resp], error) {
	name, err := c.name()
	if err != nil {
		return Response[Resp]{}, err
	}
	return send(ctx, h, c, op, hop.Name{Name: name})
}

// paged asks core for a page of a list.
func paged[Resp any](ctx context.Context, h *Handlers, c *Call, op hop.Op[hop.PageRequest, Resp]) (Response[Resp], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[Resp]{}, err
	}
	return send(ctx, h, c, op, page)
}

// pageFor asks core for a page of what belongs to the thing that the path names; name reads it.
func pageFor[Resp any](ctx context.Context, h *Handlers, c *Call, op hop.Op[hop.PageFor, Resp], name func() (string, error)) (Response[Resp], error) {
	thing, err := name()
	if err != nil {
		return Response[Resp]{}, err
	}
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[Resp]{}, err
	}
	return send(ctx, h, c, op, hop.PageFor{For: thing, PageRequest: page})
}

// accepted is an answer with status 202.
func accepted[T any](answer Response[T], err error) (Response[T], error) {
	answer.Status = http.StatusAccepted
	return answer, err
}

// noContent is an answer with status 204.
func noContent(_ Response[None], err error) (Response[None], error) {
	return Response[None]{Status: http.StatusNoContent}, err
}
