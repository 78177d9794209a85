package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// 20 clients submit against a cap of 20 active jobs of a tenant, while ten workers end a steady number of jobs a second:
// clients that try again every 100 ms, clients that wait retry_after_ms, and clients that wait the whole seconds of
// Retry-After. used is the mean part of the cap in use, worked the part of what the workers can do.
//
//	go test -run '^$' -bench FullCap -benchtime 1x ./e2e
func BenchmarkFullCap(b *testing.B) {
	for _, perSecond := range []int{5, 10, 20} {
		for _, one := range []struct {
			name string
			wait func(*http.Response, *problem.Problem) time.Duration
		}{
			{"every 100 ms", func(*http.Response, *problem.Problem) time.Duration { return 100 * time.Millisecond }},
			{"retry_after_ms", func(_ *http.Response, p *problem.Problem) time.Duration {
				return time.Duration(*p.RetryAfterMS) * time.Millisecond
			}},
			{"Retry-After", func(r *http.Response, _ *problem.Problem) time.Duration {
				seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
				return time.Duration(seconds) * time.Second
			}},
		} {
			b.Run(fmt.Sprintf("%d a second, %s", perSecond, one.name), func(b *testing.B) {
				for b.Loop() {
					fillCap(b, perSecond, one.wait)
				}
			})
		}
	}
}

func fillCap(b *testing.B, perSecond int, pause func(*http.Response, *problem.Problem) time.Duration) {
	b.Helper()
	const clients, limit, workers = 20, 20, 10
	c := stack.NewCluster(b, stack.ClusterOptions{})
	tenant := c.NewTenant(b, "capped")
	c.Override(b, tenant, api.Overrides{Limits: api.Limits{MaxActive: new(int64(limit))}})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var group sync.WaitGroup
	work := c.Client(b, tenant.Key)
	drain := drainage{atOnce: 1, long: time.Second * workers / time.Duration(perSecond)}
	for i := range workers {
		group.Go(func() {
			_ = wait.For(ctx, drain.long*time.Duration(i)/workers) // spread over time
			drain.work(ctx, work, fmt.Sprint("w", i))
		})
	}
	var accepted, refused atomic.Int64
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer web.CloseIdleConnections()
	for range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Gateways[0].URL+"/v1/jobs", strings.NewReader(`{"type":"t"}`))
				if err != nil {
					return
				}
				request.Header.Set("Authorization", "Bearer "+tenant.Key)
				request.Header.Set("Content-Type", "application/json")
				response, err := web.Do(request)
				if err != nil {
					continue
				}
				body, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if response.StatusCode == http.StatusAccepted {
					accepted.Add(1)
					continue
				}
				var p problem.Problem
				if json.Unmarshal(body, &p) != nil || p.Code != problem.ActiveCapReached {
					b.Errorf("%d %.300s", response.StatusCode, body)
					return
				}
				refused.Add(1)
				_ = wait.For(ctx, pause(response, &p))
			}
		})
	}
	_ = wait.For(ctx, 5*time.Second) // until the rate is known
	begun, acceptedBefore, refusedBefore := time.Now(), accepted.Load(), refused.Load()
	var active, samples float64
	for time.Since(begun) < 15*time.Second {
		active += float64(stack.Query[int64](ctx, b, c.DatabaseURL, `SELECT count(*) FROM jobs`)[0])
		samples++
		_ = wait.For(ctx, 20*time.Millisecond)
	}
	took := time.Since(begun).Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(accepted.Load()-acceptedBefore)/took, "accepted/s")
	b.ReportMetric(float64(refused.Load()-refusedBefore)/took, "refused/s")
	b.ReportMetric(active/samples/limit, "used")
	b.ReportMetric(float64(accepted.Load()-acceptedBefore)/took/float64(perSecond), "worked")
	cancel()
	group.Wait()
}
