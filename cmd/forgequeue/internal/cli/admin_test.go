package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

func TestTenantsAndKeys(t *testing.T) {
	f := newFixture(t)
	tenant := decodeAs[api.Tenant](f, f.must("tenant", "create", "Shop Berlin", "--weight", "3", "-o", "json"))
	f.want(0, []string{tenant.ID, "Shop Berlin", "standard"}, "tenant", "list", "--limit", "0")
	f.want(0, []string{"Shop Hamburg", "max_active=5", "ada:max_running=2"}, "tenant", "set", tenant.ID, "--name", "Shop Hamburg",
		"--limit", "max_active=5", "--limit", "jobs-per-second=2.5", "--user-limit", "ada:max_running=2")
	set := decodeAs[api.Tenant](f, f.must("tenant", "set", tenant.ID, "--limit", "max_active=none", "--weight", "7", "-o", "json"))
	if set.Weight != 7 || set.Overrides.MaxActive != nil || *set.Overrides.JobsPerSecond != 2.5 || *set.Overrides.Users["ada"].MaxRunning != 2 {
		t.Errorf("%+v", set)
	}
	set = decodeAs[api.Tenant](f, f.must("tenant", "set", tenant.ID, "--reset-limits", "-o", "json"))
	if set.Overrides.JobsPerSecond != nil || len(set.Overrides.Users) != 0 {
		t.Errorf("%+v", set.Overrides)
	}
	f.want(2, []string{"say what to change"}, "tenant", "set", tenant.ID)
	f.want(2, []string{"limits are requests_per_second"}, "tenant", "set", tenant.ID, "--limit", "nonsense=1")
	f.want(2, []string{"USER:NAME"}, "tenant", "set", tenant.ID, "--user-limit", "max_active=1")
	f.want(1, []string{"no tenant"}, "tenant", "set", "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10", "--limit", "max_active=1")

	key := decodeAs[api.NewKey](f, f.must("key", "create", tenant.ID, "--scopes", "read,submit", "--user", "ada", "--expires", "24h", "-o", "json"))
	f.want(0, []string{key.KeyID, "ada", "read"}, "key", "list", tenant.ID)
	if out := f.must("key", "list", tenant.ID, "-o", "json"); strings.Contains(out, key.Secret) {
		t.Error("the list shows the key")
	}
	other := f.with("FORGEQUEUE_API_KEY", key.Secret)
	other.want(0, []string{tenant.ID, "ada", key.KeyID}, "whoami")
	other.want(1, []string{"forbidden (403)"}, "queues", "pause", "x")
	f.want(0, []string{"is revoked"}, "key", "revoke", key.KeyID)
	f.want(0, nil, "key", "revoke", key.KeyID, "-o", "json")
	other.want(3, []string{"unauthenticated (401)"}, "whoami")

	platform := decodeAs[api.NewKey](f, f.must("key", "create", "--platform", "-o", "json"))
	f.with("FORGEQUEUE_API_KEY", platform.Secret).want(0, []string{"platform key"}, "whoami")
	f.want(2, []string{"stands alone"}, "key", "create", tenant.ID, "--platform")
	f.want(2, []string{"name the tenant"}, "key", "create")
	f.want(1, []string{"scopes[0]"}, "key", "create", tenant.ID, "--scopes", "everything")
	f.with("FORGEQUEUE_OPERATOR_KEY", "").want(3, []string{"FORGEQUEUE_OPERATOR_KEY is not set"}, "tenant", "list")
	f.with("FORGEQUEUE_OPERATOR_KEY", f.Ready.APIKey).want(1, []string{"forbidden"}, "tenant", "list")
}

