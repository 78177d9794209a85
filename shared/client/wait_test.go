package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// states answers with a job in a state, and the state for its ETag; 304 where the
// request has that one already.
func states(w http.ResponseWriter, r *http.Request, state string) {
	w.Header().Set("Preference-Applied", r.Header.Get("Prefer"))
	w.Header().Set("ETag", `"`+state+`"`)
	if r.Header.Get("If-None-Match") == `"`+state+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	answer(w, http.StatusOK, api.Job{JobSummary: api.JobSummary{ID: "j1", State: state}})
}

// A server that holds answers is asked at once, then once for each state, and
// once more for each 20 s without a change.
func TestWaitIsHeldByTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch n {
			case 0:
				states(w, r, api.StateQueued)
			case 1:
				<-time.After(3 * time.Second)
				states(w, r, api.StateRunning)
			case 2:
				<-time.After(20 * time.Second)
				states(w, r, api.StateRunning)
			default:
				<-time.After(time.Second)
				states(w, r, api.StateCompleted)
			}
		})
		start := time.Now()
		job, err := s.client.Wait(t.Context(), "j1")
		if err != nil || job.State != api.StateCompleted {
			t.Fatalf("Wait = %+v, %v", job, err)
		}
		if took := time.Since(start); took != 24*time.Second {
			t.Errorf("took %v", took)
		}
		var asked []string
		for _, request := range s.all() {
			asked = append(asked, request.Header.Get("Prefer")+" "+request.Header.Get("If-None-Match"))
		}
		want := []string{`wait=0 `, `wait=20 "queued"`, `wait=20 "running"`, `wait=20 "running"`}
		if !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	})
}

// What has ended already is not waited for: a server may hold a dead letter back
// until it is redriven.
func TestWaitForWhatHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Prefer") != "wait=0" {
				<-time.After(20 * time.Second)
			}
			states(w, r, api.StateDeadLetter)
		})
		start := time.Now()
		job, err := s.client.Wait(t.Context(), "j1")
		if err != nil || job.State != api.StateDeadLetter || time.Since(start) != 0 {
			t.Errorf("Wait = %q, %v after %v", job.State, err, time.Since(start))
		}
	})
}

// A server that says that it waited, and did not, is not asked in a tight loop.
func TestWaitDoesNotTrustAnEarlyAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			state := api.StateQueued
			if time.Since(start) > 10*time.Second {
				state = api.StateCancelled
			}
			states(w, r, state)
		})
		if job, err := s.client.Wait(t.Context(), "j1"); err != nil || job.State != api.StateCancelled || len(s.all()) > 60 {
			t.Errorf("Wait = %q, %v after %d requests", job.State, err, len(s.all()))
		}
	})
}

// The answer is asked for before the caller's time is over, so that there is a
// last state to tell.
func TestWaitLeavesTimeForTheAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deadline time.Duration
		prefer   string
	}{
		"much":   {time.Hour, "wait=20"},
		"some":   {8 * time.Second, "wait=7"},
		"little": {1400 * time.Millisecond, "wait=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
					wish := r.Header.Get("Prefer")
					wait, err := time.ParseDuration(wish[len("wait="):] + "s")
					if err != nil {
						t.Errorf("Prefer: %q", wish)
					}
					<-time.After(wait)
					states(w, r, api.StateQueued)
				})
				job, err := s.client.Wait(ctx, "j1")
				if !errors.Is(err, context.DeadlineExceeded) || job.State != api.StateQueued {
					t.Errorf("Wait = %q, %v", job.State, err)
				}
				if got := s.all()[1].Header.Get("Prefer"); got != test.prefer {
					t.Errorf("Prefer: %q, want %q", got, test.prefer)
				}
			})
		})
	}
}

// away answers that something runs, then for a time with a refusal, and then that it has completed.
func away(code problem.Code, long time.Duration) func(n int, w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		switch {
		case n == 0:
			_, _ = io.WriteString(w, `{"state":"running"}`)
		case time.Since(begun) < long:
			refuse(w, code)
		default:
			_, _ = io.WriteString(w, `{"state":"completed"}`)
		}
	}
}

// Once the job was seen, an outage does not end the wait: the server is asked again, more and more seldom, until ctx ends.
func TestWaitsOutlastAnOutage(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, *client.Client) (string, error){
		"a job": func(ctx context.Context, c *client.Client) (string, error) {
			job, err := c.Wait(ctx, "j1")
			return job.State, err
		},
		"a workflow": func(ctx context.Context, c *client.Client) (string, error) {
			workflow, err := c.WaitForWorkflow(ctx, "w1")
			return workflow.State, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				s := serve(t, away(problem.CoreUnavailable, 5*time.Minute))
				short, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if state, err := ask(short, s.client); state != "running" || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "core_unavailable") || time.Since(begun) > time.Minute {
					t.Errorf("until the deadline: %q, %v after %v", state, err, time.Since(begun))
				}
				if n := len(s.all()); n > 60 {
					t.Errorf("%d requests in a minute", n)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				s := serve(t, away(problem.CoreUnavailable, 5*time.Minute))
				if state, err := ask(t.Context(), s.client); state != "completed" || err != nil {
					t.Errorf("%q, %v after %v", state, err, time.Since(begun))
				}
			})
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, away(problem.NotFound, 5*time.Minute))
				if state, err := ask(t.Context(), s.client); state != "running" || client.Status(err) != http.StatusNotFound {
					t.Errorf("a refusal: %q, %v", state, err)
				}
			})
		})
	}
}

func TestWaitEndsWithARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { refuse(w, problem.NotFound) })
		if _, err := s.client.Wait(t.Context(), "j1"); client.Status(err) != http.StatusNotFound || len(s.all()) != 1 {
			t.Errorf("%d requests, %v", len(s.all()), err)
		}
	})
}

func TestWaitPollsUntilTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var polled []time.Time
		start := time.Now()
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			polled = append(polled, time.Now())
			state := api.StateRunning
			if time.Since(start) > 10*time.Second {
				state = api.StateDeadLetter
			}
			answer(w, http.StatusOK, api.Job{JobSummary: api.JobSummary{ID: "j1", State: state}, LastError: &api.JobError{Stack: "s"}})
		})
		job, err := s.client.Wait(t.Context(), "j1")
		if err != nil || job.State != api.StateDeadLetter || job.LastError.Stack != "s" {
			t.Fatalf("Wait = %+v, %v", job, err)
		}
		first, last := polled[1].Sub(polled[0]), polled[len(polled)-1].Sub(polled[len(polled)-2])
		if first < 10*time.Millisecond || first > 20*time.Millisecond || last < 250*time.Millisecond || last > 500*time.Millisecond {
			t.Errorf("intervals go from %v to %v", first, last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		job, err = s.client.Wait(ctx, "j1")
		if !errors.Is(err, context.DeadlineExceeded) || job.State != api.StateRunning {
			t.Errorf("past the deadline Wait = %q, %v", job.State, err)
		}
	})
}
