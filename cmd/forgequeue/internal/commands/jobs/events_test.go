package jobs_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A watched job is followed by its events, and by waits where the server has no events.
func TestWatchFollowsEvents(t *testing.T) {
	for name, refused := range map[string]bool{"events": false, "waits": true} {
		t.Run(name, func(t *testing.T) {
			f := commandtest.New(t)
			gateway, err := url.Parse(f.Ready.Gateway)
			if err != nil {
				t.Fatal(err)
			}
			var streams, reads atomic.Int64
			proxy := httputil.NewSingleHostReverseProxy(gateway)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !strings.HasSuffix(r.URL.Path, "/events"):
					reads.Add(1)
				case refused:
					streams.Add(1)
					http.NotFound(w, r)
					return
				default:
					streams.Add(1)
				}
				proxy.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			queue, c := f.Queue(), f.Client()
			id := f.Submitted("export", "--queue", queue)
			var out, errs commandtest.Buffer
			ended := make(chan int, 1)
			watch := f.With("FORGEQUEUE_URL", server.URL).Start(&out, &errs, "")
			go func() { ended <- watch(f.Context(), "job", "watch", id, "--wait-timeout", "5m") }()
			f.Eventually("the watch has begun", func() bool { return strings.Contains(out.String(), "queued") && streams.Load() == 1 })
			claimed, err := c.Claim(t.Context(), api.ClaimRequest{WorkerID: "watched", Queues: []string{queue}})
			if err != nil || len(claimed.Jobs) != 1 {
				t.Fatalf("%+v, %v", claimed, err)
			}
			f.Eventually("the attempt is a line", func() bool { return strings.Contains(out.String(), "running") })
			if _, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: claimed.Jobs[0].LeaseToken}); err != nil {
				t.Fatal(err)
			}
			if code := <-ended; code != 0 || !strings.Contains(out.String(), "completed") {
				t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
			}
			// One read says at once whether the job exists.
			if n := reads.Load(); refused != (n > 1) {
				t.Errorf("%d reads, %d streams", n, streams.Load())
			}
		})
	}
}
