package console_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// jobsEnv is how many jobs wait in BenchmarkPages; a million if it is not set.
const jobsEnv = "FORGEQUEUE_CONSOLE_JOBS"

const fillSQL = `
INSERT INTO jobs (id, tenant_id, lane_id, queue, type, state, priority, payload, tags, metadata, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, created_at, run_at, ready_at, size)
SELECT gen_random_uuid(), l.tenant_id, l.id, l.queue, 'backlog', CASE WHEN n % 4 = 0 THEN 'scheduled' ELSE 'queued' END, n % 10, '{}', '{}', '{}', 3, 1000, 1000, 0,
       now(), now() + CASE WHEN n % 4 = 0 THEN interval '1 day' ELSE interval '0' END, CASE WHEN n % 4 > 0 THEN now() END, 6
FROM generate_series(1, $1::bigint) AS n JOIN (SELECT id, tenant_id, queue, row_number() OVER () AS nth FROM lanes) AS l ON l.nth = 1 + n % $2`

// What a page takes with a long backlog in 20 queues: milliseconds, and transactions of PostgreSQL, nearly all of one
// statement.
//
//	FORGEQUEUE_CONSOLE_JOBS=10000000 go test -run '^$' -bench Pages -benchtime 1x -timeout 1h ./console
func BenchmarkPages(b *testing.B) {
	backlog := int64(1_000_000)
	if given := os.Getenv(jobsEnv); given != "" {
		var err error
		if backlog, err = strconv.ParseInt(given, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	const queues = 20
	c := stack.NewCluster(b, stack.ClusterOptions{})
	tenant := c.NewTenant(b, "owner")
	client := c.Client(b, tenant.Key)
	var job string
	for i := range queues {
		job = stack.Submit(b, client, api.SubmitRequest{Type: "backlog", Queue: fmt.Sprint("q", i)})
	}
	stack.Exec(b.Context(), b, c.DatabaseURL, fillSQL, backlog, queues)
	stack.Exec(b.Context(), b, c.DatabaseURL, `VACUUM ANALYZE jobs`)
	v := visit(b, c.Gateways[0].URL, tenant.Key)
	for _, one := range []page{
		{"overview", "/console"},
		{"queues", "/console/queues"},
		{"queue", "/console/queues/q0"},
		{"jobs", "/console/jobs"},
		{"job", "/console/jobs/" + job},
		{"dead-letters", "/console/dead-letters"},
		{"limits", "/console/limits"},
	} {
		b.Run(one.name, func(b *testing.B) {
			const visits = 40
			times := make([]time.Duration, visits)
			for b.Loop() {
				before := transactions(b, c)
				for i := range times {
					begun := time.Now()
					if status, text := v.get(one.path); status != http.StatusOK {
						b.Fatalf("%d %s", status, text)
					}
					times[i] = time.Since(begun)
				}
				b.ReportMetric(float64(transactions(b, c)-before)/visits, "transactions/page")
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[visits/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times[visits*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}

func transactions(b *testing.B, c *stack.Cluster) int64 {
	b.Helper()
	_ = wait.For(b.Context(), 1500*time.Millisecond) // sessions report what they did once a second
	return stack.Query[int64](b.Context(), b, c.DatabaseURL, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`)[0]
}

// What open consoles cost, as a share of one CPU: 200 of them, half on the overview and half on a queue's page, of 10
// tenants. Each asks as an open page does.
//
//	go test -run '^$' -bench Consoles -benchtime 1x ./console
func BenchmarkConsoles(b *testing.B) {
	const tenants, each, during = 10, 20, 30 * time.Second
	c := stack.NewCluster(b, stack.ClusterOptions{})
	var visitors []*visitor
	for i := range tenants {
		tenant := c.NewTenant(b, fmt.Sprint("owner", i))
		for k := range 20 {
			stack.Submit(b, c.Client(b, tenant.Key), api.SubmitRequest{Type: "waits", Queue: fmt.Sprint("q", k)})
		}
		first := visit(b, c.Gateways[0].URL, tenant.Key)
		for range each {
			visitors = append(visitors, first)
		}
	}
	cpu := func(s *stack.Service) time.Duration { return cpuOf(b, s.Pid()) }
	for _, open := range []int{0, len(visitors)} {
		b.Run(fmt.Sprint(open), func(b *testing.B) {
			for b.Loop() {
				core, gateway, begun := cpu(c.Cores[0]), cpu(c.Gateways[0]), time.Now()
				done := make(chan error, open)
				for i, v := range visitors[:open] {
					path, every := "/console", 10*time.Second
					if i%2 == 1 {
						path, every = "/console/queues/q0", 5*time.Second
					}
					go func() { done <- v.keepOpen(path, every, time.Duration(i)*every/time.Duration(open), begun.Add(during)) }()
				}
				for range open {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				_ = wait.For(b.Context(), time.Until(begun.Add(during)))
				took := time.Since(begun)
				b.ReportMetric(100*float64(cpu(c.Cores[0])-core)/float64(took), "%CPU-core")
				b.ReportMetric(100*float64(cpu(c.Gateways[0])-gateway)/float64(took), "%CPU-gateway")
			}
		})
	}
}

// keepOpen asks for the live part of a page, as its script does.
func (v *visitor) keepOpen(path string, every, first time.Duration, until time.Time) error {
	for next := time.Now().Add(first); next.Before(until); next = next.Add(every) {
		_ = wait.For(v.Context(), time.Until(next))
		request, err := http.NewRequestWithContext(v.Context(), http.MethodGet, v.url+path, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Hx-Request", "true")
		response, err := v.client.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body) // it was answered
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	return nil
}

// cpuOf is the CPU time that a process has used; Linux counts it in hundredths of a second.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
