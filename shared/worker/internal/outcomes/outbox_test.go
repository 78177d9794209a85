package outcomes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/internal/pipenet"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker/internal/outcomes"
)

// started runs an outbox against a server that takes 10 ms for each request, and gives the number of outcomes in each.
func started(t *testing.T, answer func(w http.ResponseWriter, submits bool) bool) (outbox *outcomes.Outbox, requests func() []int) {
	t.Helper()
	var mu sync.Mutex
	var sizes []int
	listener := pipenet.New()
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request api.OutcomesRequest
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, json.Unmarshal(body, &request)); err != nil {
			t.Error(err)
		}
		n := max(len(request.Outcomes), 1)
		mu.Lock()
		sizes = append(sizes, n)
		mu.Unlock()
		<-time.After(10 * time.Millisecond)
		if answer != nil && answer(w, bytes.Contains(body, []byte(`"submit"`))) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/outcomes" {
			_ = json.NewEncoder(w).Encode(api.Outcome{State: api.StateCompleted})
			return
		}
		response := api.OutcomesResponse{Results: make([]api.OutcomeResult, n)}
		for i := range response.Results {
			response.Results[i] = api.OutcomeResult{Index: i, Status: http.StatusOK, Outcome: &api.Outcome{JobID: request.Outcomes[i].JobID}}
		}
		_ = json.NewEncoder(w).Encode(response)
	})}}
	server.Start()
	transport := &http.Transport{DialContext: listener.Dial}
	c, err := client.New(client.Options{URL: "http://forgequeue.test", APIKey: "fq_test", HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	outbox = outcomes.NewOutbox(c, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { outbox.Run(ctx) })
	t.Cleanup(func() {
		stop()
		run.Wait()
		transport.CloseIdleConnections()
		server.Close()
	})
	return outbox, func() []int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sizes)
	}
}

func never() time.Time { return time.Now().Add(time.Hour) }

func TestOutcomesThatComeDuringARequestShareTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outbox, requests := started(t, nil)
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				id := strconv.Itoa(i)
				if i > 0 {
					<-time.After(5 * time.Millisecond)
				}
				answer := outbox.Send(t.Context(), api.OutcomeRequest{JobID: id, Kind: api.KindComplete}, never)
				if answer.Err != nil || i > 0 && answer.Outcome.JobID != id {
					t.Errorf("%s: %+v", id, answer)
				}
			})
		}
		group.Wait()
		if sizes := requests(); !slices.Equal(sizes, []int{1, 99}) {
			t.Errorf("the requests had %v outcomes", sizes)
		}
	})
}

func TestAnOutcomeIsSentAgainUntilItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outbox, requests := started(t, func(w http.ResponseWriter, _ bool) bool {
			problem.New(problem.CoreUnavailable, "down").Write(w)
			return true
		})
		end := time.Now().Add(20 * time.Second)
		answer := outbox.Send(t.Context(), api.OutcomeRequest{JobID: "1", Kind: api.KindComplete}, func() time.Time { return end })
		if client.Status(answer.Err) != http.StatusServiceUnavailable || time.Now().Before(end) || len(requests()) < 4 {
			t.Errorf("%v after %v and %d requests", answer.Err, time.Since(end), len(requests()))
		}
	})
}

// Where a limit refuses a request for its submits, the other outcomes of it are sent at once, and so are later ones.
func TestALimitOnSubmitsDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		outbox, requests := started(t, func(w http.ResponseWriter, submits bool) bool {
			if !submits || time.Since(begun) > 20*time.Second {
				return false
			}
			p := problem.New(problem.RateLimited, "too many jobs")
			p.RetryAfterMS = new(int64(5000))
			p.Write(w)
			return true
		})
		var group sync.WaitGroup
		for i, submits := range []bool{false, true, false, true, false} {
			group.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond) // the first is alone, the others share the second request
				outcome := api.OutcomeRequest{JobID: strconv.Itoa(i), Kind: api.KindComplete}
				if submits {
					outcome.Submit = []api.SubmitRequest{{Type: "next"}}
				}
				answer := outbox.Send(t.Context(), outcome, never)
				if took := time.Since(begun); answer.Err != nil || submits != (took > 20*time.Second) || took > time.Minute || !submits && took > 100*time.Millisecond {
					t.Errorf("%d: %v after %v", i, answer.Err, took)
				}
			})
		}
		group.Wait()
		if sizes := requests(); !slices.Equal(sizes[:3], []int{1, 4, 2}) || len(sizes) > 15 {
			t.Errorf("the requests had %v outcomes", sizes)
		}
	})
}

func TestARefusalIsFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outbox, requests := started(t, func(w http.ResponseWriter, _ bool) bool {
			problem.New(problem.LeaseLost, "late").Write(w)
			return true
		})
		answer := outbox.Send(t.Context(), api.OutcomeRequest{JobID: "1", Kind: api.KindComplete}, never)
		if !outcomes.Final(client.Status(answer.Err)) || len(requests()) != 1 {
			t.Errorf("%v after %d requests", answer.Err, len(requests()))
		}
	})
}