func TestPlans(t *testing.T) {
	f := newFixture(t)
	f.want(0, []string{"requests_per_second"}, "plan", "get", "standard")
	f.must("plan", "set", "small", "--limit", "max_active=10", "--limit", "requests_per_second=0.5", "--max-visibility-timeout", "2m")
	plan := decodeAs[api.Plan](f, f.must("plan", "set", "small", "--limit", "max_active=none", "-o", "json"))
	if plan.Limits.MaxActive != nil || *plan.Limits.RequestsPerSecond != 0.5 || *plan.VisibilityTimeoutMSMax != 120_000 {
		t.Errorf("%+v", plan)
	}
	plan = decodeAs[api.Plan](f, f.must("plan", "set", "small", "--reset", "-o", "json"))
	if plan.Limits.RequestsPerSecond != nil || plan.VisibilityTimeoutMSMax != nil {
		t.Errorf("%+v", plan)
	}
	f.want(1, []string{"not_found"}, "plan", "get", "absent")
	f.want(2, []string{"--max-visibility-timeout"}, "plan", "set", "small", "--max-visibility-timeout", "soon")
}

func TestQueues(t *testing.T) {
	f := newFixture(t)
	q := f.queue()
	f.submitted("x", "-q", q, "--tag", "gpu")
	f.want(0, []string{q, "no worker", "gpu"}, "queues", "list", "--limit", "0")
	f.want(0, []string{q}, "queues", "--limit", "0")
	f.want(0, []string{"paused"}, "queues", "pause", q)
	f.want(0, []string{"paused"}, "queues", "get", q)
	f.want(0, []string{"no worker"}, "queues", "resume", q)
	f.must("queues", "set", q, "--visibility-timeout", "45s", "--max-active", "70", "--max-running", "3", "--retry-base", "1s")
	capped := f.want(0, []string{"max active"}, "queues", "get", q)
	if !regexp.MustCompile(`(?m)^max active +70$`).MatchString(capped.out) {
		t.Errorf("the cap is not shown: %s", capped.out)
	}
	queue := decodeAs[api.Queue](f, f.must("queues", "set", q, "--max-attempts", "9", "--max-running", "none", "--rate", "none", "-o", "json"))
	s := queue.Settings
	if s.VisibilityTimeoutMS != 45_000 || s.MaxAttempts != 9 || s.MaxRunning != nil || s.RatePerSecond != nil || s.Retry.BaseMS != 1000 {
		t.Errorf("%+v", s)
	}
	if s.MaxActive == nil || *s.MaxActive != 70 {
		t.Error("what was not given did not stay: max_active")
	}
	if s = decodeAs[api.Queue](f, f.must("queues", "set", q, "--max-active", "none", "-o", "json")).Settings; s.MaxActive != nil || s.MaxAttempts != 9 {
		t.Errorf("%+v", s)
	}
	f.must("queues", "set", q, "--max-active", "1")
	s = decodeAs[api.Queue](f, f.must("queues", "set", q, "--reset", "-o", "json")).Settings
	if s.VisibilityTimeoutMS != 30_000 || s.MaxAttempts != 3 || s.RatePerSecond != nil || s.MaxActive != nil {
		t.Errorf("%+v", s)
	}
	f.pushQueue(q)
	fresh := f.queue()
	f.want(0, []string{fresh}, "queues", "set", fresh, "--max-attempts", "2")
	f.want(1, []string{"there is no queue absent", "first job", "queues set absent"}, "queues", "get", "absent")
	f.want(1, []string{"invalid_request"}, "queues", "set", q, "--max-attempts", "0")
	f.want(1, []string{"max_active"}, "queues", "set", q, "--max-active", "-1")
	f.want(2, []string{"--max-active"}, "queues", "set", q, "--max-active", "many")
	f.want(2, []string{"--rate"}, "queues", "set", q, "--rate", "fast")
}

func TestWorkersAreListed(t *testing.T) {
	f := newFixture(t)
	q := f.queue()
	f.work("-q", q, "--worker-id", "worker-"+q, "--tag", "gpu", "--concurrency", "2", "--", "true")
	f.eventually("the worker is listed", func() bool {
		r := f.run("workers", "--limit", "0")
		return r.code == 0 && strings.Contains(r.out, "worker-"+q) && strings.Contains(r.out, "ACTIVE") && strings.Contains(r.out, "gpu")
	})
}
