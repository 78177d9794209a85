package admission_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/api"
)

// line is one bucket, for comparing.
type line struct {
	Policy, User string
	Rate         float64
	Burst, Cost  int64
}

func listed(r bucket.Request) []line {
	lines := []line{}
	for _, b := range r.Buckets {
		lines = append(lines, line{b.Policy, b.User, b.Quota.PerSecond(), b.Quota.Burst(), b.Cost})
	}
	return lines
}

// keysOf are the keys of a request, without the prefix: hints first.
func keysOf(r bucket.Request) []string {
	keys := slices.Clone(r.Hints)
	for _, b := range r.Buckets {
		keys = append(keys, b.Key)
	}
	return keys
}

func TestNewRequest(t *testing.T) {
	t.Parallel()
	free := api.Limits{UserJobsPerSecond: new(5.0), UserJobBurst: new(int64(10))}
	whole := api.Limits{
		RequestsPerSecond: new(1000.0), RequestBurst: new(int64(2000)), JobsPerSecond: new(0.2), JobBurst: new(int64(5000)),
		UserRequestsPerSecond: new(2.5), UserJobsPerSecond: new(5.0),
	}
	overrides := &api.Overrides{Users: map[string]api.Limits{"bob": {JobsPerSecond: new(50.0), JobBurst: new(int64(99))}}}
	for _, c := range []struct {
		what  string
		use   admission.Use
		plan  api.Limits
		lines []line
		keys  []string
	}{
		{
			"no limits",
			admission.Use{Tenant: "T", KeyID: "K", User: "u", Jobs: map[string]int64{"u": 1}},
			api.Limits{},
			[]line{},
			nil,
		},
		{
			"a burst without a rate",
			admission.Use{Tenant: "T"},
			api.Limits{RequestBurst: new(int64(5))},
			[]line{},
			nil,
		},
		{
			"a read with an unbound key",
			admission.Use{Tenant: "T", KeyID: "K"},
			whole,
			[]line{{"tenant-requests", "", 1000, 2000, 1}, {"tenant-jobs", "", 0.2, 5000, 0}, {"credential-requests", "", 1000, 2000, 1}},
			[]string{"{T}:owed:tr", "{T}:owed:tj", "{T}:owed:cr:K"},
		},
		{
			"a read with a user-bound key",
			admission.Use{Tenant: "T", KeyID: "K", User: "ann"},
			whole,
			[]line{
				{"tenant-requests", "", 1000, 2000, 1},
				{"tenant-jobs", "", 0.2, 5000, 0},
				{"credential-requests", "", 1000, 2000, 1},
				{"user-requests", "ann", 2.5, 3, 1},
				{"user-jobs", "ann", 5, 5, 0},
			},
			[]string{"{T}:owed:tr", "{T}:owed:tj", "{T}:owed:cr:K", "{T}:owed:ur:ann", "{T}:owed:uj:ann"},
		},
		{
			"a submit with a user-bound key, however its jobs are named",
			admission.Use{Tenant: "T", User: "ann", Jobs: map[string]int64{"": 2, "ann": 3}, TakesSlots: true},
			free,
			[]line{{"user-jobs", "ann", 5, 10, 5}},
			[]string{"{T}:full:t", "{T}:full:u:ann", "{T}:owed:uj:ann"},
		},
		{
			"a batch for several, one with an override",
			admission.Use{
				Tenant: "T", KeyID: "K", Jobs: map[string]int64{"": 4, "bob": 3, "ann": 2}, TakesSlots: true,
			},
			whole,
			[]line{
				{"tenant-requests", "", 1000, 2000, 1},
				{"tenant-jobs", "", 0.2, 5000, 9},
				{"credential-requests", "", 1000, 2000, 1},
				{"user-requests", "ann", 2.5, 3, 1},
				{"user-jobs", "ann", 5, 5, 2},
				{"user-requests", "bob", 2.5, 3, 1},
				{"user-jobs", "bob", 50, 99, 3},
			},
			[]string{"{T}:full:t", "{T}:owed:tr", "{T}:owed:tj", "{T}:owed:cr:K", "{T}:owed:ur:ann", "{T}:owed:uj:ann", "{T}:owed:ur:bob", "{T}:owed:uj:bob"},
		},
		{
			"a key with limits of its own",
			admission.Use{
				Tenant: "T", KeyID: "K", Jobs: map[string]int64{"": 1},
				Credential: api.Limits{RequestsPerSecond: new(7.0), JobsPerSecond: new(8.0), JobBurst: new(int64(80))},
			},
			whole,
			[]line{
				{"tenant-requests", "", 1000, 2000, 1},
				{"tenant-jobs", "", 0.2, 5000, 1},
				{"credential-requests", "", 7, 7, 1},
				{"credential-jobs", "", 8, 80, 1},
			},
			[]string{"{T}:owed:tr", "{T}:owed:tj", "{T}:owed:cr:K", "{T}:owed:cj:K"},
		},
		{
			"a platform key with limits",
			admission.Use{KeyID: "K", Credential: api.Limits{RequestsPerSecond: new(0.5)}},
			api.Limits{},
			[]line{{"credential-requests", "", 0.5, 1, 1}},
			[]string{"{key-K}:owed:cr:K"},
		},
		{
			"a rate of 0",
			admission.Use{Tenant: "T"},
			api.Limits{RequestsPerSecond: new(0.0)},
			[]line{{"tenant-requests", "", 0, 0, 1}},
			[]string{"{T}:owed:tr"},
		},
		{
			"a rate of 0 for jobs hinders no read", admission.Use{Tenant: "T"}, api.Limits{JobsPerSecond: new(0.0)}, []line{}, nil,
		},
	} {
		r := admission.NewRequest(c.use, func(user string) api.Limits { return overrides.For(c.plan, user) })
		if diff := cmp.Diff(c.lines, listed(r)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
		if diff := cmp.Diff(c.keys, keysOf(r)); diff != "" {
			t.Errorf("%s: keys: %s", c.what, diff)
		}
	}
}

func TestNewPeek(t *testing.T) {
	t.Parallel()
	limits := api.Limits{RequestsPerSecond: new(1.0), JobsPerSecond: new(2.0), UserRequestsPerSecond: new(3.0), UserJobsPerSecond: new(0.0)}
	in := func(string) api.Limits { return limits }
	l := admission.LocalLimiter(1)
	d := l.Peek(t.Context(), admission.NewPeek(admission.Use{Tenant: "T", KeyID: "K"}, "bob", in))
	var names []string
	for _, policy := range d.Policies {
		names = append(names, policy.Name)
		if policy.Remaining != policy.Limit || policy.Reset != 0 {
			t.Errorf("untouched: %+v", policy)
		}
	}
	want := []string{"tenant-requests", "tenant-jobs", "credential-requests", "user-requests", "user-jobs"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	policies := []bucket.PolicyState{
		{Name: "tenant-requests", Limit: 2000, Remaining: 1999, Window: 2 * time.Second, Next: time.Millisecond, Reset: time.Millisecond},
		{Name: "user-requests", User: "ann", Limit: 10, Remaining: 9, Window: 2 * time.Second, Next: 200 * time.Millisecond},
		{Name: "user-jobs", User: "ann", Limit: 10, Remaining: 4, Window: 2001 * time.Millisecond},
		{Name: "user-requests", User: "bob", Limit: 20, Remaining: 3, Window: time.Microsecond},
		{Name: "user-jobs", User: "bob", Limit: 10, Remaining: 7, Window: 2 * time.Second, Refused: true, RetryAfter: 1001 * time.Millisecond},
		{Name: "user-jobs", User: "cay", Limit: 11, Remaining: 0, Window: 2 * time.Second},
	}
	const (
		wantPolicy = `"tenant-requests";q=2000;w=2, "user-requests";q=20;w=1, "user-jobs";q=10;w=2`
		wantLimit  = `"tenant-requests";r=1999;t=1, "user-requests";r=3;t=0, "user-jobs";r=7;t=2`
	)
	if got := admission.RateLimitPolicy(policies); got != wantPolicy {
		t.Errorf("RateLimit-Policy is %s\nwant %s", got, wantPolicy)
	}
	if got := admission.RateLimit(policies); got != wantLimit {
		t.Errorf("RateLimit is %s\nwant %s", got, wantLimit)
	}
	if got := admission.RateLimit(nil) + admission.RateLimitPolicy(nil); got != "" {
		t.Errorf("without policies: %q", got)
	}
	for wait, want := range map[time.Duration]string{
		-1: "1", 0: "1", 1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90", 3600*time.Second + 1: "3601",
	} {
		if got := admission.RetryAfter(wait); got != want {
			t.Errorf("Retry-After of %v is %s, want %s", wait, got, want)
		}
	}
	header := http.Header{}
	admission.SetHeaders(header, &admission.Decision{Decision: bucket.Decision{Verdict: bucket.RateLimited, Policies: policies, RetryAfter: 1001 * time.Millisecond}})
	if diff := cmp.Diff(http.Header{"Ratelimit-Policy": {wantPolicy}, "Ratelimit": {wantLimit}, "Retry-After": {"2"}}, header); diff != "" {
		t.Error(diff)
	}
	header = http.Header{}
	admission.SetHeaders(header, &admission.Decision{Decision: bucket.Decision{Verdict: bucket.Admitted}})
	if len(header) > 0 {
		t.Errorf("nothing to say: %v", header)
	}
}

// A batch for a thousand users has headers of a few hundred bytes.
func TestHeadersStaySmall(t *testing.T) {
	t.Parallel()
	var policies []bucket.PolicyState
	for range 1000 {
		policies = append(policies, bucket.PolicyState{Name: "user-requests"}, bucket.PolicyState{Name: "user-jobs"})
	}
	if got := admission.RateLimit(policies); strings.Count(got, `"`) != 4 {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
}
