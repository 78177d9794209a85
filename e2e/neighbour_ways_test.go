package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// way is one thing that a tenant without limits does as fast as it can.
type way struct {
	name    string
	clients int
	// prepare gives what each client does over and over.
	prepare func(*hostile) func(ctx context.Context, client int)
}

// same is a request that does not change.
func same(method, path, body string) func(*hostile) func(context.Context, int) {
	return func(h *hostile) func(context.Context, int) {
		return func(ctx context.Context, _ int) { h.send(ctx, method, path, body, nil) }
	}
}

// after is same, once something was prepared.
func after(prepare func(*hostile), method, path, body string) func(*hostile) func(context.Context, int) {
	return func(h *hostile) func(context.Context, int) {
		prepare(h)
		return same(method, path, body)(h)
	}
}

// each is a request with another body each time.
func each(method, path string, body func(n int64) string) func(*hostile) func(context.Context, int) {
	return func(h *hostile) func(context.Context, int) {
		var n atomic.Int64
		return func(ctx context.Context, _ int) { h.send(ctx, method, path, body(n.Add(1)), nil) }
	}
}

// many repeats a JSON value with commas, in a list.
func many(n int, of func(i int) string) string {
	var list strings.Builder
	for i := range n {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(of(i))
	}
	return "[" + list.String() + "]"
}

func get(path string) func(*hostile) func(context.Context, int) {
	return same(http.MethodGet, path, "")
}

func unknownLeases(more string) string {
	return many(1000, func(int) string {
		return fmt.Sprintf(`{"job_id":%q,"lease_token":"t"%s}`, uuid.Must(uuid.NewV7()), more)
	})
}

func ways() []way {
	from := url.QueryEscape(time.Now().Add(-23 * time.Hour).UTC().Format(time.RFC3339))
	to := url.QueryEscape(time.Now().UTC().Format(time.RFC3339))
	return []way{
		{"nothing", 0, same("", "", "")},
		{"parents", 64, parents},
		{"streams", 1001, streams},
		{"streams of many jobs", 1001, streamsOfManyJobs},
		{"batches of 8 MB", 8, same(http.MethodPost, "/v1/jobs/batch", `{"jobs":`+many(31, func(int) string {
			return `{"type":"t","payload":"` + strings.Repeat("x", 250_000) + `"}`
		})+`}`)},
		{"batches of 1,000", 8, same(http.MethodPost, "/v1/jobs/batch", `{"jobs":`+many(1000, func(int) string { return `{"type":"t"}` })+`}`)},
		{"console", 16, console},
		{"lists that match nothing", 64, after(backlog, http.MethodGet, "/v1/jobs?metadata.none=x", "")},
		{"lists", 64, after(backlog, http.MethodGet, "/v1/jobs?page_size=200", "")},
		{"workflows", 4, workflows},
		{"large payloads read", 64, func(h *hostile) func(context.Context, int) {
			var made struct{ ID string }
			h.must(http.MethodPost, "/v1/jobs", `{"type":"t","queue":"large","payload":"`+strings.Repeat("x", 250_000)+`"}`, &made)
			return get("/v1/jobs/" + made.ID)(h)
		}},
		{"schemas", 8, schemas},
		{"new types", 8, each(http.MethodPut, "/v1/types/t", func(n int64) string {
			return fmt.Sprintf(`{"payload_schema":{"type":"object","properties":{"p%d":{"enum":[%s1]}}}}`, n, strings.Repeat("123456,", 5000))
		})},
		{"statistics", 16, after(backlog, http.MethodGet, "/v1/stats?step=minute&from="+from+"&to="+to, "")},
		{"heartbeats", 16, same(http.MethodPost, "/v1/workers/w/heartbeat", `{"leases":`+unknownLeases("")+`}`)},
		{"outcomes", 16, same(http.MethodPost, "/v1/outcomes", `{"outcomes":`+unknownLeases(`,"kind":"complete"`)+`}`)},
		{"submits", 64, same(http.MethodPost, "/v1/jobs", `{"type":"t"}`)},
		{"submits with keys", 64, func(h *hostile) func(context.Context, int) {
			return each(http.MethodPost, "/v1/jobs", func(n int64) string { return fmt.Sprintf(`{"type":"t","dedupe_key":"k%d"}`, n%10) })(h)
		}},
		{"lanes", 64, each(http.MethodPost, "/v1/jobs", func(n int64) string { return fmt.Sprintf(`{"type":"t","tags":["t%d"]}`, n) })},
		{"capped", 64, after(func(h *hostile) { h.must(http.MethodPut, "/v1/queues/capped", `{"max_running":10}`, nil) }, http.MethodPost, "/v1/jobs", `{"type":"t","queue":"capped"}`)},
		{"claims", 64, same(http.MethodPost, "/v1/claims", `{"worker_id":"w","queues":["none"]}`)},
		{"waiting claims", 64, same(http.MethodPost, "/v1/claims", `{"worker_id":"w","queues":["none"],"wait_ms":20000}`)},
		{"claims of 1,000", 8, after(backlog, http.MethodPost, "/v1/claims", `{"worker_id":"w","queues":["backlog"],"max":1000}`)},
		{"explain", 64, func(h *hostile) func(context.Context, int) {
			backlog(h)
			var made struct{ ID string }
			h.must(http.MethodPost, "/v1/jobs", `{"type":"t","queue":"backlog"}`, &made)
			return get("/v1/jobs/" + made.ID + "/explain?details=true")(h)
		}},
		{"queues", 64, after(backlog, http.MethodGet, "/v1/queues", "")},
		{"usage", 64, get("/v1/usage?by=type")},
		{"limits", 64, get("/v1/limits")},
		{"dead letter groups", 64, after(deadLetters, http.MethodGet, "/v1/dead-letters/groups", "")},
		{"dead letter dry runs", 16, after(deadLetters, http.MethodPost, "/v1/dead-letters/redrive", `{"filter":{},"dry_run":true}`)},
		{"workers", 64, each(http.MethodPost, "/v1/workers", func(n int64) string { return fmt.Sprintf(`{"worker_id":"w%d","queues":["q"]}`, n%5000) })},
		{"schedules", 16, each(http.MethodPut, "/v1/schedules/s", func(n int64) string {
			return fmt.Sprintf(`{"every_ms":%d,"job":{"type":"t"}}`, 1000+n%1000)
		})},
		{"audit", 64, get("/v1/audit?page_size=200")},
		{"waits", 64, func(h *hostile) func(context.Context, int) {
			var made struct{ ID string }
			h.must(http.MethodPost, "/v1/jobs", `{"type":"t","queue":"waits"}`, &made)
			return func(ctx context.Context, _ int) {
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v1/jobs/"+made.ID, http.NoBody)
				request.Header.Set("Authorization", "Bearer "+h.key)
				request.Header.Set("Prefer", "wait=20")
				if response, err := h.client.Do(request); err == nil {
					_ = response.Body.Close()
				}
			}
		}},
		{"five at once", 80, fiveAtOnce},
		{"unknown keys", 64, func(h *hostile) func(context.Context, int) {
			return func(ctx context.Context, client int) {
				mine := &hostile{b: h.b, url: h.url, key: fmt.Sprintf("fq_none_%d", client), client: h.client, answers: map[int]int64{}}
				mine.send(ctx, http.MethodGet, "/v1/jobs", "", nil)
			}
		}},
	}
}

