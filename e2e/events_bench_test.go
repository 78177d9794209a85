package e2e_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// What event streams cost PostgreSQL beside as many reads with Prefer: wait, and beside none: transactions in a second,
// over one round of waits.
//
//	go test -run '^$' -bench Events -benchtime 1x ./e2e
func BenchmarkEvents(b *testing.B) {
	const n = 2000
	for _, one := range []struct {
		name, path, prefer string
		n                  int
	}{{"none", "", "", 0}, {"waits", "", "wait=25", n}, {"streams", "/events", "", n}} {
		b.Run(one.name, func(b *testing.B) {
			c := stack.NewCluster(b, stack.ClusterOptions{})
			tenant := c.NewTenant(b, "watched")
			keys := []string{tenant.Key, c.NewKey(b, tenant, time.Time{})} // a key has a quarter of all places
			client := c.Client(b, tenant.Key)
			base := &http.Transport{}
			b.Cleanup(base.CloseIdleConnections)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for i := range one.n {
				id := stack.Submit(b, client, api.SubmitRequest{Type: "watched", Queue: "q"})
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Gateways[0].URL+"/v1/jobs/"+id+one.path, nil)
				if err != nil {
					b.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer "+keys[i%len(keys)])
				request.Header.Set("Prefer", one.prefer)
				go func() {
					for ctx.Err() == nil {
						if response, err := base.RoundTrip(request.Clone(ctx)); err == nil {
							_, _ = io.Copy(io.Discard, response.Body) // ends with ctx
							_ = response.Body.Close()
						}
					}
				}()
			}
			stack.Eventually(b, time.Minute, "all to wait in core", func() bool {
				return c.Gateways[0].Metric(`forgequeue_hop_in_flight{class="parked"}`) >= float64(one.n)
			})
			_ = wait.For(ctx, 5*time.Second) // until core has read the last one's job
			transactions := func() int64 {
				return stack.Query[int64](b.Context(), b, c.DatabaseURL,
					`SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`)[0]
			}
			begun, before := time.Now(), transactions()
			for b.Loop() {
				_ = wait.For(ctx, api.MaxWait)
			}
			b.ReportMetric(float64(transactions()-before)/time.Since(begun).Seconds(), "transactions/s")
		})
	}
}
