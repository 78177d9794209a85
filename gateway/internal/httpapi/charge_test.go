package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// slowly is a rate at which a test sees nothing come back.
const slowly = 0.001

// onRedis has a door limit by a real Redis, and wait for it: these tests are about
// what is decided, on a machine that may stand still for longer than 50 ms.
func onRedis(t *testing.T) func(*httpapi.Options) {
	t.Helper()
	redis, err := admission.ConnectWithin(storetest.Redis(t), hang)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Close() })
	return func(o *httpapi.Options) {
		o.Redis = redis
		o.Limiter = admission.NewLimiter(redis, admission.LimiterOptions{Prefix: "test:" + uuid.NewString() + ":", Registry: o.Registry})
	}
}

// limited makes a key with every tenant scope under these limits.
func (d *door) limited(limits api.Limits, change ...func(*hop.KeyRecord)) string {
	return d.keyWith(func(k *hop.KeyRecord) {
		k.Scopes, k.Plan = api.Scopes(), &api.Plan{Name: "p", Limits: limits}
		for _, c := range change {
			c(k)
		}
	})
}

func boundTo(user string) func(*hop.KeyRecord) { return func(k *hop.KeyRecord) { k.User = user } }

// acceptBatches makes core take batches too: the answer is of no matter.
func (d *door) acceptBatches() {
	d.core.On(hop.SubmitJobs.Path, func(item coretest.Item) coretest.Result {
		var request hop.SubmitJobsRequest
		if err := json.Unmarshal(item.Request, &request); err != nil {
			d.t.Errorf("core got %s: %v", item.Request, err)
		}
		if request.Batch {
			return coretest.Value(http.StatusOK, map[string]any{"results": []any{}, "accepted": len(request.Jobs), "rejected": 0})
		}
		return coretest.Value(http.StatusAccepted, map[string]any{"id": request.IDs[0], "state": "queued"})
	})
}

// batchOf is n jobs of a user; "" is nobody's.
func batchOf(n int, user string, atomic bool) string {
	job := `{"type":"a"}`
	if user != "" {
		job = fmt.Sprintf(`{"type":"a","user":%q}`, user)
	}
	return fmt.Sprintf(`{"jobs":[%s],"atomic":%v}`, strings.TrimSuffix(strings.Repeat(job+",", n), ","), atomic)
}

func (d *door) submits() int { return len(d.core.Requests(hop.SubmitJobs.Path)) }

// waits checks that header and body tell the same wait, and gives it.
func (a answer) waits(t *testing.T, p problem.Problem) time.Duration {
	t.Helper()
	if p.RetryAfterMS == nil || *p.RetryAfterMS < 1 {
		t.Fatalf("no wait is told: %s", a.body)
	}
	if got, want := a.header.Get("Retry-After"), strconv.FormatInt((*p.RetryAfterMS+999)/1000, 10); got != want {
		t.Errorf("Retry-After %q beside %d ms", got, *p.RetryAfterMS)
	}
	return time.Duration(*p.RetryAfterMS) * time.Millisecond
}

// named is a refusal's policies without their waits.
func named(p problem.Problem) string {
	var all []string
	for _, policy := range p.Policies {
		all = append(all, fmt.Sprintf("%s %d/%d", policy.Name, policy.Current, policy.Limit))
	}
	return strings.Join(all, ", ")
}

