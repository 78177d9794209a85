package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
)

func TestOneHeartbeatKeepsAllLeases(t *testing.T) {
	t.Parallel()
	// A lease's length must not depend on what the local clock shows.
	for _, ahead := range []time.Duration{0, -5 * time.Hour, 5 * time.Hour} {
		for visibility, most := range map[time.Duration]time.Duration{
			2 * time.Second: time.Second, 30 * time.Second: 10 * time.Second, 10 * time.Minute: 10 * time.Second,
		} {
			t.Run(fmt.Sprint(visibility, " ahead ", ahead), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					b := newBed(t)
					b.ahead, b.visibility = ahead, visibility
					worker.Handle(b.worker, "long", func(context.Context, *worker.RawJob) (any, error) {
						<-time.After(3 * time.Minute)
						return nil, nil
					})
					old := func(j *api.ClaimedJob) { j.CreatedAt = api.At(b.now().Add(-time.Hour)) }
					ids := []string{b.submit("long", `1`, old), b.submit("long", `2`, old), b.submit("long", `3`, old)}
					start := time.Now()
					b.run(t)
					pass(3*time.Minute + time.Second)
					last := start
					for _, sent := range b.allBeats() {
						if gap := sent.at.Sub(last); gap > most || gap < 200*time.Millisecond {
							t.Errorf("%v between heartbeats", gap)
						}
						last = sent.at
						if held := sent.at.Sub(start) < 3*time.Minute; held && len(sent.leases) != 3 {
							t.Errorf("a heartbeat for %v", sent.leases)
						}
					}
					for _, id := range ids {
						if got := b.state(id); got != api.StateCompleted || b.find(id).Epoch != 1 {
							t.Errorf("%s is %s after %d claims", id, got, b.find(id).Epoch)
						}
					}
					b.finish(t)
				})
			})
		}
	}
}

// A gateway whose clock is an hour off spoils nothing where lengths are told, even
// for a job that was made long before.
func TestALeaseLengthThatIsTold(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				b.visibility = 3 * time.Second
				b.spoilWith(func(_ string, w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Date", b.now().Add(off).UTC().Format(http.TimeFormat))
					return false
				})
				worker.Handle(b.worker, "long", func(context.Context, *worker.RawJob) (any, error) {
					<-time.After(time.Minute)
					return nil, nil
				})
				id := b.submit("long", `{}`, func(j *api.ClaimedJob) { j.CreatedAt = api.At(b.now().Add(-24 * time.Hour)) })
				b.run(t)
				pass(61 * time.Second)
				if got := b.state(id); got != api.StateCompleted || b.find(id).Epoch != 1 {
					t.Errorf("the job is %s after %d claims: %s", got, b.find(id).Epoch, b.log.String())
				}
				if beats := len(b.allBeats()); beats < 50 || beats > 80 {
					t.Errorf("%d heartbeats in a minute of leases of 3 s", beats)
				}
				b.finish(t)
			})
		})
	}
}

func TestTheContextEndsWithItsCause(t *testing.T) {
	t.Parallel()
	second := int64(1000)
	for name, test := range map[string]struct {
		change  func(*api.ClaimedJob)
		happens func(b *bed, id string)
		cause   error
		// within is how soon the handler hears of it.
		within time.Duration
		kind   string // of the outcome; empty for none
		typed  string
	}{
		"lost":    {nil, func(b *bed, id string) { b.steal(id) }, worker.ErrLeaseLost, 10 * time.Second, "", ""},
		"cancel":  {nil, func(b *bed, id string) { b.cancel(id) }, worker.ErrCancelRequested, 10 * time.Second, api.KindFail, "cancelled"},
		"timeout": {func(j *api.ClaimedJob) { j.TimeoutMS = &second }, func(*bed, string) {}, worker.ErrTimeout, time.Second, api.KindFail, "timeout"},
		"no answers": {nil, func(b *bed, _ string) {
			b.spoilWith(func(_ string, w http.ResponseWriter, _ *http.Request) bool {
				problem.New(problem.CoreUnavailable, "").Write(w)
				return true
			})
		}, worker.ErrLeaseLost, 30 * time.Second, "", ""},
		"a server that hangs": {nil, func(b *bed, _ string) {
			b.spoilWith(func(_ string, _ http.ResponseWriter, r *http.Request) bool {
				<-r.Context().Done()
				return true
			})
		}, worker.ErrLeaseLost, 30 * time.Second, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t, func(o *worker.Options) { o.Concurrency = 1 })
				causes := make(chan error, 1)
				worker.Handle(b.worker, "long", block(causes))
				change := test.change
				if change == nil {
					change = func(*api.ClaimedJob) {}
				}
				id := b.submit("long", `{}`, change)
				b.run(t)
				test.happens(b, id)
				start := time.Now()
				cause := <-causes
				if took := time.Since(start); !errors.Is(cause, test.cause) || took > test.within {
					t.Errorf("after %v the cause is %v", took, cause)
				}
				synctest.Wait()
				b.mu.Lock()
				sent := b.outcomes
				b.mu.Unlock()
				switch {
				case test.kind == "" && len(sent) != 0:
					t.Errorf("sent %+v for a lease that was lost", sent)
				case test.kind != "" && (len(sent) != 1 || sent[0].kind != test.kind || sent[0].body.Error.Type != test.typed):
					t.Errorf("sent %+v", sent)
				}
				if line := b.log.attempts(t); len(line) != 1 || !strings.Contains(line[0]["error"].(string), test.cause.Error()) {
					t.Errorf("the line does not name the cause: %v", line)
				}
				b.finish(t)
			})
		})
	}
}

