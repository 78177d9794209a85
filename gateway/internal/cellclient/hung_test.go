package cellclient_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// fixture is a client with limits and metrics of its own.
type fixture struct {
	*cellclient.Cell
	registry *prometheus.Registry
}

func newHop(t *testing.T, url string, limits cellclient.Limits) fixture {
	t.Helper()
	registry := prometheus.NewRegistry()
	c, err := cellclient.New(cellclient.Options{
		URL: url, Secret: []byte(coretest.Secret), Logger: slog.New(slog.DiscardHandler), Limits: limits, Registry: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return fixture{c, registry}
}

// metric sums a metric over all series whose labels have these values.
func (h fixture) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	series:
		for _, series := range family.GetMetric() {
			has := map[string]bool{}
			for _, label := range series.GetLabel() {
				has[label.GetValue()] = true
			}
			for _, label := range labels {
				if !has[label] {
					continue series
				}
			}
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return sum
}

// until waits for what another goroutine is about to do.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-limit.C:
			t.Fatalf("%s: not within a minute", what)
		case <-again.C:
		}
	}
}

// hang makes core take calls to a path and never answer them.
func hang(core *coretest.Core, path string) (calls *atomic.Int64) {
	calls = new(atomic.Int64)
	core.Raw(path, func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		<-r.Context().Done()
	})
	return calls
}

func works(core *coretest.Core, paths ...string) {
	for _, path := range paths {
		core.On(path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Whoami{}) })
	}
}

// A thousand producers hang in core. Heartbeats, outcomes, key look-ups and claims
// have their places still; the producers that find none are told so.
func TestHeartbeatsGetThroughAHungCore(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	submits := hang(core, hop.SubmitJobs.Path)
	works(core, hop.Heartbeat.Path, hop.ReportOutcomes.Path, hop.ClaimJobs.Path)
	h := newHop(t, core.URL, cellclient.Limits{InFlight: 100})
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	const callers = 1000
	var group sync.WaitGroup
	var overloaded, other atomic.Int64
	for range callers {
		group.Go(func() {
			_, err := get(ctx, h.Cell, as(hop.SubmitJobs.Operation, hop.Writes))
			switch {
			case errors.Is(err, cellclient.ErrOverloaded):
				overloaded.Add(1)
			case err == nil:
				t.Error("a hung core answered")
			default:
				other.Add(1)
			}
		})
	}
	// 80 are in core, 200 wait for a turn that does not come, the rest leaves at once.
	until(t, "the line is full", func() bool { return submits.Load() == 80 && overloaded.Load() >= callers-280 })
	slowest := time.Duration(0)
	for range 100 {
		for _, op := range []try{
			as(hop.Heartbeat.Operation, hop.Repeatable), as(hop.ReportOutcomes.Operation, hop.Repeatable), as(hop.ClaimJobs.Operation, hop.Writes),
		} {
			began := time.Now()
			if _, err := get(t.Context(), h.Cell, op); err != nil {
				t.Fatalf("beside %d hung submits: %v", submits.Load(), err)
			}
			slowest = max(slowest, time.Since(began))
		}
		if _, _, err := h.LookUpKey(t.Context(), "abcdefghijkl"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if busy := h.metric(t, "forgequeue_hop_in_flight", "submit"); busy != 80 {
		t.Errorf("the metric says that %v submits are in flight", busy)
	}
	// A read comes after submits: it is not sent.
	if _, err := get(t.Context(), h.Cell, as(hop.GetJob.Operation, hop.Reads)); !errors.Is(err, cellclient.ErrOverloaded) {
		t.Errorf("a read: %v", err)
	}
	until(t, "those that waited are told", func() bool { return overloaded.Load() == callers-80 })
	giveUp()
	group.Wait()
	if submits.Load() != 80 || other.Load() != 80 {
		t.Errorf("core saw %d submits, %d had another end", submits.Load(), other.Load())
	}
	for _, reason := range []string{"queue_full", "waited"} {
		if h.metric(t, "forgequeue_hop_refusals_total", "submit", reason) == 0 {
			t.Errorf("no refusal with the reason %s", reason)
		}
	}
	until(t, "nothing is in flight", func() bool { return h.metric(t, "forgequeue_hop_in_flight") == 0 })
	t.Logf("slowest of 300 heartbeats, outcomes and claims beside 80 hung and 200 waiting submits: %v", slowest)
}

// Parked claims fill no place that others need, are bounded, and leave the breaker
// alone however they end.
func TestParkedCallsAreApart(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	claims := hang(core, hop.ClaimJobs.Path)
	works(core, hop.SubmitJobs.Path, hop.WaitForJob.Path)
	h := newHop(t, core.URL, cellclient.Limits{InFlight: 16, Parked: 64})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			if _, err := get(ctx, h.Cell, as(hop.ClaimJobs.Operation, hop.Writes).Parked()); err == nil {
				t.Error("a claim was answered")
			}
		})
	}
	until(t, "all are parked", func() bool { return claims.Load() == 64 })
	if _, err := get(t.Context(), h.Cell, as(hop.ClaimJobs.Operation, hop.Writes).Parked()); !errors.Is(err, cellclient.ErrNoPlace) {
		t.Errorf("one more: %v", err)
	}
	if _, err := get(t.Context(), h.Cell, as(hop.WaitForJob.Operation, hop.Reads).Parked()); err != nil {
		t.Errorf("a wait beside the claims: %v", err)
	}
	if h.metric(t, "forgequeue_hop_refusals_total", "parked", "parked_full") != 1 || h.metric(t, "forgequeue_hop_in_flight", "parked") != 64 {
		t.Error("the metrics do not say so")
	}
	if _, err := get(t.Context(), h.Cell, as(hop.SubmitJobs.Operation, hop.Writes)); err != nil {
		t.Errorf("a submit beside them: %v", err)
	}
	core.Raw(hop.ClaimJobs.Path, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	leave()
	group.Wait()
	for range 100 {
		if _, err := get(t.Context(), h.Cell, as(hop.ClaimJobs.Operation, hop.Writes).Parked()); !errors.Is(err, cellclient.ErrOutcomeUnknown) {
			t.Fatalf("a claim that was cut: %v", err)
		}
	}
	if state := h.metric(t, "forgequeue_hop_breaker_state"); state != 0 {
		t.Errorf("a breaker has moved: %v", state)
	}
	works(core, hop.ClaimJobs.Path)
	core.Raw(hop.ClaimJobs.Path, nil)
	if _, err := get(t.Context(), h.Cell, as(hop.ClaimJobs.Operation, hop.Writes)); err != nil {
		t.Errorf("a claim that does not wait: %v", err)
	}
}

