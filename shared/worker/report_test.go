package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// reported gives what the server got: seconds from start, percent, message and checkpoint of each report.
func (b *bed) reported(start time.Time) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.beats {
		for _, l := range one.reports {
			text := fmt.Sprintf("%.0fs", one.at.Sub(start).Seconds())
			if p := l.Progress; p != nil && p.Percent != nil {
				text += fmt.Sprintf(" %g%%", *p.Percent)
			}
			if p := l.Progress; p != nil && p.Message != nil {
				text += " " + *p.Message
			}
			if l.Checkpoint != nil {
				text += " " + string(l.Checkpoint)
			}
			all = append(all, text)
		}
	}
	return all
}

// rest lets time go by in a handler; the test waits for all of them, see pass.
func rest(d time.Duration) { <-time.After(d) }

// In a tight loop only the newest report goes out, once a second, and only for the job that reports.
func TestReportsGoOutOnceASecond(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "loop", func(ctx context.Context, job *worker.RawJob) (any, error) {
			for i := range 40 { // 3.6 s
				job.Progress(float64(i), "")
				if i%10 == 0 {
					if err := job.Checkpoint(i); err != nil {
						return nil, err
					}
				}
				rest(90 * time.Millisecond) // no report falls on a second
			}
			rest(3 * time.Second)
			return nil, nil
		})
		worker.Handle(b.worker, "quiet", func(context.Context, *worker.RawJob) (any, error) { rest(7 * time.Second); return nil, nil })
		b.submit("quiet", `1`)
		b.submit("loop", `1`)
		start := time.Now()
		b.run(t)
		pass(8 * time.Second)
		b.finish(t)
		want := "0s 0% 0, 1s 11% 10, 2s 22% 20, 3s 33% 30, 4s 39%"
		if got := strings.Join(b.reported(start), ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		for _, one := range b.beats {
			if len(one.reports) > 0 && len(one.leases) > 1 {
				t.Errorf("a report has the leases %v", one.leases)
			}
		}
	})
}

// The checkpoint of an attempt that fails, snoozes or is stopped is sent before its outcome, and the next attempt reads
// it; that of a completed one is not.
func TestTheLastCheckpointGoesBeforeTheOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		type place struct{ Page int }
		var found []int
		worker.Handle(b.worker, "pages", func(ctx context.Context, job *worker.RawJob) (any, error) {
			at := place{}
			if _, err := job.Restore(&at); err != nil {
				return nil, err
			}
			found = append(found, at.Page)
			// The first is sent at once, the second waits for its second.
			if err := errors.Join(job.Checkpoint(place{at.Page + 1}), func() error { rest(10 * time.Millisecond); return nil }(), job.Checkpoint(place{at.Page + 2})); err != nil {
				return nil, err
			}
			switch job.Attempt {
			case 1:
				return nil, worker.RetryAfter(errors.New("again"), 0)
			case 2:
				if job.Epoch < 4 {
					return nil, worker.Snooze(time.Second)
				}
			}
			return nil, nil
		})
		id := b.submit("pages", `1`)
		b.run(t)
		for range 4 {
			pass(5 * time.Second)
			b.mu.Lock()
			if j := b.find(id); j.state == api.StateScheduled { // the server leaves it so
				j.state = api.StateQueued
				b.wake()
			}
			b.mu.Unlock()
		}
		b.finish(t)
		kept := string(b.find(id).Checkpoint)
		// A snooze gives the attempt back, so the second one runs twice.
		if fmt.Sprint(found) != "[0 2 4 6]" || kept != `{"Page":8}` && kept != `{"Page":7}` {
			t.Errorf("attempts began at %v, the job is %s with %s", found, b.state(id), kept)
		}
	})
}

// A heartbeat that fails keeps its report for the next one.
func TestAReportOutlivesAFailedHeartbeat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "once", func(_ context.Context, job *worker.RawJob) (any, error) {
			job.Progress(50, "half")
			rest(20 * time.Second)
			return nil, nil
		})
		failed := 0
		b.spoilWith(func(route string, w http.ResponseWriter, _ *http.Request) bool {
			if !strings.Contains(route, "heartbeat") || failed == 2 {
				return false
			}
			failed++
			w.WriteHeader(http.StatusInternalServerError)
			return true
		})
		b.submit("once", `1`)
		start := time.Now()
		b.run(t)
		pass(21 * time.Second)
		b.finish(t)
		if got := b.reported(start); failed != 2 || len(got) != 1 || !strings.HasSuffix(got[0], " 50% half") {
			t.Errorf("%d heartbeats failed, reported %q", failed, got)
		}
	})
}

