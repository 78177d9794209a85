package cellclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

var errSilent = errors.New("no answer")

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// report lets one try through and tells how it ended.
func report(t *testing.T, b *breakers, c hop.Class, err error) {
	t.Helper()
	done, refused := b.try(c)
	if refused != nil {
		t.Fatal(refused)
	}
	done(err)
}

func TestTrips(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failed, well, inARow uint32
		want                 bool
	}{
		{0, 1000, 0, false},
		{19, 0, 19, false},
		{20, 0, 20, true},
		{20, 100_000, 20, true}, // core is gone; the old successes do not matter
		{10, 10, 1, true},
		{9, 11, 9, false},
		{400, 600, 5, false},
		{500, 500, 5, true},
	} {
		counts := gobreaker.Counts{TotalFailures: test.failed, TotalSuccesses: test.well, ConsecutiveFailures: test.inARow, Requests: 1 << 30}
		if got := trips(counts); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	left, leave := context.WithCancel(t.Context())
	leave()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	refused := func(status int, code problem.Code) reply {
		return reply{status: status, body: fmt.Appendf(nil, `{"code":%q}`, code)}
	}
	for _, test := range []struct {
		name    string
		caller  context.Context //nolint:containedctx // a table's
		answer  reply
		err     error
		failure bool
		ignored bool
	}{
		{"good", t.Context(), reply{status: 200}, nil, false, false},
		{"refused", t.Context(), refused(400, problem.InvalidJSON), nil, false, false},
		{"not ours", t.Context(), refused(401, problem.Unauthenticated), nil, false, false},
		{"too many", t.Context(), refused(429, problem.RateLimited), nil, false, false},
		{"sheds load", t.Context(), refused(503, problem.Overloaded), nil, false, false},
		{"of another cell", t.Context(), refused(503, problem.TenantMoving), nil, false, false},
		{"without its database", t.Context(), refused(503, problem.CoreUnavailable), nil, true, false},
		{"a proxy's page", t.Context(), reply{status: 503, body: []byte("<html>")}, nil, true, false},
		{"a bug", t.Context(), refused(500, problem.Internal), nil, true, false},
		{"no answer", t.Context(), reply{}, io.EOF, true, false},
		{"too slow", late, reply{}, context.DeadlineExceeded, true, false},
		{"a try too slow", t.Context(), reply{}, context.DeadlineExceeded, true, false},
		{"the caller has left", left, reply{}, context.Canceled, false, true},
		{"the caller has left, and core fails", left, reply{}, io.EOF, false, true},
		{"nonsense", t.Context(), reply{}, ErrContract, false, false},
	} {
		got := verdict(test.caller, test.answer, test.err)
		ignored := errors.Is(got, context.Canceled)
		if ignored != test.ignored || (got != nil && !ignored) != test.failure {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(30*time.Second, 2*time.Second, quiet())
		for range minJudged {
			report(t, b, hop.ClassSubmit, errSilent)
		}
		if _, err := b.try(hop.ClassSubmit); !b.open(hop.ClassSubmit) || !errors.Is(err, errOpen) {
			t.Fatalf("after %d failures in a row: %v", minJudged, err)
		}
		// The others go on.
		for c := range hop.OrderedClasses {
			if c != hop.ClassSubmit && b.open(c) {
				t.Errorf("%v is open as well", c)
			}
		}
		report(t, b, hop.ClassParked, errSilent)
		report(t, b, hop.ClassProbe, errSilent)

		time.Sleep(2*time.Second + time.Millisecond) // synctest's clock
		if b.open(hop.ClassSubmit) {
			t.Fatal("still open")
		}
		var probing []func(error)
		for range probes {
			done, err := b.try(hop.ClassSubmit)
			if err != nil {
				t.Fatal(err)
			}
			probing = append(probing, done)
		}
		if _, err := b.try(hop.ClassSubmit); !errors.Is(err, errOpen) {
			t.Fatalf("a probe more than may be: %v", err)
		}
		probing[0](context.Canceled) // whoever sent it has left: that says nothing, and another may try
		report(t, b, hop.ClassSubmit, nil)
		probing[1](nil)
		if b[hop.ClassSubmit].State() != gobreaker.StateHalfOpen {
			t.Fatalf("after two probes: %v", b[hop.ClassSubmit].State())
		}
		probing[2](nil)
		if b[hop.ClassSubmit].State() != gobreaker.StateClosed {
			t.Fatalf("after %d good probes: %v", probes, b[hop.ClassSubmit].State())
		}
	})
}

func TestProbeThatFailsOpensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(30*time.Second, 2*time.Second, quiet())
		for range minJudged {
			report(t, b, hop.ClassLease, errSilent)
		}
		time.Sleep(2*time.Second + time.Millisecond)
		report(t, b, hop.ClassLease, errSilent)
		if !b.open(hop.ClassLease) {
			t.Error("closed by a probe that failed")
		}
	})
}

// A call counts when it began: one that hangs for nearly the window still counts.
func TestCallsThatHangAreJudged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		b := newBreakers(2*timeout, time.Second, quiet())
		for range 10_000 {
			report(t, b, hop.ClassSubmit, nil)
		}
		var hanging []func(error)
		for range minJudged {
			done, err := b.try(hop.ClassSubmit)
			if err != nil {
				t.Fatal(err)
			}
			hanging = append(hanging, done)
		}
		time.Sleep(timeout)
		for _, done := range hanging {
			done(context.DeadlineExceeded)
		}
		if !b.open(hop.ClassSubmit) {
			t.Error("closed, though all calls of the last 10 s timed out")
		}
	})
}

// A caller that leaves is no failure of core's.
func TestLeavingIsNotCounted(t *testing.T) {
	t.Parallel()
	b := newBreakers(30*time.Second, 2*time.Second, quiet())
	for range 10 * minJudged {
		report(t, b, hop.ClassRead, context.Canceled)
	}
	if b.open(hop.ClassRead) {
		t.Error("opened by callers that left")
	}
}

// What failed long ago is forgotten.
func TestWindowRolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(30*time.Second, 2*time.Second, quiet())
		for range minJudged - 1 {
			report(t, b, hop.ClassList, errSilent)
		}
		time.Sleep(31 * time.Second)
		report(t, b, hop.ClassList, errSilent)
		if b.open(hop.ClassList) {
			t.Error("opened by failures of more than a window ago")
		}
	})
}