// TestALostLeaseIsNotAskedForAgain: its handler may take its time, and the
// heartbeats must neither carry it nor hurry because of it.
func TestALostLeaseIsNotAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t, func(o *worker.Options) { o.Concurrency = 1 })
		worker.Handle(b.worker, "deaf", func(ctx context.Context, job *worker.RawJob) (any, error) {
			if job.Epoch > 1 { // it was claimed again: not what is looked at here
				<-ctx.Done()
				return nil, ctx.Err()
			}
			<-time.After(5 * time.Minute)
			return "done", nil
		})
		id := b.submit("deaf", `{}`)
		b.run(t)
		b.steal(id)
		pass(4 * time.Minute)
		beats := b.allBeats()
		if len(beats) > 26 || len(beats[len(beats)-1].leases) != 0 {
			t.Errorf("%d heartbeats, the last for %v", len(beats), beats[len(beats)-1].leases)
		}
		pass(61 * time.Second) // the success is offered; the fence refuses it
		lines := b.log.attempts(t)
		if len(lines) == 0 || lines[0]["outcome"] != "lost" {
			t.Errorf("attempt lines are %v", lines)
		}
		b.finish(t)
	})
}

func TestASuccessIsSentWhateverTheClockSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		var away bool
		b.spoilWith(func(_ string, w http.ResponseWriter, _ *http.Request) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			if away {
				// As after an outage: holders may speak before leases are taken back.
				for _, j := range b.jobs {
					j.expires = b.now().Add(b.visibility)
				}
				problem.New(problem.CoreUnavailable, "").Write(w)
			}
			return away
		})
		set := func(to bool) { b.mu.Lock(); away = to; b.mu.Unlock() }
		worker.Handle(b.worker, "long", func(ctx context.Context, _ *worker.RawJob) (any, error) {
			<-ctx.Done()
			return "done all the same", nil
		})
		id := b.submit("long", `{}`)
		b.run(t)
		set(true)
		pass(40 * time.Second)
		set(false)
		pass(10 * time.Second)
		if got := b.state(id); got != api.StateCompleted {
			t.Errorf("the job is %s: %s", got, b.log.String())
		}
		b.finish(t)
	})
}

func TestAnUnknownWorkerRegistersAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t, func(o *worker.Options) { o.Concurrency = 1 })
		causes := make(chan error, 1)
		worker.Handle(b.worker, "long", block(causes))
		id := b.submit("long", `{}`)
		b.run(t)
		b.forgetWorkers()
		pass(15 * time.Second)
		if b.registered != 2 {
			t.Errorf("registered %d times", b.registered)
		}
		if got := b.state(id); got != api.StateRunning {
			t.Errorf("the job is %s", got)
		}
		// Given up as DEAD: the lease is gone as well, and that is heard at once.
		b.forgetWorkers()
		b.steal(id)
		start := time.Now()
		if cause := <-causes; !errors.Is(cause, worker.ErrLeaseLost) || time.Since(start) > 10*time.Second {
			t.Errorf("after %v the cause is %v", time.Since(start), cause)
		}
		b.finish(t)
	})
}

// A heartbeat extends a lease from when the server answers, which is after it was sent: the worker counts from the
// sending, so that it never believes in a lease for longer than the server does.
func TestALeaseCountsFromTheSendingOfItsHeartbeat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.visibility = 30 * time.Second
		var answered atomic.Bool
		b.spoilWith(func(route string, w http.ResponseWriter, r *http.Request) bool {
			switch {
			case !strings.HasSuffix(route, "/heartbeat"):
				return false
			case answered.CompareAndSwap(false, true):
				b.heartbeat(w, r)
				<-time.After(5 * time.Second)
			default:
				problem.New(problem.CoreUnavailable, "later").Write(w)
			}
			return true
		})
		ends := make(chan time.Time, 10)
		worker.Handle(b.worker, "long", func(ctx context.Context, _ *worker.RawJob) (any, error) {
			<-ctx.Done()
			ends <- time.Now()
			return nil, ctx.Err()
		})
		b.submit("long", `1`)
		b.run(t)
		pass(2 * time.Minute)
		sent := b.allBeats()[0].at
		if held := (<-ends).Sub(sent); held > 30*time.Second || held < 25*time.Second {
			t.Errorf("the handler was told after %v that its lease of 30 s had ended", held)
		}
		b.finish(t)
	})
}