// A report that the server refuses costs no lease: it is dropped, and the heartbeat sent without.
func TestARefusedReportIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		handle := func(_ context.Context, job *worker.RawJob) (any, error) {
			if job.Type == "odd" {
				for range 900 {
					job.Progress(1, "refused")
					rest(100 * time.Millisecond)
				}
				return nil, nil
			}
			rest(90 * time.Second) // three leases long
			return nil, nil
		}
		worker.Handle(b.worker, "odd", handle)
		worker.Handle(b.worker, "other", handle)
		b.spoilWith(func(route string, w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(route, "heartbeat") {
				return false
			}
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if !strings.Contains(string(body), "refused") {
				return false
			}
			problem.New(problem.InvalidRequest, "leases[0].progress").Write(w)
			return true
		})
		odd, other := b.submit("odd", `1`), b.submit("other", `1`)
		b.run(t)
		pass(95 * time.Second)
		b.finish(t)
		if b.state(odd) != api.StateCompleted || b.state(other) != api.StateCompleted || !strings.Contains(b.log.String(), "it is dropped") {
			t.Errorf("%s, %s\n%s", b.state(odd), b.state(other), b.log.String())
		}
	})
}

func TestReportsAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		var large, deep, null error
		var restored bool
		var wrong error
		worker.Handle(b.worker, "odd", func(_ context.Context, job *worker.RawJob) (any, error) {
			large, null = job.Checkpoint(strings.Repeat("x", api.MaxCheckpoint)), job.Checkpoint(nil)
			deep = job.Checkpoint(json.RawMessage(strings.Repeat("[", 30) + strings.Repeat("]", 30)))
			restored, wrong = job.Restore(new(int))
			for i, percent := range []float64{-1, 150, math.NaN(), math.Inf(1)} {
				job.Progress(percent, strings.Repeat("ä", 300*(i%2)))
				rest(2 * time.Second)
			}
			return nil, nil
		})
		b.submit("odd", `1`, func(j *api.ClaimedJob) { j.Checkpoint = []byte(`"text"`) })
		b.run(t)
		pass(10 * time.Second)
		b.finish(t)
		if large == nil || !strings.Contains(large.Error(), "may have 65536") || null == nil || deep == nil || !strings.Contains(deep.Error(), "29 levels") || restored || wrong == nil {
			t.Errorf("too large: %v; too deep: %v; null: %v; another shape: %v %v", large, deep, null, restored, wrong)
		}
		var got []string
		for _, one := range b.beats {
			for _, l := range one.reports {
				text := "?"
				if l.Progress.Percent != nil {
					text = fmt.Sprint(*l.Progress.Percent)
				}
				if l.Progress.Message != nil {
					text += fmt.Sprint(" ", len([]rune(*l.Progress.Message)))
				}
				got = append(got, text)
			}
		}
		if want := "?, 100 256, ?, 100 256"; strings.Join(got, ", ") != want {
			t.Errorf("%q, want %s", got, want)
		}
	})
}

// A Job that a test has made itself reports to nobody.
func TestReportsWithoutAWorker(t *testing.T) {
	t.Parallel()
	var job worker.RawJob
	job.Progress(1, "x")
	if found, err := job.Restore(new(int)); found || err != nil || job.Checkpoint(1) != nil {
		t.Errorf("%v %v", found, err)
	}
}

// A heartbeat that is slow to arrive has an older checkpoint than the last report: the newer one is stored last.
func TestAnOlderCheckpointOverwritesNoNewerOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		var slow atomic.Bool
		b.spoilWith(func(route string, _ http.ResponseWriter, r *http.Request) bool {
			body := readAgain(t, r)
			switch {
			case strings.HasPrefix(route, "POST /v1/jobs/"), strings.HasSuffix(route, "/outcomes"):
				rest(8 * time.Second) // the job is still running when the slow heartbeat arrives
			case strings.HasSuffix(route, "/heartbeat") && strings.Contains(body, "checkpoint") && slow.CompareAndSwap(false, true):
				rest(4 * time.Second)
			}
			return false
		})
		worker.Handle(b.worker, "pages", func(_ context.Context, job *worker.RawJob) (any, error) {
			if err := job.Checkpoint(1); err != nil {
				return nil, err
			}
			rest(1500 * time.Millisecond) // the heartbeat is under way
			if err := job.Checkpoint(2); err != nil {
				return nil, err
			}
			return nil, errors.New("once")
		})
		id := b.submit("pages", `1`)
		b.run(t)
		pass(time.Minute)
		b.finish(t)
		if kept := string(b.find(id).Checkpoint); !slow.Load() || kept != "2" {
			t.Errorf("the next attempt would get %s, want 2; a heartbeat was slow: %t", kept, slow.Load())
		}
	})
}

func readAgain(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}
