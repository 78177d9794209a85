package httpapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/memory"
)

// errorMapping is what an error of another package is to the caller.
type errorMapping struct {
	err    error
	code   problem.Code
	detail string
}

// errorMappings is the one table from errors to problems. A *problem.Problem is used as
// it is; an error that is not here is internal.
func errorMappings() []errorMapping {
	return []errorMapping{
		{errEventsToken, problem.Unauthenticated, "The events token is not valid for this job, or has expired; make a new one with POST /v1/jobs/{id}/events-token."},
		{errSignalLink, problem.Unauthenticated, "The link is not valid, or no longer: it has expired, or the key that made it was revoked. Ask for a new one."},
		{auth.ErrNoTenant, problem.Forbidden, "The tenant does not exist, or was deleted."},
		{auth.ErrUnauthenticated, problem.Unauthenticated, "Send a valid API key as Authorization: Bearer <key>."},
		{request.ErrIdempotencyKey, problem.IdempotencyKeyInvalid, "Idempotency-Key must be one quoted or bare string of 1 to 255 visible ASCII characters."},
		{memory.ErrShare, problem.Overloaded, "Your tenant's requests in flight use all the memory that is allowed for their bodies and answers. Nothing was changed; read the answers, or ask for less at once."},
		{memory.ErrFull, problem.Overloaded, "The memory for bodies and answers is used up. Nothing was changed; try again later."},
		{cellclient.ErrOutcomeUnknown, problem.OutcomeUnknown, "The request was sent to core, but no answer came back: it may or may not have taken effect. Repeat it with the same Idempotency-Key, or read the resource before you try again."},
		{cellclient.ErrUnavailable, problem.CoreUnavailable, "Core cannot be reached. Nothing was changed; try again."},
		{cellclient.ErrOverloaded, problem.Overloaded, "The gateway has too many requests in flight. Nothing was changed; try again later."},
		{cellclient.ErrCutShort, problem.CoreUnavailable, "This gateway is shutting down. Nothing was changed; try again."},
		{cellclient.ErrNoPlace, problem.Overloaded, "The gateway has too many requests in flight. Nothing was changed; try again later."},
		{jobtype.ErrBusy, problem.Overloaded, "Checks against your job types take too long. Nothing was changed. Try again later, or make the schemas simpler."},
		{cellclient.ErrRefusesUs, problem.CoreUnavailable, "Core cannot be reached. Nothing was changed; try again."},
	}
}

// errEventsToken is auth.ErrUnauthenticated of a token in the query.
var errEventsToken = fmt.Errorf("%w: events token", auth.ErrUnauthenticated)

// errSignalLink is auth.ErrUnauthenticated of a link that sends a signal.
var errSignalLink = fmt.Errorf("%w: signal link", auth.ErrUnauthenticated)

// internalDetail shows nothing of the error: the log has it, under the request id.
const internalDetail = "The server failed unexpectedly. Its log has the cause, with this request_id."

// problemOf gives the problem that err is to the caller.
func problemOf(err error) *problem.Problem {
	if p, ok := problem.From(err); ok {
		return p
	}
	if p, ok := refusalOf(err); ok {
		return p
	}
	for _, known := range errorMappings() {
		if !errors.Is(err, known.err) {
			continue
		}
		p := problem.New(known.code, known.detail)
		if p.Status == 503 {
			p = p.WithRetryAfter(retryAfter())
		}
		return p
	}
	return problem.New(problem.Internal, internalDetail)
}

// retryAfter is 0.5 to 1.5 s, so that the callers of a core that was down do not
// all return at once.
func retryAfter() time.Duration {
	return 500*time.Millisecond + rand.N(time.Second) //nolint:gosec // jitter needs no secrecy
}
