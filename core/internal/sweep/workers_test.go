package sweep_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// While PostgreSQL or every core was away no heartbeat could be stored: workers get
// the time to send one before they turn stale or dead.
func TestWorkersSpeakFirstAfterASilence(t *testing.T) {
	t.Parallel()
	const long = time.Hour
	for name, outage := range map[string]struct {
		answered, since time.Duration // how long ago, or zero where it never did
		want            string
	}{
		"at the start":           {0, 0, api.WorkerActive},
		"PostgreSQL was away":    {workers.StaleAfter + time.Second, long, api.WorkerActive},
		"it came back just now":  {time.Second, workers.StaleAfter / 2, api.WorkerActive},
		"its clock was set back": {-long, long, api.WorkerActive},
		"none":                   {time.Second, long, api.WorkerDead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if _, _, err := f.store.Workers.SeenClaiming(t.Context(), f.tenant, "w1", workers.Claiming{Queues: []string{"default"}}); err != nil {
				t.Fatal(err)
			}
			f.exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - interval '121 seconds'`)
			duty := sweep.NewWorkers(f.duties())
			if outage.answered != 0 {
				duty.Answered(f.now().Add(-outage.answered), f.now().Add(-outage.since))
			}
			if err := duty.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			workers, err := f.store.Workers.List(t.Context(), f.tenant, "", 10)
			if err != nil || len(workers) != 1 || workers[0].Status != outage.want {
				t.Errorf("%+v %v, want %s", workers, err, outage.want)
			}
		})
	}
}

// The statement itself may be what PostgreSQL answers first.
func TestAgingThatEndsASilence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, _, err := f.store.Workers.SeenClaiming(t.Context(), f.tenant, "w1", workers.Claiming{Queues: []string{"default"}}); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - interval '121 seconds'`)
	if aged, err := f.store.Workers.Age(t.Context(), f.now().Add(-workers.StaleAfter)); err != nil || aged != (workers.Aged{}) {
		t.Errorf("%+v %v", aged, err)
	}
	if aged, err := f.store.Workers.Age(t.Context(), f.now()); err != nil || aged != (workers.Aged{Dead: 1}) {
		t.Errorf("%+v %v", aged, err)
	}
}
