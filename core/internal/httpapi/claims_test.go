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
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func (f *fixture) parked() int {
	f.Helper()
	var n int
	if err := f.behind.QueryRow(f.Context(), `SELECT count(*) FROM workers WHERE worker_id LIKE 'parked%'`).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

func TestAClaimWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	answers := make(chan api.ClaimResponse, 1)
	claim := claimOf(20 * time.Second)
	claim.WorkerID = "parked"
	go func() { answers <- one[api.ClaimResponse](f, hop.ClaimJobs.Path, f.tenant, claim) }()
	celltest.Eventually(t, "the claim to come", func() bool { return f.parked() == 1 })
	id := f.submit()
	if got := <-answers; len(got.Jobs) != 1 || got.Jobs[0].ID != id {
		t.Errorf("claim = %+v", got)
	}
	start := time.Now()
	if got := one[api.ClaimResponse](f, hop.ClaimJobs.Path, f.tenant, claimOf(100*time.Millisecond)); got.Jobs == nil || len(got.Jobs) != 0 ||
		time.Since(start) < 100*time.Millisecond {
		t.Errorf("claim = %+v after %v", got, time.Since(start))
	}
	f.draining.Store(true)
	start = time.Now()
	if got := one[api.ClaimResponse](f, hop.ClaimJobs.Path, f.tenant, claim); len(got.Jobs) != 0 || time.Since(start) > 10*time.Second {
		t.Errorf("claim while draining = %+v after %v", got, time.Since(start))
	}
}

// The gateway says how long it still listens; an answer after that is nobody's.
func TestTheTimeoutHeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	claim := func(timeout string) (response, time.Duration) {
		t.Helper()
		r := f.request(t.Context(), hop.ClaimJobs.Path, envelope(item(f.tenant, claimOf(20*time.Second))))
		r.Header.Set(hop.TimeoutHeader, timeout)
		start := time.Now()
		return f.send(r), time.Since(start)
	}
	got, took := claim("200")
	result := decode[hop.Results[api.ClaimResponse]](f, got.body).Results[0]
	if took > 10*time.Second || result.Problem == nil || result.Problem.Code != problem.Overloaded || result.Problem.RetryAfterMS == nil {
		t.Errorf("after %v: %s", took, got.body)
	}
	id := f.submit()
	for _, garbage := range []string{"", "soon", "-1", "0", "999999999999999999999"} {
		got, _ = claim(garbage)
		jobs := decode[hop.Results[api.ClaimResponse]](f, got.body).Results[0].Value.Jobs
		if len(jobs) != 1 || jobs[0].ID != id {
			t.Fatalf("%q: %s", garbage, got.body)
		}
		f.outcome(f.tenant, api.OutcomeRequest{JobID: id, Kind: api.KindRelease, LeaseToken: jobs[0].LeaseToken})
	}
}

// The caller hangs up while its claim waits, and a job comes for it just then.
func TestACallerThatLeavesWhileItWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for round := range 5 {
		ctx, leave := context.WithCancel(t.Context())
		claim := claimOf(20 * time.Second)
		claim.WorkerID = fmt.Sprintf("parked-%d", round)
		request := f.request(ctx, hop.ClaimJobs.Path, envelope(item(f.tenant, claim)))
		left := make(chan error, 1)
		go func() {
			answered, err := f.client.Do(request)
			if err == nil {
				_ = answered.Body.Close()
			}
			left <- err
		}()
		celltest.Eventually(t, "the claim to come", func() bool { return f.parked() == round+1 })
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatalf("the claim ended with %v", err)
		}
		id := f.submit()
		f.untouched(id)
		f.exec(`DELETE FROM jobs`)
	}
}

// deaf is a connection that breaks as the answer is written.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// The statement has leased the jobs, and then the answer does not go out.
func TestAnAnswerThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, other := f.submit(), f.submit()
	body := envelope(item(f.tenant, claimOf(0)), item(platform(), claimOf(0)))
	f.handler.ServeHTTP(deaf{httptest.NewRecorder()}, f.request(t.Context(), hop.ClaimJobs.Path, body))
	f.untouched(id)
	f.untouched(other)
}

// The caller leaves while the statement is under way: the jobs are leased to
// nobody by the time that it ends.
func TestACallerThatLeavesDuringTheStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit()
	one[api.ClaimResponse](f, hop.ClaimJobs.Path, f.tenant, api.ClaimRequest{WorkerID: "w1", Queues: []string{"nothing"}})
	conn := celltest.Connect(t, f.url)
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.handler.ServeHTTP(httptest.NewRecorder(), f.request(ctx, hop.ClaimJobs.Path, envelope(item(f.tenant, claimOf(0)))))
	}()
	celltest.Eventually(t, "the statement to stand before the lock", func() bool {
		var n int
		err := f.behind.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n == 1
	})
	leave()
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	f.untouched(id)
}

func TestAPanicIsInternal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	broken := &httpapi.Server{Logger: f.logger, Verifier: verifier(), Draining: f.draining.Load, Bodies: httpapi.NewBodies(1 << 30)} // no store, no engine
	handler := broken.Handler(prometheus.NewRegistry())
	for _, path := range []string{hop.ClaimJobs.Path, hop.GetJob.Path} {
		recorder := httptest.NewRecorder()
		body := envelope(item(f.tenant, claimOf(0)))
		if path == hop.GetJob.Path {
			body = envelope(item(f.tenant, hop.ID{ID: "01a1fa61-e349-7a5a-9878-9bdc50fd0278"}))
		}
		handler.ServeHTTP(recorder, f.request(t.Context(), path, body))
		code := problem.Code("")
		if recorder.Code == http.StatusOK {
			if p := decode[hop.Results[api.ClaimResponse]](f, recorder.Body.Bytes()).Results[0].Problem; p != nil {
				code = p.Code
			}
		} else {
			code = decode[problem.Problem](f, recorder.Body.Bytes()).Code
		}
		if code != problem.Internal {
			t.Errorf("%s: %d %s", path, recorder.Code, recorder.Body)
		}
	}
	if !f.log.has("panicked") {
		t.Error("the log does not have the panic")
	}
}