func TestJobsAreCharged(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.acceptBatches()
	free := api.Limits{UserJobsPerSecond: new(slowly), UserJobBurst: new(int64(10))}
	key := d.limited(free)
	batch := func(n int, user string, atomic bool) answer {
		return d.do("POST", "/v1/jobs/batch", key, batchOf(n, user, atomic))
	}
	got := batch(6, "bob", false)
	if got.status != 200 || got.header.Get("RateLimit-Policy") != `"user-jobs";q=10;w=10000` || !strings.HasPrefix(got.header.Get("RateLimit"), `"user-jobs";r=4;t=`) {
		t.Fatalf("%d %s %v", got.status, got.body, got.header)
	}
	refused := batch(5, "bob", true)
	p := refused.refused(t, 429, problem.RateLimited)
	if wait := refused.waits(t, p); named(p) != "user-jobs 6/10" || wait < 900*time.Second || wait > 1000*time.Second || !strings.Contains(p.Detail, `"bob"`) {
		t.Errorf("%s", refused.body)
	}
	if n := d.submits(); n != 1 {
		t.Errorf("%d submits reached core", n)
	}
	// What was refused has paid nothing: there are still four.
	for range 4 {
		if got := d.do("POST", "/v1/jobs", key, `{"type":"a","user":"bob"}`); got.status != 202 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	d.do("POST", "/v1/jobs", d.limited(free, boundTo("bob")), `{"type":"a"}`).refused(t, 429, problem.RateLimited)
	if got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`); got.status != 202 || got.header.Get("RateLimit") != "" {
		t.Errorf("nobody's job: %d %s", got.status, got.body)
	}
	above := batch(11, "ann", false)
	q := above.refused(t, 400, problem.CostAboveBurst)
	if named(q) != "user-jobs 0/10" || q.RetryAfterMS != nil || q.Policies[0].RetryAfterMS != nil || above.header.Get("Retry-After") != "" {
		t.Errorf("%s", above.body)
	}
	if got := batch(10, "ann", false); got.status != 200 {
		t.Errorf("ann: %d %s", got.status, got.body)
	}
	// A job that is refused at the door costs only its request.
	mixed := d.do("POST", "/v1/jobs/batch", key, `{"jobs":[{"type":"a","user":"cay"},{"type":"!","user":"cay"}]}`)
	if !strings.HasPrefix(mixed.header.Get("RateLimit"), `"user-jobs";r=9;`) {
		t.Errorf("%d %s", mixed.status, mixed.header.Get("RateLimit"))
	}
}

// A tenant that has used up its requests still keeps and ends its leases, and can
// see why everything else is refused.
func TestLeasesAreNeverRefused(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.core.On(hop.Heartbeat.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.HeartbeatResponse{Status: "ACTIVE", Leases: []api.LeaseStatus{}})
	})
	d.core.On(hop.ReportOutcomes.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.OutcomesResponse{Results: []api.OutcomeResult{{Status: 200, Outcome: &api.Outcome{}}}})
	})
	d.core.On(hop.ListCaps.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, hop.CapsResponse{}) })
	key := d.limited(api.Limits{RequestsPerSecond: new(slowly), RequestBurst: new(int64(1))})
	d.do("GET", "/v1/jobs/"+jobID, key, "")
	for route, body := range map[string]string{
		"POST /v1/workers/w/heartbeat":          "",
		"POST /v1/jobs/" + jobID + "/complete":  `{"lease_token":"t"}`,
		"POST /v1/jobs/" + jobID + "/fail":      `{"lease_token":"t","error":{"type":"e","message":"m"}}`,
		"POST /v1/jobs/" + jobID + "/snooze":    `{"lease_token":"t","delay_ms":1}`,
		"POST /v1/jobs/" + jobID + "/release":   `{"lease_token":"t"}`,
		"POST /v1/outcomes":                     `{"outcomes":[{"job_id":"` + jobID + `","kind":"release","lease_token":"t"}]}`,
		"GET /v1/whoami":                        "",
		"GET /v1/limits":                        "",
		"POST /v1/outcomes?nonsense=1 (refuse)": `{}`,
	} {
		method, path, _ := strings.Cut(strings.TrimSuffix(route, " (refuse)"), " ")
		got := d.do(method, path, key, body)
		if want := 200; strings.HasSuffix(route, "(refuse)") {
			got.refused(t, 400, problem.InvalidRequest)
		} else if got.status != want {
			t.Errorf("%s: %d %s", route, got.status, got.body)
		}
		if left := got.header.Get("RateLimit"); !strings.HasPrefix(left, `"tenant-requests";r=0;t=`) {
			t.Errorf("%s: RateLimit %q", route, left)
		}
	}
	for route, body := range map[string]string{
		"POST /v1/claims":              `{"worker_id":"w","queues":["q"]}`,
		"POST /v1/workers":             `{"worker_id":"w"}`,
		"DELETE /v1/workers/w":         "",
		"POST /v1/jobs":                `{"type":"a"}`,
		"GET /v1/jobs":                 "",
		"GET /v1/jobs?nonsense=1":      "",
		"POST /v1/jobs/" + jobID + "/": "",
	} {
		method, path, _ := strings.Cut(route, " ")
		got := d.do(method, path, key, body)
		if strings.HasSuffix(path, "/") {
			got.refused(t, 404, problem.NotFound) // no such route: nobody has looked at the key
			continue
		}
		if p := got.refused(t, 429, problem.RateLimited); named(p) != "tenant-requests 1/1, credential-requests 1/1" {
			t.Errorf("%s: %s", route, got.body)
		}
	}
	if lines := d.log.requests(t); !slices.ContainsFunc(lines, func(line map[string]any) bool { return line["verdict"] == "rate_limited" }) {
		t.Error("no line tells of a refusal")
	}
}

// Whatever a key is answered, it is told how it stands; and a request that is
// refused for another reason is charged as any other.
func TestEveryAuthenticatedAnswerTellsTheLimits(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	limits := api.Limits{RequestsPerSecond: new(slowly), RequestBurst: new(int64(1000)), JobsPerSecond: new(slowly), JobBurst: new(int64(1000))}
	callers := map[string]string{
		"all scopes": d.limited(limits),
		"no scope":   d.limited(limits, func(k *hop.KeyRecord) { k.Scopes = nil }),
		"bound":      d.limited(limits, boundTo("bob")),
	}
	left, jobsLeft := 1000, 1000
	for route, rule := range table {
		if rule.linked {
			continue // it is another key's request
		}
		method, path := example(route)
		for name, key := range callers {
			for _, body := range []string{"", "{}", "{nonsense"} {
				got := d.do(method, path, key, body)
				policy, limit := got.header.Get("RateLimit-Policy"), got.header.Get("RateLimit")
				if rule.public {
					if policy+limit != "" {
						t.Errorf("%s tells of limits", route)
					}
					continue
				}
				if free := strings.HasSuffix(path, "/heartbeat") || slices.Contains([]string{"complete", "fail", "snooze", "wait", "release", "outcomes", "whoami", "limits"}, path[strings.LastIndex(path, "/")+1:]) || route == "POST /v1/jobs/{id}/output"; !free {
					left--
				}
				if (strings.HasSuffix(path, "/trigger") || strings.HasSuffix(path, "/rerun")) && name != "no scope" && body != "{nonsense" {
					jobsLeft-- // it needs no body
				}
				if !strings.HasPrefix(policy, `"tenant-requests";q=1000;w=1000000, "tenant-jobs";q=1000;w=1000000, "credential-requests";q=1000`) {
					t.Fatalf("%s, %s, body %s: %d, RateLimit-Policy %q", route, name, body, got.status, policy)
				}
				if !strings.HasPrefix(limit, fmt.Sprintf(`"tenant-requests";r=%d;`, left)) || !strings.Contains(limit, fmt.Sprintf(`"tenant-jobs";r=%d;`, jobsLeft)) {
					t.Fatalf("%s, %s, body %s: %d, want %d left: RateLimit %q", route, name, body, got.status, left, limit)
				}
			}
		}
	}
	for name, key := range map[string]string{"platform": d.platformKey(), "operator": operatorKey, "nobody": "", "unlimited": d.key("read")} {
		for route := range table {
			method, path := example(route)
			if got := d.do(method, path, key, ""); got.header.Get("RateLimit")+got.header.Get("RateLimit-Policy") != "" {
				t.Errorf("%s with %s: %v", route, name, got.header)
			}
		}
	}
}

// Who waits as long as he is told is admitted.
func TestWaitingHelps(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.accept()
	key := d.limited(api.Limits{JobsPerSecond: new(7.0), JobBurst: new(int64(1))})
	refusals := 0
	for range 20 {
		got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`)
		if got.status == 202 {
			continue
		}
		refusals++
		p := got.refused(t, 429, problem.RateLimited)
		<-time.After(got.waits(t, p))
		if got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`); got.status != 202 {
			t.Fatalf("after the wait: %d %s", got.status, got.body)
		}
	}
	if refusals == 0 {
		t.Error("nothing was refused")
	}
}

// Without Redis each gateway goes on alone, on its share; nothing fails.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	redis, err := admission.Connect("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Close() })
	d := newDoor(t, func(o *httpapi.Options) {
		o.Redis = redis
		o.Limiter = admission.NewLimiter(redis, admission.LimiterOptions{Replicas: 2, Registry: o.Registry})
	})
	d.accept()
	key := d.limited(api.Limits{JobsPerSecond: new(slowly), JobBurst: new(int64(5))})
	statuses := map[int]int{}
	for range 12 {
		got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`)
		statuses[got.status]++
		if got.header.Get("RateLimit") == "" {
			t.Errorf("%d without RateLimit", got.status)
		}
	}
	if diff := cmp.Diff(map[int]int{202: 5, 429: 7}, statuses); diff != "" {
		t.Error(diff)
	}
	if got := d.do("GET", "/readyz", "", ""); !strings.Contains(string(got.body), `"redis":"down"`) {
		t.Errorf("readyz: %s", got.body)
	}
	if line := d.log.requests(t)[11]; line["decided_locally"] != true || line["verdict"] != "rate_limited" {
		t.Errorf("%v", line)
	}
	if got := d.metric("forgequeue_admission_decisions_total"); got["mode=local verdict=admitted"] != 5 || got["mode=local verdict=rate_limited"] != 7 || len(got) != 8 {
		t.Errorf("%v", got)
	}
	eventually(t, "the probe in the background has failed too", func() bool { return d.metric("forgequeue_admission_local")[""] == 1 })
}