// backlog submits 20,000 jobs to a queue.
func backlog(h *hostile) {
	for range 20 {
		h.must(http.MethodPost, "/v1/jobs/batch", `{"jobs":`+many(1000, func(int) string {
			return `{"type":"t","queue":"backlog","metadata":{"customer":"c"}}`
		})+`}`, nil)
	}
}

// claimed takes jobs of a queue.
func claimed(h *hostile, queue string, most int) (jobs []lease) {
	var answer struct{ Jobs []lease }
	h.must(http.MethodPost, "/v1/claims", fmt.Sprintf(`{"worker_id":"w","queues":[%q],"max":%d,"wait_ms":5000}`, queue, most), &answer)
	return answer.Jobs
}

type lease struct {
	ID         string `json:"id"`
	LeaseToken string `json:"lease_token"`
}

// parents is pages of the results of 40 parents, of 256 KiB each.
func parents(h *hostile) func(context.Context, int) {
	const of = 40
	var made struct {
		ID   string
		Jobs []struct{ ID, Ref string }
	}
	h.must(http.MethodPost, "/v1/workflows", `{"jobs":[`+strings.Trim(many(of, func(i int) string {
		return fmt.Sprintf(`{"ref":"p%d","type":"t","queue":"parents"}`, i)
	}), "[]")+`,{"ref":"c","type":"t","queue":"child","after":`+many(of, func(i int) string { return fmt.Sprintf(`"p%d"`, i) })+`}]}`, &made)
	h.must(http.MethodGet, "/v1/workflows/"+made.ID, "", &made)
	for done := 0; done < of; {
		for _, one := range claimed(h, "parents", of) {
			h.must(http.MethodPost, "/v1/jobs/"+one.ID+"/complete", `{"lease_token":"`+one.LeaseToken+`","result":"`+strings.Repeat("r", 250_000)+`"}`, nil)
			done++
		}
	}
	for _, one := range made.Jobs {
		if one.Ref == "c" {
			return get("/v1/jobs/" + one.ID + "/parents?page_size=200")(h)
		}
	}
	panic("no child")
}

// streams is 1,000 streams of one job, whose progress changes 50 times a second.
func streams(h *hostile) func(context.Context, int) { return streamsOf(h, 1, 20*time.Millisecond) }

// streamsOfManyJobs is a stream of each of 1,000 jobs, whose progress changes 4 times a second.
func streamsOfManyJobs(h *hostile) func(context.Context, int) {
	return streamsOf(h, 1000, 250*time.Millisecond)
}

