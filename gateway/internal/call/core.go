package call

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Core is core as calls ask it.
type Core struct {
	*coreclient.Client

	// Timeout is how long it may take, beyond what the caller asks to wait.
	Timeout time.Duration
}

// Send asks core on behalf of the call's principal. Core has the usual timeout
// and what the caller is ready to wait; when the caller leaves, the call ends.
func Send[Req, Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[Req, Resp], request Req) (Response[Resp], error) {
	return SendAs(ctx, core, c, op, cellclient.How{}, request)
}

// SendAs is send for a call that is parked, or shares its request.
func SendAs[Req, Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[Req, Resp], how cellclient.How, request Req) (Response[Resp], error) {
	ctx, cancel := context.WithTimeout(ctx, core.Timeout+c.Wait)
	defer cancel()
	how.Answer = c.Answer
	asked := time.Now()
	result, err := coreclient.Call(ctx, core.Client, op, how, hop.Item[Req]{
		Principal:     c.Principal(),
		RequestID:     c.RequestID,
		CorrelationID: c.CorrelationID,
		Traceparent:   c.Traceparent,
		Request:       request,
	})
	c.Spent.Core.Add(int64(time.Since(asked)))
	if err != nil {
		return Response[Resp]{}, err
	}
	if result.Problem != nil {
		return Response[Resp]{}, UniformNotFound(result.Problem)
	}
	answer := Response[Resp]{Status: result.Status, Replayed: result.Replayed}
	if result.Value != nil {
		answer.Value = *result.Value
	} else if _, nothing := any(answer.Value).(None); !nothing {
		return Response[Resp]{}, fmt.Errorf("%w: status %d without a value", cellclient.ErrContract, result.Status)
	}
	return answer, nil
}

// UniformNotFound is core's refusal as the caller gets it. A not_found has the same text
// from gateway and core: otherwise it would distinguish a malformed id from an unknown
// one, and an unknown one from another tenant's.
func UniformNotFound(p *problem.Problem) *problem.Problem {
	if p.Code == problem.NotFound {
		return ErrNoSuchID
	}
	if p.Code == problem.WorkerUnknown {
		return errNoSuchWorker
	}
	return p
}

// ErrMissingItems is for an answer of core's without a result for each item.
func ErrMissingItems(got, want int) error {
	return fmt.Errorf("%w: %d answers to %d items", cellclient.ErrContract, got, want)
}

// Pass asks core, and passes the answer on undecoded.
func Pass[Req, Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[Req, Resp], request Req) (Passed, error) {
	return Send(ctx, core, c, hop.Raw(op), request)
}

// ByID asks core about what the path's {id} names.
func ByID[Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[hop.ID, Resp]) (Passed, error) {
	id, err := c.ID()
	if err != nil {
		return Passed{}, err
	}
	return Pass(ctx, core, c, op, hop.ID{ID: id})
}

// ByName asks core about what the path's {name} names.
func ByName[Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[hop.Name, Resp]) (Passed, error) {
	name, err := c.Name()
	if err != nil {
		return Passed{}, err
	}
	return Pass(ctx, core, c, op, hop.Name{Name: name})
}

// validated is a request's body.
type validated[T any] interface {
	*T
	Validate() []problem.FieldError
}

// Put sends core the body of what the path's {name} names.
func Put[Req, Resp any, Body validated[Req]](ctx context.Context, core *Core, c *Call, op hop.Op[hop.Put[Req], Resp], r Req) (Passed, error) {
	name, err := c.Name()
	if err != nil {
		return Passed{}, err
	}
	if fields := Body(&r).Validate(); len(fields) > 0 {
		return Passed{}, problem.Invalid(fields...)
	}
	return Pass(ctx, core, c, op, hop.Put[Req]{Name: name, Value: r})
}

// Pause has core pause or resume what the path's {name} names.
func Pause[Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[hop.Pause, Resp], paused bool) (Passed, error) {
	name, err := c.Name()
	if err != nil {
		return Passed{}, err
	}
	return Pass(ctx, core, c, op, hop.Pause{Name: name, Paused: paused})
}

// Filtered asks core for a page of what matches the filter that read takes from the query.
func Filtered[Filter, Resp any](
	ctx context.Context, core *Core, c *Call, op hop.Op[hop.Filtered[Filter], Resp], read func(*request.Query) Filter,
) (Passed, error) {
	q := request.NewQuery(c.Query)
	asked := hop.Filtered[Filter]{PageRequest: q.Page(), Filter: read(q)}
	if err := q.Err(); err != nil {
		return Passed{}, err
	}
	return Pass(ctx, core, c, op, asked)
}

// Paged asks core for a page of a list.
func Paged[Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[hop.PageRequest, Resp]) (Passed, error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Passed{}, err
	}
	return Pass(ctx, core, c, op, page)
}

// PageFor asks core for a page of what belongs to the thing that the path names; name reads it.
func PageFor[Resp any](ctx context.Context, core *Core, c *Call, op hop.Op[hop.PageFor, Resp], name func() (string, error)) (Passed, error) {
	thing, err := name()
	if err != nil {
		return Passed{}, err
	}
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Passed{}, err
	}
	return Pass(ctx, core, c, op, hop.PageFor{For: thing, PageRequest: page})
}

// Accepted is an answer with status 202.
func Accepted[T any](answer Response[T], err error) (Response[T], error) {
	answer.Status = http.StatusAccepted
	return answer, err
}

// NoContent is an answer with status 204.
func NoContent(_ Passed, err error) (Response[None], error) {
	return Response[None]{Status: http.StatusNoContent}, err
}
