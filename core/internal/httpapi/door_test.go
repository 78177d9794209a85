package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// refused says that the answer is a whole problem document of this code.
func (f *fixture) refused(what string, got response, code problem.Code) {
	f.Helper()
	p := decode[problem.Problem](f, got.body)
	if p.Code != code || got.status != problem.New(code, "").Status || got.header.Get("Content-Type") != problem.ContentType ||
		p.Detail == "" || p.Instance == "" {
		f.Errorf("%s: %d %s, want %s", what, got.status, got.body, code)
	}
}

func TestOnlySignedRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path, body := hop.GetJob.Path, envelope(item(f.tenant, hop.ID{ID: "x"}))
	sign := func(secret, method, path string, body []byte, at time.Duration) string {
		return identity.Sign([]byte(secret), method, path, body, time.Now().Add(at))
	}
	good := sign(secret, "POST", path, body, 0)
	for name, c := range map[string]struct {
		assertion string
		code      problem.Code
	}{
		"signed":                 {good, ""},
		"by the previous secret": {sign(previous, "POST", path, body, 0), ""},
		"nearly late":            {sign(secret, "POST", path, body, -25*time.Second), ""},
		"nearly early":           {sign(secret, "POST", path, body, 25*time.Second), ""},
		"unsigned":               {"", problem.Unauthenticated},
		"nonsense":               {"v1 nonsense", problem.Unauthenticated},
		"another secret":         {sign(strings.Repeat("x", 40), "POST", path, body, 0), problem.Unauthenticated},
		"another method":         {sign(secret, "PUT", path, body, 0), problem.Unauthenticated},
		"another path":           {sign(secret, "POST", hop.ClaimJobs.Path, body, 0), problem.Unauthenticated},
		"another body":           {sign(secret, "POST", path, append([]byte(" "), body...), 0), problem.Unauthenticated},
		"another time":           {strings.Replace(good, "t=1", "t=2", 1), problem.Unauthenticated},
		"late":                   {sign(secret, "POST", path, body, -31*time.Second), problem.AssertionExpired},
		"early":                  {sign(secret, "POST", path, body, 31*time.Second), problem.AssertionExpired},
	} {
		r := f.request(t.Context(), path, body)
		r.Header.Set(identity.Header, c.assertion)
		got := f.send(r)
		if c.code == "" {
			if got.status != http.StatusOK {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
			again := f.request(t.Context(), path, body)
			again.Header.Set(identity.Header, c.assertion)
			if got := f.send(again); got.status != http.StatusConflict || got.header.Get(identity.TimeHeader) != "" ||
				!bytes.Contains(got.body, []byte(`"code":"`+identity.TakenCode+`"`)) {
				t.Errorf("%s, captured and sent again: %d %v %s", name, got.status, got.header, got.body)
			}
			continue
		}
		f.refused(name, got, c.code)
		micros, err := strconv.ParseInt(got.header.Get(identity.TimeHeader), 10, 64)
		if c.code == problem.AssertionExpired {
			if err != nil || time.Since(time.UnixMicro(micros)).Abs() > 10*time.Second {
				t.Errorf("%s: core's time is %q", name, got.header.Get(identity.TimeHeader))
			}
		} else if err == nil {
			t.Errorf("%s: core's time is told to a stranger", name)
		}
	}
}

func TestRoutesAndMethods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		method, path string
		code         problem.Code
	}{
		{"GET", hop.ClaimJobs.Path, problem.MethodNotAllowed},
		{"DELETE", hop.SubmitJobs.Path, problem.MethodNotAllowed},
		{"POST", "/livez", problem.MethodNotAllowed},
		{"POST", "/internal/v1/nothing", problem.NotFound},
		{"POST", hop.ClaimJobs.Path + "/", problem.NotFound},
		{"GET", "/", problem.NotFound},
		{"GET", "/metrics", problem.NotFound},
		{"GET", "/debug/pprof/", problem.NotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, f.server.URL+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		f.refused(c.method+" "+c.path, f.send(r), c.code)
	}
}

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	many := func(n int) []byte {
		items := make([]hop.Item[hop.ID], n)
		for i := range items {
			items[i] = item(f.tenant, hop.ID{ID: "x"})
		}
		return envelope(items...)
	}
	for name, c := range map[string]struct {
		body []byte
		code problem.Code
	}{
		"nothing":         {nil, problem.InvalidJSON},
		"no JSON":         {[]byte(`{"items":[`), problem.InvalidJSON},
		"another type":    {[]byte(`{"items":"x"}`), problem.InvalidJSON},
		"more than one":   {append(many(1), many(1)...), problem.InvalidJSON},
		"null":            {[]byte(`null`), problem.InvalidRequest},
		"no items":        {[]byte(`{"items":[]}`), problem.InvalidRequest},
		"1001 items":      {many(1001), problem.InvalidRequest},
		"1000 items":      {many(1000), ""},
		"an item is null": {[]byte(`{"items":[null]}`), ""},
	} {
		got := f.send(f.request(t.Context(), hop.GetJob.Path, c.body))
		if c.code != "" {
			f.refused(name, got, c.code)
		} else if got.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// zeros is a body that is never whole in the test's memory.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	clear(p[:n])
	z.left -= n
	return int(n), nil
}

