package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// A quiet tenant submits, claims and reads 20 jobs a second, first alone and then beside a tenant without limits that
// does one thing as fast as it can (neighbour_ways_test.go). For each way: submit, claim and read are p99 beside ÷ p99
// alone, with -ms the p99 beside in milliseconds; refused are the quiet one's requests without their answer; loud/s are
// the other one's answers with 2xx a second, rss-MiB the peak of `up`.
//
//	go test -run '^$' -bench Neighbour -benchtime 200x ./e2e
//	go test -run '^$' -bench Neighbour/parents -benchtime 200x ./e2e
func BenchmarkNeighbour(b *testing.B) {
	for _, way := range ways() {
		b.Run(way.name, func(b *testing.B) {
			if b.N == 1 {
				return // go test tries the benchmark with one first
			}
			s := stack.Up(b, stack.Folder(b))
			loud := &hostile{b: b, stack: s, ctx: b.Context(), url: s.Gateway, key: newNeighbour(b, s, "loud"), answers: map[int]int64{}}
			loud.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1100, DisableCompression: true}}
			quiet := startQuiet(b, s.Gateway, newNeighbour(b, s, "quiet"))
			do := way.prepare(loud)
			quiet.measure(20) // connections and caches
			alone := quiet.measure(b.N)
			ctx, cancel := context.WithCancel(b.Context())
			for i := range way.clients {
				loud.group.Go(func() {
					for ctx.Err() == nil {
						do(ctx, i)
					}
				})
			}
			time.Sleep(2 * time.Second)
			loud.reset()
			time.Sleep(loudAlone)
			had := loud.done(loudAlone)
			loud.reset()
			begun := time.Now()
			b.ResetTimer()
			beside := quiet.measure(b.N)
			b.StopTimer()
			answered := loud.done(time.Since(begun))
			cancel()
			loud.client.CloseIdleConnections()
			loud.group.Wait()
			b.ReportMetric(0, "ns/op")
			for _, of := range []string{"submit", "claim", "read"} {
				b.ReportMetric(beside.P99[of]/alone.P99[of], of)
				b.ReportMetric(beside.P99[of], of+"-ms")
			}
			b.ReportMetric(float64(beside.Refused), "refused")
			b.ReportMetric(answered, "loud/s")
			if had > 0 {
				b.ReportMetric(answered/had, "loud-kept")
			}
			b.ReportMetric(peakRSS(b, s.Pid()), "rss-MiB")
			b.Logf("alone %.1f %.1f %.1f ms; the loud one's answers: %v", alone.P99["submit"], alone.P99["claim"], alone.P99["read"], loud.counts())
		})
	}
}

// loudAlone is how long the loud one is counted alone.
const loudAlone = 3 * time.Second

// quiet is the quiet tenant, in a process of its own: what the loud one's client does with its many answers must not
// delay it.
type quiet struct {
	*testing.B

	jobs    io.Writer
	results *json.Decoder
}

// quietRun is what the quiet tenant saw: the p99 of each kind of request in milliseconds.
type quietRun struct {
	P99     map[string]float64
	Refused int
}

const quietEnv = "FORGEQUEUE_NEIGHBOUR"

func startQuiet(b *testing.B, url, key string) *quiet {
	b.Helper()
	command := exec.CommandContext(b.Context(), os.Args[0])
	command.Env = append(os.Environ(), quietEnv+"="+url+" "+key)
	command.Stderr = os.Stderr
	jobs, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	results, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = jobs.Close()
		_ = command.Wait()
	})
	return &quiet{b, jobs, json.NewDecoder(results)}
}

// measure has the quiet tenant work through so many jobs.
func (q *quiet) measure(jobs int) (run quietRun) {
	q.Helper()
	if _, err := fmt.Fprintln(q.jobs, jobs); err != nil {
		q.Fatal(err)
	}
	if err := q.results.Decode(&run); err != nil {
		q.Fatal(err)
	}
	return run
}