// metric gives a family's values by their labels.
func (d *door) metric(name string) map[string]float64 {
	d.t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			values[strings.Join(labels, " ")] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return values
}

// Outcomes and heartbeats have a bucket of their own: beyond it they are refused, each
// outcome and each lease counts, and nothing of it is charged to requests or jobs.
func TestReportsHaveABucketOfTheirOwn(t *testing.T) {
	t.Parallel()
	var limiter *admission.Limiter
	d := newDoor(t, func(o *httpapi.Options) { limiter = o.Limiter })
	key := d.keyWith(func(k *hop.KeyRecord) {
		k.Scopes = []string{api.ScopeWork}
		k.Plan = &api.Plan{Name: "p", Limits: api.Limits{RequestsPerSecond: new(0.001), RequestBurst: new(int64(1)), JobsPerSecond: new(0.001), JobBurst: new(int64(1))}}
	})
	d.core.On(hop.ReportOutcomes.Path, func(item coretest.Item) coretest.Result {
		var request api.OutcomesRequest
		_ = json.Unmarshal(item.Request, &request)
		return coretest.Value(200, api.OutcomesResponse{Results: make([]api.OutcomeResult, len(request.Outcomes))})
	})
	outcome := `{"job_id":"` + jobID + `","kind":"release","lease_token":"t"}`
	batch := `{"outcomes":[` + strings.Repeat(outcome+",", 999) + outcome + `]}`
	limits := api.Limits{JobsPerSecond: new(0.001), JobBurst: new(int64(1))}
	drain := func() (passed int64) {
		for n := int64(1000); n > 0; n /= 10 {
			r, _ := admission.NewReports(admission.Use{Tenant: tenantID}, n, func(string) api.Limits { return limits })
			for limiter.Admit(t.Context(), r).Verdict == bucket.Admitted {
				passed += n
			}
		}
		return passed
	}
	for range 3 { // whose one request and one job are long spent
		if got := d.do("POST", "/v1/outcomes", key, batch); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if passed := drain(); passed < 47_000 { // 50,000 at once
		t.Errorf("%d reports passed at once, want 47000 or more", passed)
	}
	for range 100 { // what comes back while a batch is sent is 5,000 a second
		got := d.do("POST", "/v1/outcomes", key, batch)
		if got.status == 200 {
			drain()
			continue
		}
		p := got.refused(t, 429, problem.RateLimited)
		if len(p.Policies) != 1 || p.Policies[0].Name != "tenant-reports" || p.Policies[0].Limit != 50_000 {
			t.Errorf("%+v", p.Policies)
		}
		return
	}
	t.Error("100 batches of 1000 passed an empty bucket")
}
