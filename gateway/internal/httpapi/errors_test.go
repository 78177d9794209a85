package httpapi

import (
	"errors"
	"fmt"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/memory"
)

// Every sentinel of the packages below has its errorMapping, wrapped or not.
func TestEverySentinelHasItsProblem(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]problem.Code{
		auth.ErrUnauthenticated:      problem.Unauthenticated,
		request.ErrIdempotencyKey:    problem.IdempotencyKeyInvalid,
		memory.ErrShare:              problem.Overloaded,
		memory.ErrFull:               problem.Overloaded,
		cellclient.ErrUnavailable:    problem.CoreUnavailable,
		cellclient.ErrOutcomeUnknown: problem.OutcomeUnknown,
		cellclient.ErrOverloaded:     problem.Overloaded,
		cellclient.ErrCutShort:       problem.CoreUnavailable,
		cellclient.ErrNoPlace:        problem.Overloaded,
		cellclient.ErrRefusesUs:      problem.CoreUnavailable,
		cellclient.ErrContract:       problem.Internal,
		errors.New("anything else"):  problem.Internal,
		fmt.Errorf("%w: %w", cellclient.ErrOutcomeUnknown, cellclient.ErrContract):                                        problem.OutcomeUnknown,
		&admission.RefusedError{Decision: &admission.Decision{Decision: bucket.Decision{Verdict: bucket.RateLimited}}}:    problem.RateLimited,
		&admission.RefusedError{Decision: &admission.Decision{Decision: bucket.Decision{Verdict: bucket.CostAboveBurst}}}: problem.CostAboveBurst,
		&admission.RefusedError{Decision: &admission.Decision{Decision: bucket.Decision{Verdict: bucket.CapReached}}}:     problem.ActiveCapReached,
		&admission.AddressRefusedError{Policy: admission.PolicyAddress}:                                                   problem.RateLimited,
		problem.New(problem.QueueFull, "full"):                                                                            problem.QueueFull,
	} {
		for _, given := range []error{err, fmt.Errorf("submit: %w", err)} {
			p := problemOf(given)
			if p.Code != want {
				t.Errorf("%v is %s, want %s", given, p.Code, want)
			}
			if p.Status == 503 && (p.RetryAfterMS == nil || *p.RetryAfterMS < 500 || *p.RetryAfterMS >= 1500) {
				t.Errorf("%v: retry after %v", given, p.RetryAfterMS)
			}
		}
	}
}

func TestEveryMeaningIsKnown(t *testing.T) {
	t.Parallel()
	for _, known := range errorMappings() {
		if !problem.Known(known.code) || known.detail == "" {
			t.Errorf("%v means %q, %q", known.err, known.code, known.detail)
		}
	}
}
