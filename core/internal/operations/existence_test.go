package operations_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// What is refused because it is not there, or is of another kind, is refused without counting jobs: here
// nobody can read them.
func TestRefusalsCountNoJobs(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, hop.Put[api.QueueRequest]{Name: "pulled"})
	f.Exec(`BEGIN`)
	f.Exec(`LOCK TABLE jobs, dead_letters IN ACCESS EXCLUSIVE MODE`)
	for _, c := range []struct {
		what, path string
		request    any
		want       string
	}{
		{"a probe of a queue in pull mode", hop.ProbeQueue.Path, hop.Name{Name: "pulled"}, "invalid_request"},
		{"a probe of no queue", hop.ProbeQueue.Path, hop.Name{Name: "none"}, "not_found"},
		{"a pause of no queue", hop.PauseQueue.Path, hop.Pause{Name: "none", Paused: true}, "not_found"},
		{"a probe of no webhook", hop.ProbeWebhook.Path, hop.Name{Name: "none"}, "not_found"},
		{"a test of no webhook", hop.TestWebhook.Path, hop.OnceRequest{Name: "none", ID: "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}, "not_found"},
	} {
		r := f.Request(t.Context(), c.path, calltest.Envelope(calltest.Item(f.Tenant, c.request)))
		r.Header.Set(hop.TimeoutHeader, "20000")
		results := calltest.Decode[hop.Results[any]](f, f.Send(r).Body).Results
		if got := calltest.Statuses(results); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %q, want %s", c.what, got, c.want)
		}
	}
}
