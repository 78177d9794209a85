package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// A quiet tenant submits 50 jobs a second, one by one, while another one does its worst:
// p50-ms and p99-ms are of the quiet one's submits, from when each was due. rss-MiB is
// the gateway's peak.
//
//	go test -run '^$' -bench Neighbour -benchtime 1000x ./e2e
func BenchmarkNeighbour(b *testing.B) {
	leases := make([]string, 1000)
	outcomes := make([]string, 1000)
	for i := range leases {
		id := uuid.Must(uuid.NewV7())
		leases[i] = fmt.Sprintf(`{"job_id":%q,"lease_token":"t"}`, id)
		outcomes[i] = fmt.Sprintf(`{"job_id":%q,"lease_token":"t","kind":"complete"}`, id)
	}
	var n atomic.Int64
	same := func(path, body string) func(*hostile) {
		return func(h *hostile) { h.post(path, func() string { return body }) }
	}
	for _, one := range []struct {
		name    string
		clients int
		do      func(*hostile)
	}{
		{"alone", 0, nil},
		{"outcomes", 24, same("/v1/outcomes", `{"outcomes":[`+strings.Join(outcomes, ",")+`]}`)},
		{"heartbeats", 24, same("/v1/workers/w/heartbeat", `{"leases":[`+strings.Join(leases, ",")+`]}`)},
		{"submits", 24, same("/v1/jobs", `{"type":"t"}`)},
		{"lanes", 24, func(h *hostile) {
			h.post("/v1/jobs", func() string { return fmt.Sprintf(`{"type":"t","tags":["t%d"]}`, n.Add(1)) })
		}},
		{"queue cap", 24, same("/v1/jobs", `{"type":"t","queue":"capped"}`)},
		{"headers", 1000, (*hostile).headers},
		{"batches of 7.9 MB", 16, same("/v1/jobs/batch", `{"jobs":[`+strings.TrimSuffix(strings.Repeat(`{"type":"t","payload":"`+strings.Repeat("x", 250_000)+`"},`, 31), ",")+`]}`)},
	} {
		b.Run(one.name, func(b *testing.B) {
			c := stack.NewCluster(b, stack.ClusterOptions{Settings: map[string]string{
				"GOMEMLIMIT":               "460MiB", // of a container of 512
				"FORGEQUEUE_REDIS_TIMEOUT": "50ms", "FORGEQUEUE_REQUEST_TIMEOUT": "10s", "FORGEQUEUE_DATABASE_WAIT": "2s",
			}})
			quiet, loud := c.NewTenant(b, "quiet"), c.NewTenant(b, "loud")
			c.Override(b, loud, api.Overrides{Limits: api.Limits{JobsPerSecond: new(float64(1000)), JobBurst: new(int64(1000))}})
			if one.name == "submits" || one.name == "batches of 7.9 MB" {
				c.Override(b, loud, api.Overrides{})
			}
			c.SetQueue(b, loud, "capped", map[string]any{"max_active": 10})
			ctx, cancel := context.WithCancel(b.Context())
			h := &hostile{url: c.Gateways[0].URL, key: loud.Key, ctx: ctx, answers: map[int]int{}}
			for range one.clients {
				h.group.Go(func() {
					_ = wait.For(ctx, rand.N(2*time.Second)) // their requests spread over time
					h.started.Add(1)
					for ctx.Err() == nil {
						one.do(h)
					}
				})
			}
			stack.Eventually(b, time.Minute, "all of the load", func() bool { return h.started.Load() == int64(one.clients) })
			b.ResetTimer()
			took := submitsAt(b, c.Gateways[0].URL, quiet.Key, b.N, 20*time.Millisecond)
			b.StopTimer()
			cancel()
			h.group.Wait()
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(peakRSS(b, c.Gateways[0].Pid()), "rss-MiB")
			b.Logf("the loud one's answers: %v", h.answers)
		})
	}
}

// submitsAt submits n jobs at a pace and says how long each took from when it was due.
func submitsAt(b *testing.B, base, key string, n int, pace time.Duration) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	begun := time.Now()
	for i := range n {
		due := begun.Add(time.Duration(i) * pace)
		time.Sleep(time.Until(due))
		group.Go(func() {
			request, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, base+"/v1/jobs", strings.NewReader(`{"type":"t"}`))
			request.Header.Set("Authorization", "Bearer "+key)
			request.Header.Set("Content-Type", "application/json")
			response, err := client.Do(request)
			if err != nil {
				b.Error(err)
				return
			}
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusAccepted {
				b.Errorf("%d %.300s", response.StatusCode, body)
			}
			took[i] = time.Since(due)
		})
	}
	group.Wait()
	return took
}

// hostile is a tenant that takes what it can get.
type hostile struct {
	url, key string
	ctx      context.Context //nolint:containedctx // of one sub-benchmark
	client   http.Client
	group    sync.WaitGroup
	started  atomic.Int64 // clients
	mu       sync.Mutex
	answers  map[int]int
}

func (h *hostile) post(path string, body func() string) {
	request, err := http.NewRequestWithContext(h.ctx, http.MethodPost, h.url+path, bytes.NewReader([]byte(body())))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+h.key)
	request.Header.Set("Content-Type", "application/json")
	status := 0
	if response, err := h.client.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		status = response.StatusCode
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[status]++
}

// headers opens a connection and announces 8 MiB that never come.
func (h *hostile) headers() {
	at, err := url.Parse(h.url)
	if err != nil {
		panic(err)
	}
	conn, err := (&net.Dialer{}).DialContext(h.ctx, "tcp", at.Host)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(h.ctx, func() { _ = conn.Close() })
	defer stop()
	_, _ = fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", at.Host, h.key, 8<<20)
	_, _ = io.Copy(io.Discard, conn)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[0]++
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakRSS is a process' largest resident set by now, in MiB.
func peakRSS(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // not Linux
	}
	found := peak.FindSubmatch(text)
	if found == nil {
		b.Fatalf("no VmHWM in %s", text)
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
