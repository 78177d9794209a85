package client_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestSubmitTellsOfAReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			switch n {
			case 1, 2:
				w.Header().Set("Idempotent-Replayed", "true")
			case 4:
				refuse(w, problem.IdempotencyMismatch)
				return
			}
			answer(w, http.StatusAccepted, map[string]any{})
		})
		replayed := true
		option := client.WithReplayed(&replayed)
		for n, want := range []bool{false, true, true, false} {
			var err error
			if n == 2 {
				_, err = s.client.SubmitBatch(t.Context(), api.BatchRequest{Jobs: []api.SubmitRequest{aJob}}, option)
			} else {
				_, err = s.client.Submit(t.Context(), aJob, option)
			}
			if err != nil || replayed != want {
				t.Errorf("call %d: replayed %v, want %v (%v)", n, replayed, want, err)
			}
		}
		replayed = true
		if _, err := s.client.Submit(t.Context(), aJob, option); err == nil || replayed {
			t.Errorf("a refusal: replayed %v (%v)", replayed, err)
		}
		replayed = true
		if _, err := s.client.Submit(t.Context(), aJob, option, client.WithIdempotencyKey("a\nb")); err == nil || replayed {
			t.Errorf("a key that cannot be sent: replayed %v (%v)", replayed, err)
		}
		if _, err := s.client.Submit(t.Context(), aJob, client.WithReplayed(nil)); err != nil {
			t.Error(err)
		}
	})
}

// summed answers a submit with the summary of a job.
func summed(w http.ResponseWriter, status int, state string) {
	answer(w, status, map[string]any{"id": "j1", "state": state, "warnings": []string{}, "deduplicated": status == http.StatusOK})
}

// completed answers with the whole job.
func completed(w http.ResponseWriter) {
	w.Header().Set("Preference-Applied", "wait=20")
	answer(w, http.StatusOK, map[string]any{"id": "j1", "state": api.StateCompleted, "result": "done"})
}

func TestSubmitAndWait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		submit   func(w http.ResponseWriter)
		requests int
	}{
		"ends while the submit is held": {completed, 1},
		"ends later":                    {func(w http.ResponseWriter) { summed(w, http.StatusAccepted, api.StateQueued) }, 2},
		"was there before":              {func(w http.ResponseWriter) { summed(w, http.StatusOK, api.StateQueued) }, 2},
		// The summary of a job, whatever its state, has no result.
		"was there, and ends": {func(w http.ResponseWriter) { summed(w, http.StatusOK, api.StateCompleted) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						test.submit(w)
						return
					}
					completed(w)
				})
				job, err := s.client.SubmitAndWait(t.Context(), aJob, client.WithIdempotencyKey("k"))
				if err != nil || job.ID != "j1" || string(job.Result) != `"done"` {
					t.Errorf("%+v, %v", job, err)
				}
				all := s.all()
				if len(all) != test.requests || all[0].Header.Get("Prefer") != "wait=20" || all[0].Header.Get("Idempotency-Key") != "k" {
					t.Errorf("the requests are %+v", all)
				}
			})
		})
	}
}

func TestSubmitAndWaitIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { refuse(w, problem.QueueFull) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if job, err := s.client.SubmitAndWait(ctx, aJob); client.Status(err) != http.StatusTooManyRequests || job.ID != "" {
			t.Errorf("%+v, %v", job, err)
		}
	})
}

// The caller learns which job it is that goes on without it.
func TestSubmitAndWaitTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				breakOff(w)
				return
			}
			if prefer := r.Header.Get("Prefer"); prefer != "wait=2" {
				t.Errorf("prefers %q", prefer)
			}
			<-time.After(2 * time.Second)
			summed(w, http.StatusAccepted, api.StateQueued)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		job, err := s.client.SubmitAndWait(ctx, aJob)
		if err == nil || job.ID != "j1" || job.State != api.StateQueued {
			t.Errorf("%+v, %v", job, err)
		}
	})
}

// A hold may last longer than a try without one.
func TestSubmitAndWaitIsNotCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 0 {
				<-time.After(45 * time.Second) // 20 held, and a slow way back
			}
			completed(w)
		})
		if _, err := s.client.SubmitAndWait(t.Context(), aJob); err != nil || len(s.all()) != 1 {
			t.Errorf("%v after %d tries", err, len(s.all()))
		}
	})
}
