package cellclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// fickle is a core that, like one about to stop, takes kept connections away just
// as they are used: every so many requests are read and get no answer. A request
// on a new connection is always answered.
func fickle(t *testing.T, every int64) (url string, cut *atomic.Int64) {
	t.Helper()
	var served atomic.Int64
	cut = new(atomic.Int64)
	// Of each connection whether it has served before. Not by its address: a port is soon used again.
	type kept struct{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		before, _ := r.Context().Value(kept{}).(*atomic.Bool)
		if before.Swap(true) && served.Add(1)%every == 0 {
			cut.Add(1)
			panic(http.ErrAbortHandler) // closes the connection, as Shutdown does with an idle one
		}
		_, _ = io.WriteString(w, `{"results":[{"status":200,"value":{}}]}`)
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, kept{}, new(atomic.Bool))
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, cut
}

// hammered is how many calls hammer makes.
const hammered = 1600

// hammer makes calls from many goroutines and gives how many failed.
func hammer(t *testing.T, h fixture, op try) (failed int64) {
	t.Helper()
	var lost atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range hammered / 16 {
				_, err := get(t.Context(), h.Cell, op)
				if err != nil && !errors.Is(err, cellclient.ErrOutcomeUnknown) {
					t.Errorf("%v", err)
				}
				if err != nil {
					lost.Add(1)
				}
			}
		})
	}
	group.Wait()
	return lost.Load()
}

// Connections that close under a call cost no heartbeat and no outcome; a plain
// write, which nobody may repeat, pays for each of them: so the fault is real.
func TestKeepAliveRaceCostsNoOutcome(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		op      try
		repeats bool
	}{
		{"heartbeat", as(hop.Heartbeat.Operation, hop.Repeatable), true},
		{"outcome", as(hop.ReportOutcomes.Operation, hop.Repeatable), true},
		{"keyed submit", as(hop.SubmitJobs.Operation, hop.Keyed), true},
		{"control: a write", as(hop.SubmitJobs.Operation, hop.Writes), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, cut := fickle(t, 20)
			h := newHop(t, url, cellclient.Limits{})
			failed := hammer(t, h, test.op)
			if cut.Load() < 20 {
				t.Fatalf("only %d connections were cut", cut.Load())
			}
			want := int64(0)
			if !test.repeats {
				want = cut.Load()
			}
			repeats := h.metric(t, "forgequeue_hop_retries_total", "reply_lost")
			if failed != want || (repeats > 0) != test.repeats {
				t.Errorf("%d of %d calls failed, want %d; %d connections were cut, %v calls repeated", failed, hammered, want, cut.Load(), repeats)
			}
			t.Logf("%d calls, %d cut, %v repeated, %d outcome unknown", hammered, cut.Load(), repeats, failed)
		})
	}
}

// Where more than a tenth of all calls would be repeated, they are not.
func TestRepeatsAreBudgeted(t *testing.T) {
	t.Parallel()
	url, cut := fickle(t, 3)
	h := newHop(t, url, cellclient.Limits{})
	failed := hammer(t, h, as(hop.ReportOutcomes.Operation, hop.Repeatable))
	repeats := h.metric(t, "forgequeue_hop_retries_total")
	exhausted := h.metric(t, "forgequeue_hop_retry_budget_exhausted_total")
	// What is saved up at the start is 200.
	if repeats > hammered/10+200 || repeats < 200 || exhausted == 0 || failed == 0 {
		t.Errorf("%d cut: %v repeats, %v without budget, %d failed", cut.Load(), repeats, exhausted, failed)
	}
}

// The first try of an outcome is lost, and the repeat finds core without its
// database: nobody may say that nothing was changed.
func TestDoubtReachesEachOutcome(t *testing.T) {
	t.Parallel()
	after := int64(700)
	down := problem.New(problem.CoreUnavailable, "Nothing was changed.")
	down.RetryAfterMS = &after
	gone := problem.New(problem.LeaseLost, "It is another's now.")
	answer, err := json.Marshal(hop.Results[api.OutcomesResponse]{Results: []hop.Result[api.OutcomesResponse]{{
		Status: 200, Value: &api.OutcomesResponse{Results: []api.OutcomeResult{
			{Index: 0, Status: 200, Outcome: &api.Outcome{State: "completed"}},
			{Index: 1, Status: down.Status, Problem: down},
			{Index: 2, Status: gone.Status, Problem: gone},
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, doubt := range []bool{true, false} {
		url, connections := failing(t, func(n int64, connection net.Conn) {
			readRequest(connection)
			if n > 1 || !doubt {
				_, _ = connection.Write([]byte(respond("200 OK", "application/json", answer)))
			}
		})
		result, err := cellclient.Call(t.Context(), newHop(t, url, cellclient.Limits{}).Cell,
			hop.ReportOutcomes, cellclient.How{}, hop.Item[api.OutcomesRequest]{Request: api.OutcomesRequest{Outcomes: []api.OutcomeRequest{{JobID: "<}}>"}}}})
		if err != nil || result.Value == nil {
			t.Fatalf("%v after %d connections", err, connections.Load())
		}
		got := result.Value.Results
		want := problem.CoreUnavailable
		if doubt {
			want = problem.OutcomeUnknown
		}
		if got[0].Problem != nil || got[1].Problem.Code != want || got[1].Status != 503 || *got[1].Problem.RetryAfterMS != 700 || got[2].Problem.Code != problem.LeaseLost {
			t.Errorf("doubt %v: %+v", doubt, got)
		}
	}
}

// Every kept connection is about to be closed: the repeat must not go to another
// of them.
func TestTheRepeatTakesANewConnection(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	both := make(chan struct{}, 2)
	together := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if _, kept := seen.LoadOrStore(r.RemoteAddr, true); kept {
			panic(http.ErrAbortHandler)
		}
		select {
		case both <- struct{}{}: // the first two have a connection each
			<-together
		default:
		}
		_, _ = io.WriteString(w, `{"results":[{"status":200,"value":{}}]}`)
	}))
	t.Cleanup(server.Close)
	h := newHop(t, server.URL, cellclient.Limits{})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if _, err := get(t.Context(), h.Cell, as(hop.ReportOutcomes.Operation, hop.Repeatable)); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "two connections", func() bool { return len(both) == 2 })
	close(together)
	group.Wait()
	if _, err := get(t.Context(), h.Cell, as(hop.ReportOutcomes.Operation, hop.Repeatable)); err != nil {
		t.Errorf("%v", err)
	}
	if repeats := h.metric(t, "forgequeue_hop_retries_total", "lease", "reply_lost"); repeats != 1 {
		t.Errorf("%v repeats: no connection was cut", repeats)
	}
}
