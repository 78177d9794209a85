package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// The gateway says how long it still listens; an answer after that is nobody's.
func TestTheTimeoutHeader(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	claim := func(timeout string) (calltest.Response, time.Duration) {
		t.Helper()
		r := f.Request(t.Context(), hop.ClaimJobs.Path, calltest.Envelope(calltest.Item(f.Tenant, calltest.ClaimOf(20*time.Second))))
		r.Header.Set(hop.TimeoutHeader, timeout)
		start := time.Now()
		return f.Send(r), time.Since(start)
	}
	got, took := claim("200")
	result := calltest.Decode[hop.Results[api.ClaimResponse]](f, got.Body).Results[0]
	if took > 10*time.Second || result.Problem == nil || result.Problem.Code != problem.Overloaded || result.Problem.RetryAfterMS == nil {
		t.Errorf("after %v: %s", took, got.Body)
	}
	id := f.Submit()
	for _, garbage := range []string{"", "soon", "-1", "0", "999999999999999999999"} {
		got, _ = claim(garbage)
		jobs := calltest.Decode[hop.Results[api.ClaimResponse]](f, got.Body).Results[0].Value.Jobs
		if len(jobs) != 1 || jobs[0].ID != id {
			t.Fatalf("%q: %s", garbage, got.Body)
		}
		f.Outcome(f.Tenant, api.OutcomeRequest{JobID: id, Kind: api.KindRelease, LeaseToken: jobs[0].LeaseToken})
	}
}

// The caller hangs up while its claim waits, and a job comes for it just then.
func TestACallerThatLeavesWhileItWaits(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for round := range 5 {
		ctx, leave := context.WithCancel(t.Context())
		claim := calltest.ClaimOf(20 * time.Second)
		claim.WorkerID = fmt.Sprintf("parked-%d", round)
		request := f.Request(ctx, hop.ClaimJobs.Path, calltest.Envelope(calltest.Item(f.Tenant, claim)))
		left := make(chan error, 1)
		go func() {
			answered, err := f.Client.Do(request)
			if err == nil {
				_ = answered.Body.Close()
			}
			left <- err
		}()
		celltest.Eventually(t, "the claim to come", func() bool { return f.Parked() == round+1 })
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatalf("the claim ended with %v", err)
		}
		id := f.Submit()
		f.Untouched(id)
		f.Exec(`DELETE FROM jobs`)
	}
}

// deaf is a connection that breaks as the answer is written.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// The statement has leased the jobs, and then the answer does not go out.
func TestAnAnswerThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id, other := f.Submit(), f.Submit()
	body := calltest.Envelope(calltest.Item(f.Tenant, calltest.ClaimOf(0)), calltest.Item(calltest.Platform(), calltest.ClaimOf(0)))
	f.Handler.ServeHTTP(deaf{httptest.NewRecorder()}, f.Request(t.Context(), hop.ClaimJobs.Path, body))
	f.Untouched(id)
	f.Untouched(other)
}

// The caller leaves while the statement is under way: the jobs are leased to
// nobody by the time that it ends.
func TestACallerThatLeavesDuringTheStatement(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := f.Submit()
	calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, f.Tenant, api.ClaimRequest{WorkerID: "w1", Queues: []string{"nothing"}})
	conn := celltest.Connect(t, f.URL)
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Handler.ServeHTTP(httptest.NewRecorder(), f.Request(ctx, hop.ClaimJobs.Path, calltest.Envelope(calltest.Item(f.Tenant, calltest.ClaimOf(0)))))
	}()
	celltest.Eventually(t, "the statement to stand before the lock", func() bool {
		var n int
		err := f.Behind.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n == 1
	})
	leave()
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	f.Untouched(id)
}

func TestAPanicIsInternal(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	broken := &httpapi.Server{Logger: f.Logger, Verifier: calltest.Verifier(), Draining: f.Draining.Load, Bodies: httpapi.NewBodies(1 << 30)} // no store, no engine
	handler := broken.Handler(prometheus.NewRegistry())
	for _, path := range []string{hop.ClaimJobs.Path, hop.GetJob.Path} {
		recorder := httptest.NewRecorder()
		body := calltest.Envelope(calltest.Item(f.Tenant, calltest.ClaimOf(0)))
		if path == hop.GetJob.Path {
			body = calltest.Envelope(calltest.Item(f.Tenant, hop.ID{ID: "01a1fa61-e349-7a5a-9878-9bdc50fd0278"}))
		}
		handler.ServeHTTP(recorder, f.Request(t.Context(), path, body))
		code := problem.Code("")
		if recorder.Code == http.StatusOK {
			if p := calltest.Decode[hop.Results[api.ClaimResponse]](f, recorder.Body.Bytes()).Results[0].Problem; p != nil {
				code = p.Code
			}
		} else {
			code = calltest.Decode[problem.Problem](f, recorder.Body.Bytes()).Code
		}
		if code != problem.Internal {
			t.Errorf("%s: %d %s", path, recorder.Code, recorder.Body)
		}
	}
	if !f.Logged.Has("panicked") {
		t.Error("the log does not have the panic")
	}
}
