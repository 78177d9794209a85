package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A core tells others of jobs that are ready or have ended, of changed settings, and of workers that left; and it ends the
// claims of a worker of which another core tells that it left.
func TestCoresGetHintsOfEachOther(t *testing.T) {
	t.Parallel()
	databaseURL := celltest.URL(t)
	cfg := config(t, databaseURL)
	store, core, owner := celltest.OpenURL(t, databaseURL), start(t, cfg), someTenant()
	id := uuid.MustParse(owner.Tenant)
	if _, err := store.Tenants.Create(t.Context(), id, api.TenantRequest{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	client, err := hints.Connect(cfg.RedisURL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	other := hints.New(store.Identity, client, slog.New(slog.DiscardHandler))
	var ready, over, settings, left atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- other.Run(ctx, hints.Listener{
			Ready:    func([]jobs.Waiting) { ready.Add(1) },
			Ended:    func([]uuid.UUID) { over.Add(1) },
			Settings: func() { settings.Add(1) },
			Left:     func(uuid.UUID, string) { left.Add(1) },
		})
	}()
	t.Cleanup(func() { stop(); <-ended })

	// A hint that is sent before the other one listens is lost, by design.
	celltest.Eventually(t, "changed settings", func() bool {
		ask[api.Queue](core, hop.PutQueue.Path, owner, hop.Put[api.QueueRequest]{Name: "q"})
		return settings.Load() > 0
	})
	settings.Store(0)
	celltest.Eventually(t, "a schedule that was set", func() bool {
		ask[api.Schedule](core, hop.PutSchedule.Path, owner, hop.Put[api.ScheduleRequest]{Name: "s", Value: api.ScheduleRequest{
			EveryMS: new(int64(3_600_000)), Job: api.ScheduleJob{Type: "test"},
		}})
		return settings.Load() > 0
	})
	celltest.Eventually(t, "jobs that are ready and have ended", func() bool {
		job := uuid.Must(uuid.NewV7()).String()
		submit := hop.SubmitJobsRequest{IDs: []string{job}, Jobs: []api.SubmitRequest{{Type: "test", Queue: "q"}}}
		if got := ask[json.RawMessage](core, hop.SubmitJobs.Path, owner, submit); got.Status != http.StatusAccepted {
			t.Fatalf("submit: %+v", got)
		}
		ask[hop.CancelResponse](core, hop.CancelJob.Path, owner, hop.ID{ID: job})
		return ready.Load() > 0 && over.Load() > 0
	})
	celltest.Eventually(t, "a worker that left", func() bool {
		ask[struct{}](core, hop.Leave.Path, owner, hop.ID{ID: "w1"})
		return left.Load() > 0
	})

	begun, waited := time.Now(), make(chan time.Duration, 1)
	go func() {
		ask[api.ClaimResponse](core, hop.ClaimJobs.Path, owner, claimOf("w2", 25*time.Second))
		waited <- time.Since(begun)
	}()
	celltest.Eventually(t, "the end of the claim", func() bool {
		other.Left(id, "w2")
		return len(waited) > 0
	})
	if took := <-waited; took > 20*time.Second {
		t.Errorf("the claim of a worker that left ended after %v", took)
	}
}
