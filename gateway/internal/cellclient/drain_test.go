package cellclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

type ended struct {
	result hop.Result[api.Whoami]
	err    error
}

// parkOne parks a call, and gives its end.
func parkOne(ctx context.Context, h fixture) <-chan ended {
	end := make(chan ended, 1)
	go func() {
		result, err := get(ctx, h.Cell, as(hop.ClaimJobs.Operation, hop.Writes).Parked())
		end <- ended{result, err}
	}()
	return end
}

func TestDrainEndsParkedCalls(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	claims := hang(core, hop.ClaimJobs.Path)
	works(core, hop.ReportOutcomes.Path)
	h := newHop(t, core.URL, cellclient.Limits{})
	var ends []<-chan ended
	for range 50 {
		ends = append(ends, parkOne(t.Context(), h))
	}
	until(t, "all are parked", func() bool { return claims.Load() == 50 })
	began := time.Now()
	h.Drain()
	h.Drain() // twice is once
	for _, end := range ends {
		if got := <-end; !errors.Is(got.err, cellclient.ErrCutShort) {
			t.Fatalf("%+v", got)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := <-parkOne(t.Context(), h); !errors.Is(got.err, cellclient.ErrCutShort) {
		t.Errorf("a claim after that: %+v", got)
	}
	if claims.Load() != 50 {
		t.Error("it was sent")
	}
	if _, err := get(t.Context(), h.Cell, as(hop.ReportOutcomes.Operation, hop.Repeatable)); err != nil {
		t.Errorf("an outcome: %v", err)
	}
}

// Core leases jobs for a parked claim at the moment when the call is hung up. The
// answer still arrives, or its jobs would be nobody's.
func TestAnAnswerUnderWayOutlivesTheHangUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(h fixture, leave func())
	}{
		{"the gateway drains", func(h fixture, _ func()) { h.Drain() }},
		{"the caller leaves", func(_ fixture, leave func()) { leave() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			core := coretest.New(t)
			parked, told := make(chan struct{}), make(chan struct{})
			core.Raw(hop.ClaimJobs.Path, func(w http.ResponseWriter, r *http.Request) {
				close(parked)
				<-r.Context().Done() // hung up
				close(told)
				_, _ = io.WriteString(w, `{"results":[{"status":200,"value":{"key_id":"leased"}}]}`)
			})
			h := newHop(t, core.URL, cellclient.Limits{})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			end := parkOne(ctx, h)
			<-parked
			test.end(h, leave)
			<-told
			if got := <-end; got.err != nil || got.result.Value == nil || got.result.Value.KeyID != "leased" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A core that does not even notice is cut off.
func TestHangUpIsNotForEver(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	parked, release := make(chan struct{}), make(chan struct{})
	core.Raw(hop.ClaimJobs.Path, func(http.ResponseWriter, *http.Request) {
		close(parked)
		<-release
	})
	defer close(release)
	h := newHop(t, core.URL, cellclient.Limits{})
	ctx, leave := context.WithCancel(t.Context())
	end := parkOne(ctx, h)
	<-parked
	leave()
	if got := <-end; !errors.Is(got.err, cellclient.ErrOutcomeUnknown) || !errors.Is(got.err, context.Canceled) {
		t.Errorf("%+v", got)
	}
}

// Hanging up one call must not close a connection that another has been given.
func TestHangUpTouchesNoOtherCall(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	works(core, hop.ClaimJobs.Path, hop.SubmitJobs.Path)
	h := newHop(t, core.URL, cellclient.Limits{})
	for range 500 {
		ctx, leave := context.WithCancel(t.Context())
		end := parkOne(ctx, h)
		go leave() // about when the answer is there
		_, err := get(t.Context(), h.Cell, as(hop.SubmitJobs.Operation, hop.Writes))
		if err != nil {
			t.Fatalf("a submit beside it: %v", err)
		}
		<-end
	}
}

func TestParkedCallHasADeadline(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	hang(core, hop.WaitForJob.Path)
	h := newHop(t, core.URL, cellclient.Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := get(ctx, h.Cell, as(hop.WaitForJob.Operation, hop.Reads).Parked()); !errors.Is(err, cellclient.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// A connection that has gone silent takes part of a call's time, not all of it.
func TestASilentConnectionCostsATry(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	first := make(chan struct{}, 1)
	first <- struct{}{}
	core.Raw(hop.ReportOutcomes.Path, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-first:
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, `{"results":[{"status":200,"value":{}}]}`)
		}
	})
	h := newHop(t, core.URL, cellclient.Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := get(ctx, h.Cell, as(hop.ReportOutcomes.Operation, hop.Repeatable)); err != nil {
		t.Errorf("%v", err)
	}
	if n := len(core.Requests(hop.ReportOutcomes.Path)); n != 2 {
		t.Errorf("sent %d times", n)
	}
}

// A connection that was hung up goes back among the idle ones. A call with a body
// larger than net/http's buffer finds out while it sends: nothing was sent, and the
// call goes on a connection of its own, without a doubt.
func TestALargeCallAfterAHangUp(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	claims := hang(core, hop.ClaimJobs.Path)
	works(core, hop.SubmitJobs.Path)
	h := newHop(t, core.URL, cellclient.Limits{})
	large := strings.Repeat("x", 200_000)
	for i := range 20 {
		ctx, leave := context.WithCancel(t.Context())
		parked := parkOne(ctx, h)
		until(t, "it is parked", func() bool { return claims.Load() == int64(i+1) })
		leave()
		<-parked
		result, err := cellclient.Call(t.Context(), h.Cell, hop.Op[hop.ID, api.Whoami]{Operation: as(hop.SubmitJobs.Operation, hop.Writes).Operation}, cellclient.How{}, hop.Item[hop.ID]{
			Principal: hop.Principal{Kind: hop.PrincipalTenant, Tenant: "t1"}, Request: hop.ID{ID: large},
		})
		if err != nil || result.Problem != nil {
			t.Fatalf("after %d hang-ups: %+v, %v", i+1, result, err)
		}
	}
}
