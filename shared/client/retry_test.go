package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

var aJob = api.SubmitRequest{Type: "greet"}

func TestSubmitKeepsItsKeyOverRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			switch n {
			case 0:
				refuse(w, problem.OutcomeUnknown)
			case 1:
				breakOff(w)
			case 2:
				refuse(w, problem.IdempotencyInFlight)
			default:
				answer(w, http.StatusAccepted, api.SubmitResponse{JobSummary: api.JobSummary{ID: "j1"}})
			}
		})
		job, err := s.client.Submit(t.Context(), aJob)
		if err != nil || job.ID != "j1" {
			t.Fatalf("Submit = %+v, %v", job.ID, err)
		}
		tries := s.all()
		key := tries[0].Header.Get("Idempotency-Key")
		if len(tries) != 4 || len(key) < 22 {
			t.Fatalf("%d tries with the key %q", len(tries), key)
		}
		for i, try := range tries {
			if got := try.Header.Get("Idempotency-Key"); got != key || try.Body != `{"type":"greet"}` {
				t.Errorf("try %d has key %q and body %s", i, got, try.Body)
			}
		}
		if _, err := s.client.Submit(t.Context(), aJob); err != nil {
			t.Fatal(err)
		}
		if again := s.all()[4].Header.Get("Idempotency-Key"); again == key {
			t.Error("two submits share a key")
		}
		if _, err := s.client.SubmitBatch(t.Context(), api.BatchRequest{Jobs: []api.SubmitRequest{aJob}}, client.WithIdempotencyKey("mine")); err != nil {
			t.Fatal(err)
		}
		if given := s.all()[5].Header.Get("Idempotency-Key"); given != "mine" {
			t.Errorf("the given key became %q", given)
		}
	})
}

func TestFourTriesAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		start := time.Now()
		_, err := s.client.Get(t.Context(), "j1")
		if client.Status(err) != http.StatusBadGateway || len(s.all()) != 4 {
			t.Fatalf("%d tries, %v", len(s.all()), err)
		}
		if took := time.Since(start); took > 250*7*time.Millisecond+time.Second/100 {
			t.Errorf("the waits took %v together", took)
		}
	})
}

func TestWaitsAsTheServerAsks(t *testing.T) {
	t.Parallel()
	slack := 260 * time.Millisecond // the first retry's own jitter
	for name, test := range map[string]struct {
		refusal  func(w http.ResponseWriter)
		deadline time.Duration
		tries    int
		low      time.Duration
	}{
		"retry_after_ms": {func(w http.ResponseWriter) {
			problem.New(problem.RateLimited, "").WithRetryAfter(1500 * time.Millisecond).Write(w)
		}, time.Minute, 2, 1500 * time.Millisecond},
		"Retry-After without a problem": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, time.Minute, 2, 3 * time.Second},
		"Retry-After as a date": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", time.Now().Add(7*time.Second).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
		}, time.Minute, 2, 7 * time.Second},
		"beyond the deadline": {func(w http.ResponseWriter) {
			problem.New(problem.RateLimited, "").WithRetryAfter(5 * time.Second).Write(w)
		}, 4 * time.Second, 1, 0},
		"would_wait": {func(w http.ResponseWriter) {
			problem.New(problem.WouldWait, "").WithRetryAfter(time.Second).Write(w)
		}, time.Minute, 1, 0},
		"longer than anybody waits": {func(w http.ResponseWriter) {
			problem.New(problem.RateLimited, "").WithRetryAfter(time.Hour).Write(w)
		}, 2 * time.Hour, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
					if n == 0 {
						test.refusal(w)
						return
					}
					answer(w, http.StatusAccepted, api.SubmitResponse{})
				})
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				start := time.Now()
				_, err := s.client.Submit(ctx, aJob)
				took := time.Since(start)
				if (err == nil) != (test.tries == 2) || len(s.all()) != test.tries {
					t.Fatalf("%d tries, error %v", len(s.all()), err)
				}
				if took < test.low || took > test.low+slack {
					t.Errorf("took %v, want %v and at most %v more", took, test.low, slack)
				}
				if err != nil && client.Status(err) != http.StatusTooManyRequests {
					t.Errorf("the refusal is hidden: %v", err)
				}
			})
		})
	}
}

func TestBudgetSparesADeadServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { refuse(w, problem.CoreUnavailable) })
		const calls = 200
		for range calls {
			if _, err := s.client.Submit(t.Context(), aJob); err == nil {
				t.Fatal("a submit went through")
			}
		}
		// Ten at the start, and one for every ten calls.
		if got := len(s.all()); got < calls+10 || got > calls+10+calls/10 {
			t.Errorf("%d requests for %d calls", got, calls)
		}
	})
}

func TestBudgetIsNotSpentOnAnAppointment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n%2 == 0 {
				problem.New(problem.RateLimited, "").WithRetryAfter(time.Second).Write(w)
				return
			}
			answer(w, http.StatusAccepted, api.SubmitResponse{})
		})
		for i := range 50 {
			if _, err := s.client.Submit(t.Context(), aJob); err != nil {
				t.Fatalf("submit %d: %v", i, err)
			}
		}
	})
}

func TestClaimIsRepeatedOnlyWhenNothingWasWritten(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w http.ResponseWriter){
		"503":    func(w http.ResponseWriter) { refuse(w, problem.CoreUnavailable) },
		"broken": breakOff,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { spoil(w) })
				_, err := s.client.Claim(t.Context(), api.ClaimRequest{WorkerID: "w", Queues: []string{"default"}})
				if err == nil || len(s.all()) != 1 {
					t.Errorf("%d tries, error %v", len(s.all()), err)
				}
				if _, err := s.client.CreateTenant(t.Context(), api.TenantRequest{Name: "a"}); err == nil || len(s.all()) != 2 {
					t.Errorf("a tenant was tried %d times, error %v", len(s.all())-1, err)
				}
				if _, err := s.client.Redrive(t.Context(), "j1"); err == nil || len(s.all()) != 3 {
					t.Errorf("a redrive was tried %d times, error %v", len(s.all())-2, err)
				}
				if _, err := s.client.RedriveDeadLetters(t.Context(), []string{"j1"}); err == nil || len(s.all()) != 4 {
					t.Errorf("redrives were tried %d times, error %v", len(s.all())-3, err)
				}
				if _, err := s.client.DiscardDeadLetters(t.Context(), []string{"j1"}); err == nil || len(s.all()) != 5 {
					t.Errorf("a discard was tried %d times, error %v", len(s.all())-4, err)
				}
				if _, err := s.client.RedriveDryRun(t.Context(), []string{"j1"}); err == nil || len(s.all()) != 9 {
					t.Errorf("a dry run was tried %d times, error %v", len(s.all())-5, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, api.ClaimResponse{}) })
		s.failDials = 2
		if _, err := s.client.Claim(t.Context(), api.ClaimRequest{WorkerID: "w", Queues: []string{"default"}}); err != nil {
			t.Errorf("a claim that never left was not tried again: %v", err)
		}
	})
}

func TestATryWithoutAnAnswerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				<-r.Context().Done()
				return
			}
			answer(w, http.StatusOK, api.Outcome{State: api.StateCompleted})
		})
		start := time.Now()
		outcome, err := s.client.Complete(t.Context(), "j1", api.CompleteRequest{LeaseToken: "t"})
		if err != nil || outcome.State != api.StateCompleted {
			t.Fatalf("Complete = %+v, %v", outcome, err)
		}
		if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestTheCallersContextEndsTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			problem.New(problem.RateLimited, "later").WithRetryAfter(30 * time.Second).Write(w)
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := s.client.Submit(ctx, aJob)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "rate_limited") {
			t.Errorf("the error tells half of it: %v", err)
		}
	})
}

func TestOneTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { refuse(w, problem.CoreUnavailable) })
		_, err := s.client.Submit(t.Context(), aJob, client.WithOneTry())
		if client.Status(err) != http.StatusServiceUnavailable || len(s.all()) != 1 {
			t.Errorf("%d tries, then %v", len(s.all()), err)
		}
	})
}

// A client made with OneTry repeats no call, not even a read.
func TestAClientOfOneTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		once := func(o *client.Options) { o.OneTry = true }
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { refuse(w, problem.CoreUnavailable) }, once)
		if _, err := s.client.Get(t.Context(), "j1"); client.Status(err) != http.StatusServiceUnavailable || len(s.all()) != 1 {
			t.Errorf("%d tries, then %v", len(s.all()), err)
		}
	})
}
