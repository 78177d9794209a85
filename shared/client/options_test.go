package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestTracesTravelWithSubmits(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 0 {
				refuse(w, problem.OutcomeUnknown) // the retry carries them too
				return
			}
			answer(w, http.StatusAccepted, map[string]any{})
		})
		c, ctx := s.client, t.Context()
		for _, test := range []struct {
			options            []client.CallOption
			correlation, trace []string
		}{
			{[]client.CallOption{client.WithCorrelationID("order 17"), client.WithTraceparent(trace)}, []string{"order 17"}, []string{trace}},
			{nil, nil, nil},
			{[]client.CallOption{client.WithCorrelationID(""), client.WithTraceparent("")}, nil, nil},
			// What no header can carry, or the server would not take, must not fail the submit.
			{[]client.CallOption{client.WithCorrelationID("a\nb"), client.WithTraceparent("é")}, nil, nil},
			{[]client.CallOption{client.WithCorrelationID(strings.Repeat("x", 129))}, nil, nil},
		} {
			if _, err := c.Submit(ctx, aJob, test.options...); err != nil {
				t.Fatal(err)
			}
			if _, err := c.SubmitBatch(ctx, api.BatchRequest{Jobs: []api.SubmitRequest{aJob}}, test.options...); err != nil {
				t.Fatal(err)
			}
			requests := s.all()
			for _, sent := range requests[len(requests)-2:] {
				if got := sent.Header.Values("X-Correlation-Id"); strings.Join(got, "|") != strings.Join(test.correlation, "|") {
					t.Errorf("%s sent the correlation id %q", sent.Path, got)
				}
				if got := sent.Header.Values("Traceparent"); strings.Join(got, "|") != strings.Join(test.trace, "|") {
					t.Errorf("%s sent the trace %q", sent.Path, got)
				}
			}
		}
		if first, again := s.all()[0], s.all()[1]; first.Header.Get("X-Correlation-Id") != "order 17" || again.Header.Get("Traceparent") != trace {
			t.Error("the first try or its repeat has lost them")
		}
	})
}

func TestAKeyThatNoHeaderCanCarryIsNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusAccepted, map[string]any{}) })
		_, err := s.client.Submit(t.Context(), aJob, client.WithIdempotencyKey("a\r\nb"))
		var refused *problem.Problem
		if !errors.As(err, &refused) || refused.Code != problem.IdempotencyKeyInvalid || len(s.all()) != 0 {
			t.Errorf("%d tries, error %v", len(s.all()), err)
		}
		if _, err := s.client.Submit(t.Context(), aJob, client.WithIdempotencyKey("")); err != nil || len(s.all()[0].Header.Get("Idempotency-Key")) < 22 {
			t.Errorf("an empty key was not replaced: %v", err)
		}
	})
}

func TestReadyGivesTheAnswerAndTheError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handle func(w http.ResponseWriter)
		status int // of the error; 0 for none
		want   string
	}{
		"well": {func(w http.ResponseWriter) {
			answer(w, http.StatusOK, api.Readiness{Status: "degraded", Checks: map[string]string{"redis": "down"}})
		}, 0, "degraded down"},
		"draining": {func(w http.ResponseWriter) {
			answer(w, http.StatusServiceUnavailable, api.Readiness{Status: "draining", Checks: map[string]string{"redis": "ok"}})
		}, http.StatusServiceUnavailable, "draining ok"},
		"a proxy without a gateway": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, http.StatusServiceUnavailable, " "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { test.handle(w) })
				got, err := s.client.Ready(t.Context())
				if text := got.Status + " " + got.Checks["redis"]; text != test.want || client.Status(err) != test.status || (err == nil) != (test.status == 0) {
					t.Errorf("Ready = %q, %v", text, err)
				}
				if len(s.all()) != 1 {
					t.Errorf("asked %d times", len(s.all()))
				}
			})
		})
	}
}

func TestAllWalksOverShortPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := func(token string) *string { return &token }
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if size := r.URL.Query().Get("page_size"); size != "200" {
				t.Errorf("page_size is %q", size)
			}
			page := api.Page[api.Queue]{}
			switch r.URL.Query().Get("page_token") {
			case "":
				page = api.Page[api.Queue]{Items: []api.Queue{{Name: "a"}, {Name: "b"}}, NextPageToken: next("2")}
			case "2":
				page.NextPageToken = next("3") // empty, and not the end
			case "3":
				page = api.Page[api.Queue]{Items: []api.Queue{{Name: "c"}}, NextPageToken: next("4")}
			default:
				refuse(w, problem.InvalidRequest)
				return
			}
			answer(w, http.StatusOK, page)
		})
		var walked string
		var last error
		for queue, err := range client.All(t.Context(), s.client.Queues) {
			walked, last = walked+queue.Name, err
		}
		if walked != "abc" || client.Status(last) != http.StatusBadRequest || len(s.all()) != 4 {
			t.Errorf("walked over %q, then %v", walked, last)
		}
		for range client.All(t.Context(), s.client.Queues) {
			break
		}
		if len(s.all()) != 5 {
			t.Error("a walk that was left went on")
		}
	})
}
