package queues_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestQueueSettingsAndDepths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	visibility := int64(5000)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "default", api.QueueRequest{VisibilityTimeoutMS: &visibility}); err != nil {
		t.Fatal(err)
	}
	if err := f.Store.Queues.Pause(t.Context(), f.Tenant, "default", true); err != nil {
		t.Fatal(err)
	}
	settings, err := f.Store.Queues.Since(t.Context(), time.Unix(0, 0))
	if err != nil || len(settings) != 1 || !settings[0].Paused || *settings[0].VisibilityTimeout != 5*time.Second {
		t.Fatalf("%+v %v", settings, err)
	}
	f.Submit(f.Job(), f.Job(), f.Job(func(j *submit.NewJob) { j.Delay = time.Hour }), f.Job(func(j *submit.NewJob) { j.MaxAttempts = 1 }))
	f.Claim(1, time.Minute)
	dead := f.Claim(2, time.Minute)[1]
	f.MustEnd(jobs.Ending{Lease: dead.Lease(), Kind: api.KindFail, Permanent: true})
	f.Submit(f.Job())
	f.Exec(`UPDATE jobs SET ready_at = ready_at - interval '10 seconds' WHERE state = 'queued'`)
	if err := f.Store.Queues.Pause(t.Context(), f.Tenant, "empty", true); err != nil {
		t.Fatal(err)
	}
	counts, err := f.Store.Queues.List(t.Context(), f.Tenant, queues.Page{Size: 10})
	if err != nil || len(counts) != 2 || counts[1].Name != "empty" {
		t.Fatal(counts, err)
	}
	got := counts[0]
	if len(got.Ready) != 1 || got.Queued != 1 || got.Running != 2 || got.Scheduled != 1 || got.DeadLetter != 1 || *got.OldestMs < 10_000 || *got.OldestMs > 60_000 {
		t.Fatalf("%+v %v", got, err)
	}
	if empty := counts[1]; empty.OldestMs != nil || empty.Running != 0 || len(empty.Ready) != 0 {
		t.Fatalf("%+v", empty)
	}
}
