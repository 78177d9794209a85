package stack

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // looks behind the services' backs

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Submit submits one job and gives its id.
func Submit(tb testing.TB, c *client.Client, request api.SubmitRequest) string {
	tb.Helper()
	answer, err := c.Submit(tb.Context(), request)
	if err != nil {
		tb.Fatal(err)
	}
	return answer.ID
}

// Get reads one job.
func Get(tb testing.TB, c *client.Client, id string) api.Job {
	tb.Helper()
	job, err := c.Get(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	return job
}

// ClaimOne claims one job by hand, as soon as there is one: of some types, or of any.
func ClaimOne(tb testing.TB, c *client.Client, worker, queue string, types ...string) api.ClaimedJob {
	tb.Helper()
	var job api.ClaimedJob
	wait := time.Second.Milliseconds()
	Eventually(tb, time.Minute, "a job in "+queue, func() bool {
		claimed, err := c.Claim(tb.Context(), api.ClaimRequest{WorkerID: worker, Queues: []string{queue}, Types: types, WaitMS: &wait})
		if err != nil {
			tb.Fatal(err)
		}
		if len(claimed.Jobs) > 0 {
			job = claimed.Jobs[0]
		}
		return len(claimed.Jobs) > 0
	})
	return job
}

// Query reads single values; nil where the database does not answer.
func Query[T any](ctx context.Context, tb testing.TB, url, sql string, args ...any) []T {
	tb.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		return nil
	}
	return values
}

// Exec runs a statement on a database.
func Exec(ctx context.Context, tb testing.TB, url, sql string, args ...any) {
	tb.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		tb.Fatal(err)
	}
}
