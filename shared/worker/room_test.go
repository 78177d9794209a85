package worker_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// trips makes each request of a worker take a while.
func (s *server) trips(d time.Duration) {
	s.spoilWith(func(string, http.ResponseWriter, *http.Request) bool {
		<-time.After(d)
		return false
	})
}

// submitMany queues so many jobs of a type.
func (s *server) submitMany(n int, jobType string) {
	for range n {
		s.submit(jobType, `{}`)
	}
}

// counting is a handler that takes a while; it notes how many run at once, and when the last one ended.
type counting struct {
	mu         sync.Mutex
	runs, most int
	running    int
	last       time.Time
}

func (c *counting) handler(takes time.Duration) func(context.Context, *worker.RawJob) (any, error) {
	return func(context.Context, *worker.RawJob) (any, error) {
		c.mu.Lock()
		c.running++
		c.most = max(c.most, c.running)
		c.mu.Unlock()
		<-time.After(takes)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
		c.runs++
		c.last = time.Now()
		return nil, nil
	}
}

func TestClaimsAheadOfQuickHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.trips(5 * time.Millisecond)
		b.submitMany(2000, "quick")
		var count counting
		worker.Handle(b.worker, "quick", count.handler(time.Millisecond))
		begun := time.Now()
		b.run(t)
		pass(10 * time.Second)
		b.finish(t)
		took := count.last.Sub(begun)
		// Four slots do 2,000 jobs of 1 ms in 500 ms. With two trips for each four jobs, it would take more than 5 s.
		if count.runs != 2000 || count.most != 4 || took > 750*time.Millisecond {
			t.Errorf("%d runs, %d at once, %v", count.runs, count.most, took)
		}
		for _, o := range b.outcomes {
			if o.kind != api.KindComplete {
				t.Fatalf("an outcome is %s", o.kind)
			}
		}
	})
}

func TestSlowHandlersHaveNoJobsWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.trips(5 * time.Millisecond)
		b.submitMany(40, "slow")
		var count counting
		worker.Handle(b.worker, "slow", count.handler(2*time.Second))
		b.run(t)
		pass(30 * time.Second)
		b.finish(t)
		if count.runs != 40 || b.mostRunning != 4 {
			t.Errorf("%d runs, %d leases at once", count.runs, b.mostRunning)
		}
	})
}

// Handlers that suddenly take long: what was claimed ahead of them goes to the other worker in time.
func TestNoJobWaitsBehindASlowHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.trips(5 * time.Millisecond)
		b.submitMany(1000, "job")
		begun := time.Now()
		var mu sync.Mutex
		var own int
		worker.Handle(b.worker, "job", func(context.Context, *worker.RawJob) (any, error) {
			mu.Lock()
			own++
			slow := own > 100
			mu.Unlock()
			if slow {
				<-time.After(10 * time.Second)
			}
			<-time.After(2 * time.Millisecond)
			return nil, nil
		})
		other, err := worker.New(worker.Options{Client: b.client, WorkerID: "w2", Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		var quick counting
		worker.Handle(other, "job", quick.handler(2*time.Millisecond))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- other.Run(ctx) }()
		b.run(t)
		pass(15 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		b.finish(t)
		released := 0
		for _, o := range b.outcomes {
			if o.kind == api.KindRelease {
				released++
				if o.held > 100*time.Millisecond {
					t.Errorf("%s was held for %v, and released", o.jobID, o.held)
				}
			}
		}
		if own != 104 || quick.runs != 896 || released == 0 || quick.last.Sub(begun) > time.Second {
			t.Errorf("%d and %d runs, %d released, the last after %v", own, quick.runs, released, quick.last.Sub(begun))
		}
	})
}

func TestAStopReleasesWhatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.trips(5 * time.Millisecond)
		b.submitMany(2000, "quick")
		var count counting
		worker.Handle(b.worker, "quick", count.handler(10*time.Millisecond))
		b.run(t)
		pass(time.Second)
		if took := b.finish(t); took > 50*time.Millisecond {
			t.Errorf("the stop took %v", took)
		}
		completed, released := 0, 0
		for _, o := range b.outcomes {
			switch o.kind {
			case api.KindComplete:
				completed++
			case api.KindRelease:
				released++
			}
		}
		if completed != count.runs || completed < 300 || released == 0 || completed+released != len(b.outcomes) || b.running != 0 {
			t.Errorf("%d runs, %d completed, %d released, %d still held", count.runs, completed, released, b.running)
		}
	})
}
