package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/mask"
	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// handler serves a request: body is the signed one. An error is answered with its problem.
type handler func(ctx context.Context, body []byte) (response, error)

// response is what a handler returns.
type response struct {
	// status is a probe's; the response to a signed call is always sent with 200.
	status int
	// value is written as JSON, for owner; empty for several.
	value any
	owner string
	// hide, where not nil, hides what the principals must not see.
	hide func(context.Context, *Server)
	// unsent, where not nil, is called if the response does not leave this process.
	unsent func()
}

// defaultTimeout bounds a call whose gateway names no timeout, or a longer one.
const defaultTimeout = 30 * time.Second

// withTimeout bounds a call by the gateway's timeout.
func withTimeout(r *http.Request, wait time.Duration) (context.Context, context.CancelFunc) {
	timeout := defaultTimeout + wait
	// compared as milliseconds: as a Duration a huge number would be a negative one
	if ms, err := strconv.ParseInt(r.Header.Get(hop.TimeoutHeader), 10, 64); err == nil && ms > 0 && ms < timeout.Milliseconds() {
		timeout = time.Duration(ms) * time.Millisecond
	}
	return context.WithTimeout(r.Context(), timeout)
}

// adapt serves a signed call over HTTP.
func (s *Server) adapt(path string, serve handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx, cancel := withTimeout(c.Request, waitOf(path))
		defer cancel()
		made, err := serve(answers.Traced(ctx, s.Tracer, path), bodyOf(ctx))
		if err != nil {
			s.refuse(c, answers.Problem(ctx, err))
			return
		}
		if made.hide != nil {
			made.hide(ctx, s)
		}
		if made.unsent != nil && c.Request.Context().Err() != nil { // the gateway has hung up
			made.unsent()
			return
		}
		if err := s.write(c, path, made); err != nil && made.unsent != nil {
			made.unsent()
		}
	}
}

// probe serves a probe over HTTP.
func (s *Server) probe(serve handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		made, err := serve(c.Request.Context(), nil)
		if err != nil {
			s.refuse(c, answers.Problem(c.Request.Context(), err))
			return
		}
		c.JSON(made.status, made.value)
	}
}

// write sends a value with status 200; an error means that it did not leave this process.
func (s *Server) write(c *gin.Context, path string, made response) error {
	body, err := s.encode(c.Request.Context(), path, made)
	if err != nil {
		s.Logger.ErrorContext(c.Request.Context(), "an answer cannot be encoded", "error", err)
		s.refuse(c, problem.New(problem.Internal, "The answer cannot be encoded."))
		return err
	}
	header := c.Writer.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.Writer.WriteHeader(http.StatusOK)
	_, err = c.Writer.Write(body)
	return err
}

func (s *Server) encode(ctx context.Context, path string, made response) (body []byte, err error) {
	s.Processors.Run(ctx, seats.Work{Owner: made.owner, Operation: "encode", On: path}, func() { body, err = encode(made.value) })
	return body, err
}

// refuse sends a problem as the response to the whole request.
func (s *Server) refuse(c *gin.Context, p *problem.Problem) {
	p.Instance = c.Request.URL.Path
	p.Write(c.Writer)
	c.Abort()
}

// forOwner is the context of a call that its principal's tenant pays for, or a key without one.
func forOwner(ctx context.Context, operation string, p hop.Principal) context.Context {
	return store.WithWork(ctx, principals.Payer(p), operation)
}

// itemHandler serves one item of a call.
type itemHandler[Req, Resp any] func(context.Context, hop.Item[Req]) (Resp, error)

// each serves the items of a call one after the other.
func each[Req, Resp any](op hop.Op[Req, Resp], admit admitted[Req, Resp]) route {
	serve := admit(op.Access)
	return together(op, func(ctx context.Context, items []hop.Item[Req]) []hop.Result[Resp] {
		results := make([]hop.Result[Resp], len(items))
		for i := range items {
			ctx, span := answers.Span(forOwner(ctx, op.Path, items[i].Principal), &items[i])
			value, err := serve(audit.WithActor(ctx, principals.Actor(items[i].Principal)), items[i])
			results[i] = answers.Result(ctx, &items[i], &value, err)
			answers.EndSpan(span, &results[i])
		}
		return results
	})
}

// atOnce serves the items of a call side by side: each may wait.
func atOnce[Req, Resp any](op hop.Op[Req, Resp], admit admitted[Req, Resp]) route {
	serve := admit(op.Access)
	return together(op, func(ctx context.Context, items []hop.Item[Req]) []hop.Result[Resp] {
		results := make([]hop.Result[Resp], len(items))
		var group sync.WaitGroup
		for i := range items {
			group.Go(func() {
				ctx, span := answers.Span(forOwner(ctx, op.Path, items[i].Principal), &items[i])
				defer func() { answers.EndSpan(span, &results[i]) }()
				defer answers.Guard(ctx, &items[i], &results[i])
				value, err := serve(ctx, items[i])
				results[i] = answers.Result(ctx, &items[i], &value, err)
			})
		}
		group.Wait()
		return results
	})
}

// together serves all items of a call with one function.
func together[Req, Resp any](op hop.Op[Req, Resp], serve func(context.Context, []hop.Item[Req]) []hop.Result[Resp]) route {
	return route{op.Operation, func(ctx context.Context, body []byte) (response, error) {
		items, err := decodeItems[Req](ctx, body)
		if err != nil {
			return response{}, err
		}
		results := serve(ctx, items)
		return response{value: hop.Results[Resp]{Results: results}, owner: payer(items), hide: hiding(op.Access, items, results)}, nil
	}}
}

// untilSent serves all items of a call with one function, which also gives what to do if the response does not leave this process.
func untilSent[Req, Resp any](op hop.Op[Req, Resp], serve func(context.Context, []hop.Item[Req]) ([]hop.Result[Resp], func())) route {
	return route{op.Operation, func(ctx context.Context, body []byte) (response, error) {
		items, err := decodeItems[Req](ctx, body)
		if err != nil {
			return response{}, err
		}
		results, unsent := serve(ctx, items)
		return response{value: hop.Results[Resp]{Results: results}, owner: payer(items), hide: hiding(op.Access, items, results), unsent: unsent}, nil
	}}
}

// hiding masks the results of a call.
func hiding[Req, Resp any](access hop.Access, items []hop.Item[Req], results []hop.Result[Resp]) func(context.Context, *Server) {
	call := mask.Call[Req, Resp]{Access: access, Items: items, Results: results}
	return func(ctx context.Context, s *Server) {
		mask.Hide(ctx, s.Operations.Store.Masks, s.Processors, call, func(i int, err error) {
			results[i] = answers.Result[Req, Resp](ctx, &items[i], nil, err)
		})
	}
}

// payer is who pays for the answer to a call's items: the one whose item it is, nobody for several.
func payer[Req any](items []hop.Item[Req]) string {
	if len(items) != 1 {
		return ""
	}
	return principals.Payer(items[0].Principal)
}
