package answers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/keys"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

// sentinel is how a caller sees one of core's errors.
type sentinel struct {
	err    error
	code   problem.Code
	detail string
	// wait, if not zero, is about how long to wait before another try.
	wait time.Duration
}

// sentinels is the one table between core's errors and the wire's codes.
func sentinels() []sentinel {
	return []sentinel{
		{store.ErrNotFound, problem.NotFound, "There is no such resource.", 0},
		{jobs.ErrLeaseLost, problem.LeaseLost, "The lease is lost: it expired and was taken back, its worker deregistered, or the job has ended. Stop working on the job.", 0},
		{jobs.ErrOutcomeConflict, problem.OutcomeConflict, "A different outcome was already recorded for this lease; the first outcome stands.", 0},
		{workers.ErrUnknown, problem.WorkerUnknown, "The worker is not registered, or is DEAD. Register it again with POST /v1/workers.", 0},
		{submit.ErrIdempotencyInFlight, problem.IdempotencyInFlight, "The first request with this Idempotency-Key has not ended yet. Repeat this one to get its answer.", time.Second},
		{keys.ErrExpiryPast, problem.InvalidRequest, "expires_at must be in the future.", 0},
		{tenants.ErrDeleted, problem.Forbidden, "The tenant is deleted, or is being deleted.", 0},
		{keys.ErrNotAdmin, problem.Forbidden, "The key that asks was revoked, has expired, or lacks the scope admin.", 0},
		{keys.ErrOwnKey, problem.Forbidden, "A key cannot revoke itself. Use another key with the scope admin, or ask the operator.", 0},
		{keys.ErrTooMany, problem.InvalidRequest, "The tenant has 10000 valid keys, which is the maximum. Revoke some first.", 0},
		{lanes.ErrTooMany, problem.TooManyLanes, "A tenant may use at most 10000 combinations of queue, type and tags at a time.", 0},
		{queues.ErrTooMany, problem.TooManyLanes, "A tenant may have at most 1000 queues. Use an existing queue.", 0},
		{workers.ErrTooMany, problem.RateLimited, "At most 10000 workers that are not DEAD are allowed, and this limit is reached. Deregister some, or wait: a worker is DEAD two minutes after its last heartbeat.", time.Minute},
		{tenants.ErrUnknownPlan, problem.InvalidRequest, "There is no plan with this name. Create the plan first, or name one that exists.", 0},
		{jobs.ErrTerminal, problem.JobTerminal, "The job has already ended: it can be neither cancelled nor signalled.", 0},
		{amend.ErrStarted, problem.JobStarted, "The job is running, or has ended: only a job that waits can be changed. Nothing was changed. Run an ended job again with changes by POST /v1/jobs/{id}/rerun.", 0},
		{amend.ErrPrecondition, problem.PreconditionFailed, "The job is not the version that If-Match names. Nothing was changed; read it again.", 0},
		{amend.ErrUnlike, problem.Overloaded, "The job was changed by other requests at the same time. Try again.", time.Second},
		{jobs.ErrTooManySignals, problem.InvalidRequest, "The job has signals of 100 names, which is the maximum.", 0},
		{jobs.ErrLive, problem.JobLive, "The job has not ended. Cancel it, or wait until it ends.", 0},
		{deadletter.ErrNotDead, problem.NotDead, "Only a dead letter can be redriven or discarded, and this job is not a dead letter.", 0},
		{deadletter.ErrDedupeConflict, problem.DedupeConflict, "A live job has the same dedupe_key. Wait until it has ended, or cancel it.", 0},
		{store.ErrPageToken, problem.InvalidRequest, "The page_token is not valid for this list and filter.", 0},
		{deadletter.ErrTooManyUserRedrives, problem.RateLimited, "The user has 8 unfinished redrives, or the tenant 16, which is the maximum. Wait until one has ended, or cancel one.", 5 * time.Second},
		{deadletter.ErrTooManyRedrives, problem.RateLimited, "The tenant has 16 unfinished redrives, which is the maximum. Wait until one has ended, or cancel one.", 5 * time.Second},
		{schedule.ErrTooManyUserSchedules, problem.InvalidRequest, "The user has 5000 schedules, which is the maximum for one user of a tenant. Delete some first.", 0},
		{schedule.ErrTooManySchedules, problem.InvalidRequest, "The tenant has 10000 schedules, which is the maximum. Delete some first.", 0},
		{schedule.ErrChanged, problem.Overloaded, "The schedule was changed by other requests at the same time. Try again.", time.Second},
		{jobtypes.ErrTooManyTypes, problem.InvalidRequest, "The tenant has 500 job types, which is the maximum. Delete some first. Those with sensitive fields count after their deletion too.", 0},
		{jobtypes.ErrTooLarge, problem.InvalidRequest, "The schemas and examples of the tenant's job types have 16 MiB, all kept versions together, which is the maximum. Delete some first.", 0},
		{jobtypes.ErrSensitive, problem.Forbidden, "The type has sensitive fields (x-sensitive): changing or deleting it needs the scope payload.", 0},
		{jobtype.ErrBusy, problem.Overloaded, "Checks against your job types take too long. Nothing was changed. Try again later, or make the schemas simpler.", time.Second},
		{caps.ErrCheckTime, problem.Overloaded, "A count has more jobs than can be counted within seconds. The counts stay as they are; try again later.", time.Minute},
		{store.ErrOverloaded, problem.Overloaded, "Core has more work than it can do. Try again later.", time.Second},
		{store.ErrTenantMoved, problem.TenantMoving, "The tenant is being moved to another database. Nothing was changed; try again later.", time.Second},
		{store.ErrReadOnly, problem.CoreUnavailable, "The database takes no writes now. Nothing was changed; try again later.", 2 * time.Second},
		{store.ErrUnavailable, problem.CoreUnavailable, "Core cannot reach its database. Nothing was changed; try again later.", 2 * time.Second},
		{store.ErrOutcomeUnknown, problem.OutcomeUnknown, "The database's answer was lost, so the request may or may not have taken effect. Repeat a submit with its Idempotency-Key; repeat outcomes and heartbeats unchanged.", time.Second},
	}
}

// Problem is an error as its caller sees it. An error that is not in the table is internal
// to the caller and whole in the log, with attributes that name the request.
func Problem(ctx context.Context, err error, request ...any) *problem.Problem {
	if p, ok := problem.From(err); ok {
		return p
	}
	for _, known := range sentinels() {
		if !errors.Is(err, known.err) {
			continue
		}
		p := problem.New(known.code, known.detail)
		if known.wait > 0 {
			// half as long to half as long again: callers that failed together come back apart
			p.WithRetryAfter(time.Duration((0.5 + rand.Float64()) * float64(known.wait))) //nolint:gosec // spreads load, guards nothing
		}
		return p
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return problem.New(problem.Overloaded, "The request timed out before it could be served.").WithRetryAfter(time.Second)
	}
	loggerOf(ctx).ErrorContext(ctx, "a request failed", append(request, "error", err)...)
	return problem.New(problem.Internal, "The request could not be served. The log has the cause.")
}

type loggerKey struct{}

// WithLogger is the context of a call whose unknown errors go to log.
func WithLogger(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, log)
}

// loggerOf gives the server's logger, which each request's context carries.
func loggerOf(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.Default()
}
