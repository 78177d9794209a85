package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Both cores are killed while they remove the data of a deleted tenant. They go on where they were; its key is
// good no more, the other tenant has all of its jobs, and the counts are right all the time.
func TestCoresAreKilledWhileATenantIsRemoved(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2})
	gone, stays := c.NewTenant(t, "gone"), c.NewTenant(t, "stays")
	c.Override(t, gone, api.Overrides{Limits: api.Limits{MaxActive: new(int64(100_000))}})
	theirs, others := c.Client(t, gone.Key), c.Client(t, stays.Key)
	var newest string
	const batches = 4
	for range batches {
		jobs := make([]api.SubmitRequest, api.MaxBatchJobs)
		for i := range jobs {
			jobs[i] = api.SubmitRequest{Type: "x"}
		}
		for _, one := range []*client.Client{theirs, others} {
			answer, err := one.SubmitBatch(t.Context(), api.BatchRequest{Jobs: jobs})
			if err != nil || answer.Accepted != len(jobs) {
				t.Fatal(answer.Accepted, err)
			}
			if one == theirs {
				newest = answer.Results[len(jobs)-1].Job.ID
			}
		}
	}
	held := stack.ClaimOne(t, theirs, "w", "default")
	lives := func(tenant stack.Tenant) int {
		t.Helper()
		counts := stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::int FROM jobs WHERE tenant_id = $1`, tenant.ID)
		if len(counts) == 0 {
			t.Fatal("the database does not answer")
		}
		return counts[0]
	}
	// Jobs are removed in the order of their ids: the last batch waits for the newest one.
	holder, err := pgx.Connect(t.Context(), c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close(context.WithoutCancel(t.Context())) }()
	lock, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `SELECT FROM jobs WHERE id = $1 FOR UPDATE`, newest); err != nil {
		t.Fatal(err)
	}

	admin := c.Client(t, stack.Operator)
	if shown, err := admin.DeleteTenant(t.Context(), gone.ID); err != nil || shown.Deletion == nil || shown.Deletion.State != api.DeletionRunning {
		t.Fatalf("%+v, %v", shown, err)
	}
	if _, err := theirs.Get(t.Context(), held.ID); !isUnauthenticated(err) {
		t.Errorf("its key: %v", err)
	}
	stack.Eventually(t, time.Minute, "all but a batch is removed", func() bool { return lives(gone) <= api.MaxBatchJobs })
	for _, core := range c.Cores {
		if !core.Kill() {
			t.Error("a core was not running")
		}
	}
	if n := lives(gone); n == 0 {
		t.Fatal("the kill came too late")
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Errorf("in the middle: %v", lines)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, core := range c.Cores {
		core.Start()
	}
	for _, core := range c.Cores {
		core.AwaitReady()
	}
	stack.Eventually(t, time.Minute, "the rest is removed", func() bool { return lives(gone) == 0 })
	// as if others had had their time
	stack.Query[int](t.Context(), t, c.DatabaseURL, `UPDATE tenants SET deleting_at = deleting_at - interval '3 minutes' WHERE id = $1 RETURNING 1`, gone.ID)
	stack.Eventually(t, time.Minute, "the deletion is done", func() bool {
		shown, err := admin.GetTenant(t.Context(), gone.ID)
		return err == nil && shown.Deletion.State == api.DeletionDone && shown.Deletion.Removed > batches*api.MaxBatchJobs
	})
	if lines := c.Verify(t); len(lines) > 0 {
		t.Errorf("at the end: %v", lines)
	}
	if n := lives(stays); n != batches*api.MaxBatchJobs {
		t.Errorf("the other tenant has %d jobs", n)
	}
	if page, err := others.List(t.Context(), api.JobFilter{}, client.PageRequest{Size: 1}); err != nil || len(page.Items) != 1 {
		t.Errorf("the other tenant: %+v, %v", page, err)
	}
}

func isUnauthenticated(err error) bool {
	p, ok := problem.From(err)
	return ok && p.Code == problem.Unauthenticated
}