// An open breaker answers at once, says that nothing was changed, and lets the
// other classes through.
func TestOpenBreakerIsDefinite(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.Raw(hop.SubmitJobs.Path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	works(core, hop.Heartbeat.Path)
	const open = 500 * time.Millisecond
	h := newHop(t, core.URL, cellclient.Limits{BreakerOpen: open})
	opened := time.Now()
	for h.metric(t, "forgequeue_hop_breaker_state", "submit") != 2 {
		if _, err := get(t.Context(), h.Cell, as(hop.SubmitJobs.Operation, hop.Writes)); !errors.Is(err, cellclient.ErrOutcomeUnknown) {
			t.Fatalf("a proxy's 502: %v", err)
		}
		opened = time.Now()
	}
	asked := len(core.Requests(hop.SubmitJobs.Path))
	for range 100 {
		_, err := get(t.Context(), h.Cell, as(hop.SubmitJobs.Operation, hop.Keyed))
		if time.Since(opened) > open/2 {
			break // it may be half-open soon
		}
		if !errors.Is(err, cellclient.ErrUnavailable) || errors.Is(err, cellclient.ErrOutcomeUnknown) {
			t.Fatalf("open: %v", err)
		}
	}
	if refused := h.metric(t, "forgequeue_hop_refusals_total", "submit", "breaker_open"); refused == 0 {
		t.Error("no refusal was counted")
	}
	if asked > 40 {
		t.Errorf("core was asked %d times before the breaker opened", asked)
	}
	if _, err := get(t.Context(), h.Cell, as(hop.Heartbeat.Operation, hop.Repeatable)); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
	works(core, hop.SubmitJobs.Path)
	core.Raw(hop.SubmitJobs.Path, nil)
	until(t, "closed again", func() bool {
		_, err := get(t.Context(), h.Cell, as(hop.SubmitJobs.Operation, hop.Writes))
		return err == nil && h.metric(t, "forgequeue_hop_breaker_state", "submit") == 0
	})
}

// A core that sheds load answers; it must not be cut off for it.
func TestShedLoadLeavesTheBreakerClosed(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.Raw(hop.SubmitJobs.Path, func(w http.ResponseWriter, _ *http.Request) { problem.New(problem.Overloaded, "busy").Write(w) })
	core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.CoreUnavailable, "no database") })
	h := newHop(t, core.URL, cellclient.Limits{})
	for range 200 {
		_, err := get(t.Context(), h.Cell, as(hop.SubmitJobs.Operation, hop.Writes))
		if p, ok := problem.From(err); !ok || p.Code != problem.Overloaded {
			t.Fatal(err)
		}
		if _, err := get(t.Context(), h.Cell, as(hop.GetJob.Operation, hop.Reads)); err != nil {
			t.Fatal(err)
		}
	}
	if state := h.metric(t, "forgequeue_hop_breaker_state"); state != 0 {
		t.Errorf("a breaker has moved: %v", state)
	}
}
