package cellclient_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// Cores whose clocks are two hours apart answer in turn behind one address: no call
// fails for it, of those that are repeated otherwise and of those that are not.
func TestCoresWithDifferentClocks(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	var looks atomic.Int64
	core.Now = func() time.Time {
		ahead := time.Hour
		// A refused call looks at the clock twice; after six refusals it stays with one core.
		if n := looks.Add(1) - 1; n < 12 && n/2%2 == 1 {
			ahead = -time.Hour
		}
		return time.Now().Add(ahead)
	}
	works(core, hop.GetJob.Path, hop.ClaimJobs.Path)
	h := newHop(t, core.URL, cellclient.Limits{})
	for _, op := range []try{as(hop.GetJob.Operation, hop.Reads), as(hop.ClaimJobs.Operation, hop.Writes), as(hop.ClaimJobs.Operation, hop.Writes).Parked()} {
		looks.Store(2) // the other core than the last one
		if _, err := get(t.Context(), h.Cell, op); err != nil {
			t.Errorf("after %d looks at core's clock: %v", looks.Load(), err)
		}
	}
}

// The same, by connection, and with many calls at once: what one of them learns of its
// core's clock is no news of the other core's.
func TestManyCallsToCoresWithDifferentClocks(t *testing.T) {
	t.Parallel()
	cores := []*coretest.Core{coretest.New(t), coretest.New(t)}
	var looks atomic.Int64
	for i, ahead := range []time.Duration{time.Hour, -time.Hour} {
		cores[i].Now = func() time.Time {
			looks.Add(1)
			return time.Now().Add(ahead)
		}
		works(cores[i], hop.GetJob.Path, hop.ClaimJobs.Path)
	}
	h := newHop(t, inTurn(t, cores), cellclient.Limits{})
	const callers, calls = 16, 50
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				if _, err := get(t.Context(), h.Cell, as(hop.GetJob.Operation, hop.Reads)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	// A refused call looks at the clock twice. Each connection learns its core's clock once.
	if refused := (looks.Load() - callers*calls) / 2; refused > 4*callers {
		t.Errorf("%d of %d calls were refused for their time", refused, callers*calls)
	}
}

// inTurn gives one address for several cores: each connection goes to the next one.
func inTurn(t *testing.T, cores []*coretest.Core) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	group.Go(func() {
		for n := 0; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			core, err := net.Dial("tcp", strings.TrimPrefix(cores[n%len(cores)].URL, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			for _, way := range [][2]net.Conn{{client, core}, {core, client}} {
				group.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = client.Close(), core.Close()
				})
			}
		}
	})
	return "http://" + listener.Addr().String()
}

// No two calls have the same body, and so the same signature.
func TestEveryCallHasItsNonce(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	works(core, hop.GetJob.Path)
	h := newHop(t, core.URL, cellclient.Limits{})
	seen := map[string]bool{}
	for range 10 {
		if _, err := get(t.Context(), h.Cell, as(hop.GetJob.Operation, hop.Reads)); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range core.Requests(hop.GetJob.Path) {
		seen[string(request.Body)] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d different bodies of 10", len(seen))
	}
}

// A copy of a signed call came to core before the call: a write is not made again, and
// its caller learns that it may have been made.
func TestACopyCameFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op    try
		asked int64
		want  error
	}{
		"a write":       {as(hop.SubmitJobs.Operation, hop.Writes), 1, cellclient.ErrOutcomeUnknown},
		"a claim":       {as(hop.ClaimJobs.Operation, hop.Writes).Parked(), 1, cellclient.ErrOutcomeUnknown},
		"a read":        {as(hop.GetJob.Operation, hop.Reads), 2, nil},
		"a keyed write": {as(hop.SubmitJobs.Operation, hop.Keyed), 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core := coretest.New(t)
			var asked atomic.Int64
			for _, path := range []string{hop.SubmitJobs.Path, hop.ClaimJobs.Path, hop.GetJob.Path} {
				core.Raw(path, func(w http.ResponseWriter, _ *http.Request) {
					if asked.Add(1) > 1 {
						_, _ = w.Write([]byte(`{"results":[{"status":200,"value":{}}]}`))
						return
					}
					p := problem.New(problem.LeaseLost, "") // for its status
					p.Code = identity.TakenCode
					p.Write(w)
				})
			}
			h := newHop(t, core.URL, cellclient.Limits{})
			if _, err := get(t.Context(), h.Cell, c.op); !errors.Is(err, c.want) || asked.Load() != c.asked {
				t.Errorf("%v after %d calls, want %v", err, asked.Load(), c.want)
			}
		})
	}
}
