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

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// refused says that the answer is a whole problem document of this code.
func refused(f *calltest.Core, what string, got calltest.Response, code problem.Code) {
	f.Helper()
	p := calltest.Decode[problem.Problem](f, got.Body)
	if p.Code != code || got.Status != problem.New(code, "").Status || got.Header.Get("Content-Type") != problem.ContentType ||
		p.Detail == "" || p.Instance == "" {
		f.Errorf("%s: %d %s, want %s", what, got.Status, got.Body, code)
	}
}

func TestOnlySignedRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	path, body := hop.GetJob.Path, calltest.Envelope(calltest.Item(f.Tenant, hop.ID{ID: "x"}))
	sign := func(secret, method, path string, body []byte, at time.Duration) string {
		return identity.Sign([]byte(secret), method, path, body, time.Now().Add(at))
	}
	good := sign(calltest.Secret, "POST", path, body, 0)
	for name, c := range map[string]struct {
		assertion string
		code      problem.Code
	}{
		"signed":                 {good, ""},
		"by the previous secret": {sign(calltest.Previous, "POST", path, body, 0), ""},
		"nearly late":            {sign(calltest.Secret, "POST", path, body, -25*time.Second), ""},
		"nearly early":           {sign(calltest.Secret, "POST", path, body, 25*time.Second), ""},
		"unsigned":               {"", problem.Unauthenticated},
		"nonsense":               {"v1 nonsense", problem.Unauthenticated},
		"another secret":         {sign(strings.Repeat("x", 40), "POST", path, body, 0), problem.Unauthenticated},
		"another method":         {sign(calltest.Secret, "PUT", path, body, 0), problem.Unauthenticated},
		"another path":           {sign(calltest.Secret, "POST", hop.ClaimJobs.Path, body, 0), problem.Unauthenticated},
		"another body":           {sign(calltest.Secret, "POST", path, append([]byte(" "), body...), 0), problem.Unauthenticated},
		"another time":           {strings.Replace(good, "t=1", "t=2", 1), problem.Unauthenticated},
		"late":                   {sign(calltest.Secret, "POST", path, body, -31*time.Second), problem.AssertionExpired},
		"early":                  {sign(calltest.Secret, "POST", path, body, 31*time.Second), problem.AssertionExpired},
	} {
		r := f.Request(t.Context(), path, body)
		r.Header.Set(identity.Header, c.assertion)
		got := f.Send(r)
		if c.code == "" {
			if got.Status != http.StatusOK {
				t.Errorf("%s: %d %s", name, got.Status, got.Body)
			}
			again := f.Request(t.Context(), path, body)
			again.Header.Set(identity.Header, c.assertion)
			if got := f.Send(again); got.Status != http.StatusConflict || got.Header.Get(identity.TimeHeader) != "" ||
				!bytes.Contains(got.Body, []byte(`"code":"`+identity.TakenCode+`"`)) {
				t.Errorf("%s, captured and sent again: %d %v %s", name, got.Status, got.Header, got.Body)
			}
			continue
		}
		refused(f, name, got, c.code)
		micros, err := strconv.ParseInt(got.Header.Get(identity.TimeHeader), 10, 64)
		if c.code == problem.AssertionExpired {
			if err != nil || time.Since(time.UnixMicro(micros)).Abs() > 10*time.Second {
				t.Errorf("%s: core's time is %q", name, got.Header.Get(identity.TimeHeader))
			}
		} else if err == nil {
			t.Errorf("%s: core's time is told to a stranger", name)
		}
	}
}

func TestRoutesAndMethods(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
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
		r, err := http.NewRequestWithContext(t.Context(), c.method, f.HTTP.URL+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		refused(f, c.method+" "+c.path, f.Send(r), c.code)
	}
}

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	many := func(n int) []byte {
		items := make([]hop.Item[hop.ID], n)
		for i := range items {
			items[i] = calltest.Item(f.Tenant, hop.ID{ID: "x"})
		}
		return calltest.Envelope(items...)
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
		got := f.Send(f.Request(t.Context(), hop.GetJob.Path, c.body))
		if c.code != "" {
			refused(f, name, got, c.code)
		} else if got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
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
	f := calltest.New(t)
	r := f.Request(t.Context(), hop.SubmitJobs.Path, nil)
	r.Body, r.ContentLength = io.NopCloser(&zeros{hop.MaxBody + 1}), hop.MaxBody+1
	refused(f, "with its length", f.Send(r), problem.PayloadTooLarge)
}

// A body that breaks off is not served, and not remembered as anything.
func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	r := f.Request(t.Context(), hop.SubmitJobs.Path, nil)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte("{"))), 100
	answered, err := f.Client.Do(r)
	if err == nil {
		_ = answered.Body.Close()
		t.Fatalf("status %d", answered.StatusCode)
	}
}

func TestLiveAndReady(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	ask := func(path string) (int, api.Readiness) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.HTTP.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		got := f.Send(r)
		return got.Status, calltest.Decode[api.Readiness](f, got.Body)
	}
	if status, got := ask("/livez"); status != http.StatusOK || got.Status != "ok" {
		t.Errorf("livez: %d %+v", status, got)
	}
	if status, got := ask("/readyz"); status != http.StatusOK || got.Status != "ok" || got.Checks["database"] != "ok" {
		t.Errorf("readyz: %d %+v", status, got)
	}
	f.Draining.Store(true)
	if status, got := ask("/readyz"); status != http.StatusServiceUnavailable || got.Status != "draining" {
		t.Errorf("readyz while draining: %d %+v", status, got)
	}
	if status, _ := ask("/livez"); status != http.StatusOK {
		t.Errorf("livez while draining: %d", status)
	}
	f.Draining.Store(false)
	f.DropDatabase()
	if status, got := ask("/readyz"); status != http.StatusOK || got.Status != "degraded" || got.Checks["database"] != "down" {
		t.Errorf("readyz without a database: %d %+v", status, got)
	}
	told := calltest.One[api.Readiness](f, hop.GetReadiness.Path, calltest.Operator(), struct{}{})
	if told.Status != "degraded" {
		t.Errorf("the gateway is told %+v", told)
	}
}

// Without its database core says so, and when to come back; it never says 500.
func TestTheDatabaseIsGone(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	f.Submit()
	claimed := f.Claim()
	f.DropDatabase()
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
			request := calltest.Job()
			request.Idempotency = keyed
			got := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, calltest.Item(f.Tenant, request))[0]
			unavailable(what, got.Status, got.Problem)
		}
		claim := calltest.Ask[api.ClaimResponse](f, hop.ClaimJobs.Path, calltest.Item(f.Tenant, calltest.ClaimOf(0)))[0]
		unavailable("claim", claim.Status, claim.Problem)
		beat := calltest.Ask[api.HeartbeatResponse](f, hop.Heartbeat.Path, calltest.Item(f.Tenant, hop.WorkerHeartbeat{WorkerID: "w1"}))[0]
		unavailable("heartbeat", beat.Status, beat.Problem)
		ended := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken})
		unavailable("complete", ended.Status, ended.Problem)
		key := calltest.Ask[hop.KeyRecord](f, hop.LookUpKey.Path, calltest.Item(hop.Principal{}, hop.ID{ID: "k"}))[0]
		unavailable("key", key.Status, key.Problem)
	}
}
