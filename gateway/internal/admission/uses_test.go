package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// reported is what the limiter reports when it ends, by tenant, in one order.
func reported(t *testing.T, l *admission.Limiter) map[string][]hop.LimitUse {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var mu sync.Mutex
	all := map[string][]hop.LimitUse{}
	l.Report(ctx, func(ctx context.Context, tenant string, uses []hop.LimitUse) error {
		if ctx.Err() != nil {
			t.Errorf("the last report has no time: %v", ctx.Err())
		}
		slices.SortFunc(uses, func(a, b hop.LimitUse) int { return strings.Compare(a.Limit+" "+a.Name, b.Limit+" "+b.Name) })
		mu.Lock()
		defer mu.Unlock()
		all[tenant] = uses
		return errors.New("core is away")
	})
	return all
}

func keyOf(tenant, user string, limits api.Limits) *hop.KeyRecord {
	return &hop.KeyRecord{Tenant: tenant, KeyID: "key-" + tenant, User: user, Plan: &api.Plan{Limits: limits}}
}

// charge charges cost, and says whether it was admitted.
func charge(t *testing.T, l *admission.Limiter, key *hop.KeyRecord, kind admission.CostKind, cost admission.Cost) bool {
	t.Helper()
	a := admission.Payer{Key: key, Kind: kind}
	err := l.Charge(t.Context(), &a, cost)
	if _, refused := errors.AsType[*admission.RefusedError](err); err != nil && !refused {
		t.Fatal(err)
	}
	if again := l.Charge(t.Context(), &a, cost); again != nil {
		t.Errorf("a repeat is decided: %v", again)
	}
	return err == nil
}

// submit is the cost of so many jobs of a user.
func submit(user string, n int) admission.Cost {
	cost := admission.Submit(true, false)
	for range n {
		cost.Add(&api.SubmitRequest{Type: "a", User: &user})
	}
	return cost
}

// What is charged is reported once: what was admitted for all, what was refused by name too, of the bucket that refused.
func TestUsesAreReported(t *testing.T) {
	t.Parallel()
	l := limiter(t, "", admission.LimiterOptions{})
	limits := api.Limits{
		RequestsPerSecond: new(slowly), RequestBurst: new(int64(100)), JobsPerSecond: new(2.0), JobBurst: new(int64(1000)),
		UserJobsPerSecond: new(slowly), UserJobBurst: new(int64(5)),
	}
	acme, other, platform := keyOf("acme", "", limits), keyOf("other", "eve", limits), keyOf("", "", limits)
	admitted := []bool{
		charge(t, l, acme, admission.CostJobs, submit("bob", 4)),
		charge(t, l, acme, admission.CostJobs, submit("bob", 3)), // refused: 1 is left
		charge(t, l, acme, admission.CostJobs, submit("ada", 6)), // more than there ever is
		charge(t, l, acme, admission.CostRequest, admission.Cost{}),
		charge(t, l, acme, admission.CostReports, admission.Reports(7)),
		charge(t, l, acme, admission.CostNothing, admission.Cost{}),
		charge(t, l, other, admission.CostRequest, admission.Cost{}),
		charge(t, l, platform, admission.CostRequest, admission.Cost{}),
	}
	if want := []bool{true, false, false, true, true, true, true, true}; !slices.Equal(admitted, want) {
		t.Fatalf("%v, want %v", admitted, want)
	}
	want := map[string][]hop.LimitUse{
		"acme": {
			{Limit: "credential-requests", Used: 2},
			{Limit: "tenant-jobs", Used: 4, Allowed: 120},
			{Limit: "tenant-reports", Used: 7, Allowed: 300_000},
			{Limit: "tenant-requests", Used: 2},
			{Limit: "user-jobs", Used: 4, Refused: 9},
			{Limit: "user-jobs", Name: "ada", Refused: 6},
			{Limit: "user-jobs", Name: "bob", Refused: 3},
		},
		"other": {{Limit: "credential-requests", Used: 1}, {Limit: "tenant-requests", Used: 1}},
	}
	if diff := cmp.Diff(want, reported(t, l)); diff != "" {
		t.Error(diff)
	}
	if again := reported(t, l); len(again) != 0 {
		t.Errorf("reported again: %v", again)
	}
}

// What a hint of a full cap refuses never comes to core: it is reported by the cap's name.
func TestRefusalsByHintsAreReported(t *testing.T) {
	t.Parallel()
	l := limiter(t, storetest.Redis(t), admission.LimiterOptions{})
	key := keyOf("acme", "", api.Limits{UserMaxActive: new(int64(9))})
	for begun := time.Now(); ; { // a hint lives for 250 ms
		l.CapReached(t.Context(), "acme", "bob", api.CapUse{Scope: "user", Kind: "active", Used: 9, Limit: 9}, 0)
		if !charge(t, l, key, admission.CostJobs, submit("bob", 2)) {
			break
		}
		if time.Since(begun) > hang {
			t.Fatal("the hint does not refuse")
		}
	}
	want := map[string][]hop.LimitUse{"acme": {
		{Limit: "user-active", Used: 9, Allowed: 9, Refused: 2}, {Limit: "user-active", Name: "bob", Used: 9, Allowed: 9, Refused: 2},
	}}
	if diff := cmp.Diff(want, reported(t, l)); diff != "" {
		t.Error(diff)
	}
}

// A tenant that draws its users' names fills its own place only; what all are refused is counted all the same.
func TestUsesAreBounded(t *testing.T) {
	t.Parallel()
	l := limiter(t, "", admission.LimiterOptions{})
	limits := api.Limits{UserJobsPerSecond: new(slowly), UserJobBurst: new(int64(1))}
	const users, most = 1100, 1000
	for i := range users {
		if charge(t, l, keyOf("acme", "", limits), admission.CostJobs, submit(fmt.Sprint(i), 2)) {
			t.Fatal("2 of 1 are admitted")
		}
	}
	charge(t, l, keyOf("other", "", limits), admission.CostJobs, submit("bob", 2))
	all := reported(t, l)
	if acme := all["acme"]; len(acme) != most+1 || acme[0] != (hop.LimitUse{Limit: "user-jobs", Refused: 2 * users}) || len(all["other"]) != 2 {
		t.Errorf("%d: %+v, and %v", len(acme), acme[:min(1, len(acme))], all["other"])
	}
}