// quietProcess is the process of a quiet tenant, until its standard input ends.
func quietProcess() (code int) {
	url, key, _ := strings.Cut(os.Getenv(quietEnv), " ")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	h := &hostile{ctx: context.Background(), url: url, key: key, client: client, answers: map[int]int64{}}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		jobs, err := strconv.Atoi(lines.Text())
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(measureQuiet(h, jobs))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// measured are the times of a run.
type measured struct {
	mu      sync.Mutex
	took    map[string][]time.Duration
	refused int
}

// measureQuiet works through so many jobs, 20 a second.
func measureQuiet(h *hostile, jobs int) quietRun {
	run := &measured{took: map[string][]time.Duration{}}
	var group sync.WaitGroup
	begun := time.Now()
	for i := range jobs {
		due := begun.Add(time.Duration(i) * 50 * time.Millisecond)
		time.Sleep(time.Until(due))
		group.Go(func() {
			var made struct{ ID string }
			run.time(h, due, "submit", http.MethodPost, "/v1/jobs", `{"type":"t"}`, &made)
			var claimed struct{ Jobs []lease }
			run.time(h, time.Now(), "claim", http.MethodPost, "/v1/claims", `{"worker_id":"quiet","queues":["default"],"max":1}`, &claimed)
			run.time(h, time.Now(), "read", http.MethodGet, "/v1/jobs/"+made.ID, "", nil)
			for _, one := range claimed.Jobs {
				h.send(h.ctx, http.MethodPost, "/v1/jobs/"+one.ID+"/complete", `{"lease_token":"`+one.LeaseToken+`"}`, nil)
			}
		})
	}
	group.Wait()
	result := quietRun{P99: map[string]float64{}, Refused: run.refused}
	for of, took := range run.took {
		slices.Sort(took)
		result.P99[of] = float64(took[len(took)*99/100].Microseconds()) / 1000
	}
	return result
}

func (r *measured) time(h *hostile, from time.Time, what, method, path, body string, into any) {
	status := h.send(h.ctx, method, path, body, into)
	took := time.Since(from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if status < 200 || status > 299 {
		r.refused++
	}
	r.took[what] = append(r.took[what], took)
}

// newNeighbour makes a tenant without limits, and gives its key.
func newNeighbour(b *testing.B, s *stack.Stack, name string) string {
	b.Helper()
	admin := func(method, path, body string, into any) {
		status, answer := stack.Call(b, method, s.Gateway+path, s.OperatorKey, []byte(body))
		if status > 299 {
			b.Fatalf("%s: %d %s", path, status, answer)
		}
		if err := json.Unmarshal(answer, into); err != nil {
			b.Fatal(err)
		}
	}
	var made struct{ ID, Key string }
	admin(http.MethodPut, "/v1/admin/plans/unlimited", `{"limits":{}}`, &made)
	admin(http.MethodPost, "/v1/admin/tenants", `{"name":"`+name+`","plan":"unlimited"}`, &made)
	admin(http.MethodPost, "/v1/admin/tenants/"+made.ID+"/keys", `{"scopes":["submit","work","read","manage"]}`, &made)
	return made.Key
}

// hostile is a tenant that takes what it can get.
type hostile struct {
	b        *testing.B
	stack    *stack.Stack
	ctx      context.Context //nolint:containedctx // of one benchmark
	url, key string
	client   *http.Client
	group    sync.WaitGroup
	mu       sync.Mutex
	answers  map[int]int64
}

// send makes a request, and gives the status of its answer: 0 where there is none.
func (h *hostile) send(ctx context.Context, method, path, body string, into any) int {
	request, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+h.key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	status := 0
	if response, err := h.client.Do(request); err == nil {
		status = response.StatusCode
		if into != nil && status < 300 {
			_ = json.NewDecoder(response.Body).Decode(into)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if ctx.Err() == nil {
		h.mu.Lock()
		h.answers[status]++
		h.mu.Unlock()
	}
	return status
}

// must is send for what has to succeed.
func (h *hostile) must(method, path, body string, into any) {
	h.b.Helper()
	if status := h.send(h.ctx, method, path, body, into); status < 200 || status > 299 {
		h.b.Fatalf("%s %s: %d", method, path, status)
	}
}

func (h *hostile) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.answers)
}

func (h *hostile) counts() map[int]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.answers)
}

// done is how many answers with 2xx came a second.
func (h *hostile) done(in time.Duration) (n float64) {
	for status, of := range h.counts() {
		if status >= 200 && status <= 299 {
			n += float64(of) / in.Seconds()
		}
	}
	return n
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
