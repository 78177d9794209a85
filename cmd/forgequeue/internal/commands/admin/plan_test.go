package admin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestPlans(t *testing.T) {
	f := commandtest.New(t)
	f.Want(0, []string{"requests_per_second"}, "plan", "get", "standard")
	f.Must("plan", "set", "small", "max_active=10", "requests_per_second=0.5", "--max-visibility-timeout", "2m")
	plan := commandtest.Decode[api.Plan](f, f.Must("plan", "set", "small", "max_active=none", "-o", "json"))
	if plan.Limits.MaxActive != nil || *plan.Limits.RequestsPerSecond != 0.5 || *plan.VisibilityTimeoutMSMax != 120_000 {
		t.Errorf("%+v", plan)
	}
	f.Want(0, []string{"requests_per_second=0.5 max_visibility_timeout=2m0s", "standard"}, "plan", "list")
	plan = commandtest.Decode[api.Plan](f, f.Must("plan", "set", "small", "--reset", "-o", "json"))
	if names := strings.Fields(f.Must("plan", "list", "-o", "name")); !slices.Contains(names, "small") || !slices.IsSorted(names) {
		t.Errorf("%q", names)
	}
	if plan.Limits.RequestsPerSecond != nil || plan.VisibilityTimeoutMSMax != nil {
		t.Errorf("%+v", plan)
	}
	f.Want(1, []string{"not_found"}, "plan", "get", "absent")
	f.Want(2, []string{"--max-visibility-timeout"}, "plan", "set", "small", "--max-visibility-timeout", "soon")
	f.Want(2, []string{`--max-visibility-timeout "999us": must be 0, or a millisecond or more`}, "plan", "set", "small", "--max-visibility-timeout", "999us")
}
