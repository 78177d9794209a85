package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// bodyFactor is how many bytes of memory a call takes for each byte of its body: the
// body, what is decoded from it, and that as a statement's arguments.
const bodyFactor = 3

// NewBodies makes the budget for the memory of calls' bodies: most bytes for all,
// three quarters of them for one route. The last fifth is not for submits.
func NewBodies(most int64) *memory.Budget {
	return memory.NewBudget(memory.Options{Most: most, Share: most / 4 * 3, Factor: bodyFactor})
}

type bodyKey struct{}

// sender is whose call it is, for whom it is decoded.
type sender struct {
	processors  *seats.Seats
	owner, path string
}

type senderKey struct{}

func senderOf(ctx context.Context) sender {
	by, _ := ctx.Value(senderKey{}).(sender)
	return by
}

// bodyOf gives the verified body of a call.
func bodyOf(ctx context.Context) []byte {
	body, _ := ctx.Value(bodyKey{}).([]byte)
	return body
}

// verify lets only signed requests through. The size of the body is bounded before it is
// read, and its signature is verified before it is decoded.
func (s *Server) verify(c *gin.Context) {
	if c.GetHeader(identity.Header) == "" { // refused without reading the body
		s.refuse(c, problem.New(problem.Unauthenticated, "Only signed requests are answered."))
		return
	}
	held := s.Bodies.Hold(c.Request.URL.Path, c.Request.URL.Path != s.Cell.Prefix+hop.SubmitJobs.Path)
	defer held.Release()
	body, err := held.Read(nil, http.MaxBytesReader(c.Writer, c.Request.Body, hop.MaxBody), c.Request.ContentLength)
	if err != nil {
		s.refuse(c, unread(err))
		return
	}
	now := clock.Now()
	switch err := s.Verifier.Verify(c.GetHeader(identity.Header), c.Request.Method, c.Request.URL.Path, body, now); {
	case errors.Is(err, identity.ErrReplayed):
		s.Logger.WarnContext(c.Request.Context(), "a signed call came twice and was refused the second time", "path", c.Request.URL.Path)
		s.refuse(c, taken())
	case errors.Is(err, identity.ErrExpired):
		s.expired.Inc()
		c.Header(identity.TimeHeader, strconv.FormatInt(now.UnixMicro(), 10)) // for the gateway, which signs again
		s.refuse(c, problem.New(problem.AssertionExpired, "The signature's time is too far from core's; the answer carries core's."))
	case err != nil:
		s.refuse(c, problem.New(problem.Unauthenticated, "Only signed requests are answered."))
	default:
		ctx := answers.WithLogger(c.Request.Context(), s.Logger)
		ctx = context.WithValue(ctx, senderKey{}, sender{s.Processors, c.GetHeader(hop.OwnerHeader), strings.TrimPrefix(c.Request.URL.Path, s.Cell.Prefix)})
		c.Request = c.Request.WithContext(context.WithValue(ctx, bodyKey{}, body))
		c.Next() // here, so that the memory counts until the answer is written
	}
}

// taken refuses a call whose signature was accepted before. The answer does not carry core's
// time, so the gateway does not sign the call again: the first copy may have been served.
func taken() *problem.Problem {
	return &problem.Problem{
		Type: "about:blank", Title: "The signed call was taken before", Status: http.StatusConflict,
		Detail: "A call with this signature was taken before; what became of it is not said here.",
		Code:   identity.TakenCode, Errors: []problem.FieldError{}, Policies: []problem.Policy{},
	}
}

// unread says why a body was not read to its end.
func unread(err error) *problem.Problem {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return problem.New(problem.PayloadTooLarge, "An internal call may have 64 MiB.")
	case errors.Is(err, memory.ErrFull), errors.Is(err, memory.ErrShare):
		return problem.New(problem.Overloaded, "The memory for request bodies is used up. Nothing was changed; try again later.").WithRetryAfter(time.Second)
	}
	return problem.New(problem.InvalidRequest, "The body is incomplete.")
}