// streamsOf has the first client report progress of so many jobs, each time after a pause, and each other one read a
// stream of one of them.
func streamsOf(h *hostile, jobs int, pause time.Duration) func(context.Context, int) {
	h.must(http.MethodPost, "/v1/jobs/batch", `{"jobs":`+many(jobs, func(int) string { return `{"type":"t","queue":"streams"}` })+`}`, nil)
	all := claimed(h, "streams", jobs)
	return func(ctx context.Context, client int) {
		if client == 0 {
			for n := 0; ctx.Err() == nil; n++ {
				h.send(ctx, http.MethodPost, "/v1/workers/w/heartbeat", `{"leases":`+many(jobs, func(i int) string {
					return fmt.Sprintf(`{"job_id":%q,"lease_token":%q,"progress":{"percent":%d,"message":"%d"}}`, all[i].ID, all[i].LeaseToken, n%100, n)
				})+`}`, nil)
				time.Sleep(pause)
			}
			return
		}
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v1/jobs/"+all[client%jobs].ID+"/events", http.NoBody)
		request.Header.Set("Authorization", "Bearer "+h.key)
		response, err := h.client.Do(request)
		if err != nil {
			return
		}
		defer func() { _ = response.Body.Close() }()
		for events := bufio.NewScanner(response.Body); events.Scan(); {
			if strings.HasPrefix(events.Text(), "data:") {
				h.mu.Lock()
				h.answers[response.StatusCode]++
				h.mu.Unlock()
			}
		}
	}
}

// fiveAtOnce is five tenants, each with a way of its own and a fifth of the clients.
func fiveAtOnce(h *hostile) func(context.Context, int) {
	var all []func(context.Context, int)
	for i, prepare := range []func(*hostile) func(context.Context, int){
		parents, console, same(http.MethodPost, "/v1/workers/w/heartbeat", `{"leases":`+unknownLeases("")+`}`),
		same(http.MethodPost, "/v1/jobs/batch", `{"jobs":`+many(1000, func(int) string { return `{"type":"t"}` })+`}`),
		after(backlog, http.MethodGet, "/v1/jobs?metadata.none=x", ""),
	} {
		client := &http.Client{Transport: h.client.Transport}
		one := &hostile{b: h.b, stack: h.stack, ctx: h.ctx, url: h.url, key: newNeighbour(h.b, h.stack, fmt.Sprint("loud-", i)), client: client, answers: map[int]int64{}}
		all = append(all, prepare(one))
	}
	return func(ctx context.Context, client int) { all[client%len(all)](ctx, client) }
}

// workflows is workflows of 1,000 jobs with 9,900 dependencies.
func workflows(h *hostile) func(context.Context, int) {
	body := `{"jobs":` + many(1000, func(i int) string {
		return fmt.Sprintf(`{"ref":"j%d","type":"t","after":%s}`, i, many(min(i, 9), func(k int) string { return fmt.Sprintf(`"j%d"`, i-1-k) }))
	}) + `}`
	return same(http.MethodPost, "/v1/workflows", body)(h)
}

// schemas is checks that end by their bound.
func schemas(h *hostile) func(context.Context, int) {
	h.must(http.MethodPut, "/v1/types/worst", `{"payload_schema":{"type":"object","properties":{"a":{"items":{"enum":[`+strings.Repeat(`123456,`, 5000)+`1]}}}}}`, nil)
	return same(http.MethodPost, "/v1/jobs", `{"type":"worst","payload":{"a":[`+strings.Repeat("7,", 100_000)+`7]}}`)(h)
}

// deadLetters makes 1,000 of them.
func deadLetters(h *hostile) {
	h.must(http.MethodPost, "/v1/jobs/batch", `{"jobs":`+many(1000, func(int) string { return `{"type":"t","queue":"dying"}` })+`}`, nil)
	for done := 0; done < 1000; {
		jobs := claimed(h, "dying", 1000)
		h.must(http.MethodPost, "/v1/outcomes", `{"outcomes":`+many(len(jobs), func(i int) string {
			return fmt.Sprintf(`{"job_id":%q,"kind":"fail","permanent":true,"lease_token":%q,"error":{"type":"E%d","message":"m"}}`, jobs[i].ID, jobs[i].LeaseToken, i)
		})+`}`, nil)
		done += len(jobs)
	}
}

// console is its pages, in turn.
func console(h *hostile) func(context.Context, int) {
	backlog(h)
	jar, _ := cookiejar.New(nil)
	h.client.Jar = jar
	request, _ := http.NewRequestWithContext(h.b.Context(), http.MethodPost, h.url+"/console/sign-in", strings.NewReader(url.Values{"key": {h.key}}.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", h.url)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	response, err := h.client.Do(request)
	if err != nil || response.StatusCode > 299 || response.Request.URL.Path != "/console" {
		h.b.Fatalf("sign in: %v %+v", err, response)
	}
	_ = response.Body.Close()
	pages := []string{"/console", "/console/queues", "/console/jobs", "/console/queues/backlog", "/console/dead-letters", "/console/workers"}
	return func(ctx context.Context, client int) { h.send(ctx, http.MethodGet, pages[client%len(pages)], "", nil) }
}