func TestABodyTooLarge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.request(t.Context(), hop.SubmitJobs.Path, nil)
	r.Body, r.ContentLength = io.NopCloser(&zeros{hop.MaxBody + 1}), hop.MaxBody+1
	f.refused("with its length", f.send(r), problem.PayloadTooLarge)
}

// A body that breaks off is not served, and not remembered as anything.
func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.request(t.Context(), hop.SubmitJobs.Path, nil)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte("{"))), 100
	answered, err := f.client.Do(r)
	if err == nil {
		_ = answered.Body.Close()
		t.Fatalf("status %d", answered.StatusCode)
	}
}

func TestLiveAndReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ask := func(path string) (int, api.Readiness) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		got := f.send(r)
		return got.status, decode[api.Readiness](f, got.body)
	}
	if status, got := ask("/livez"); status != http.StatusOK || got.Status != "ok" {
		t.Errorf("livez: %d %+v", status, got)
	}
	if status, got := ask("/readyz"); status != http.StatusOK || got.Status != "ok" || got.Checks["database"] != "ok" {
		t.Errorf("readyz: %d %+v", status, got)
	}
	f.draining.Store(true)
	if status, got := ask("/readyz"); status != http.StatusServiceUnavailable || got.Status != "draining" {
		t.Errorf("readyz while draining: %d %+v", status, got)
	}
	if status, _ := ask("/livez"); status != http.StatusOK {
		t.Errorf("livez while draining: %d", status)
	}
	f.draining.Store(false)
	f.dropDatabase()
	if status, got := ask("/readyz"); status != http.StatusOK || got.Status != "degraded" || got.Checks["database"] != "down" {
		t.Errorf("readyz without a database: %d %+v", status, got)
	}
	told := one[api.Readiness](f, hop.GetReadiness.Path, operator(), struct{}{})
	if told.Status != "degraded" {
		t.Errorf("the gateway is told %+v", told)
	}
}

// Without its database core says so, and when to come back; it never says 500.
func TestTheDatabaseIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit()
	claimed := f.claim()
	f.dropDatabase()
	unavailable := func(what string, status int, p *problem.Problem) {
		t.Helper()
		// a connection that was open may take its answer with it
		lost := p != nil && p.Code == problem.OutcomeUnknown
		if p == nil || (p.Code != problem.CoreUnavailable && !lost) || status != http.StatusServiceUnavailable ||
			p.RetryAfterMS == nil || *p.RetryAfterMS < 1 {
			t.Errorf("%s: %d %+v", what, status, p)
		}
	}
	for range 3 {
		for what, keyed := range map[string]*hop.Idempotency{
			"submit": nil, "keyed submit": {Operation: "submit", Key: "k", Fingerprint: strings.Repeat("0", 64)},
		} {
			request := job()
			request.Idempotency = keyed
			got := ask[json.RawMessage](f, hop.SubmitJobs.Path, item(f.tenant, request))[0]
			unavailable(what, got.Status, got.Problem)
		}
		claim := ask[api.ClaimResponse](f, hop.ClaimJobs.Path, item(f.tenant, claimOf(0)))[0]
		unavailable("claim", claim.Status, claim.Problem)
		beat := ask[api.HeartbeatResponse](f, hop.Heartbeat.Path, item(f.tenant, hop.WorkerHeartbeat{WorkerID: "w1"}))[0]
		unavailable("heartbeat", beat.Status, beat.Problem)
		ended := f.outcome(f.tenant, api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken})
		unavailable("complete", ended.Status, ended.Problem)
		key := ask[hop.KeyRecord](f, hop.LookUpKey.Path, item(hop.Principal{}, hop.ID{ID: "k"}))[0]
		unavailable("key", key.Status, key.Problem)
	}
}
