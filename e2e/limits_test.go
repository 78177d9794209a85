package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// What the gateways have admitted and refused by rates is in the stats of limits, once, and who was refused is named.
func TestRatesOverTime(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	acme := c.NewTenant(t, "acme")
	rates := api.Limits{JobsPerSecond: new(100.0), UserJobsPerSecond: new(0.001), UserJobBurst: new(int64(3))}
	if _, err := c.Client(t, stack.Operator).PatchTenant(t.Context(), acme.ID, api.TenantPatch{Overrides: &api.Overrides{Limits: rates}}); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	submit := func(gateway int) int { // without the client's retries
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.Gateways[gateway].URL+"/v1/jobs", strings.NewReader(`{"type":"t","user":"ada"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+acme.Key)
		request.Header.Set("Content-Type", "application/json")
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	stack.Eventually(t, time.Minute, "both gateways to know the rates", func() bool {
		return submit(0) == http.StatusTooManyRequests && submit(1) == http.StatusTooManyRequests
	})
	refused := int64(2)
	for i := range 6 {
		if submit(i%2) == http.StatusTooManyRequests {
			refused++
		}
	}
	jobs, err := c.Client(t, acme.Key).List(t.Context(), api.JobFilter{}, client.PageRequest{})
	if err != nil || len(jobs.Items) < 3 {
		t.Fatalf("%d jobs, %v", len(jobs.Items), err)
	}
	var stats api.LimitStats
	stack.Eventually(t, time.Minute, "the reports of both gateways", func() bool {
		if stats, err = c.Client(t, acme.Key).LimitStats(t.Context(), client.StatsRequest{}); err != nil {
			t.Fatal(err)
		}
		// An answer has two reads: a report may come between them.
		return len(stats.Refused) == 1 && stats.Refused[0].Refused >= refused && inAll(&stats, "user-jobs").Used > 0 &&
			inAll(&stats, "user-jobs").Refused == stats.Refused[0].Refused
	})
	if one := stats.Refused[0]; one.Name != "user-jobs" || *one.Whose != "ada" {
		t.Errorf("refused: %+v", one)
	}
	if all := inAll(&stats, "user-jobs"); all.Refused != stats.Refused[0].Refused || all.Limit != 0 {
		t.Errorf("of users: %+v, and by name %d", all, stats.Refused[0].Refused)
	}
	if all := inAll(&stats, "tenant-jobs"); all.Used < 3 || all.Used > int64(len(jobs.Items)) || all.Refused != 0 || all.Limit != 6000 {
		t.Errorf("of the tenant: %+v for %d jobs", all, len(jobs.Items))
	}
}

// inAll is a limit's use in all steps, and its largest limit.
func inAll(stats *api.LimitStats, name string) (all api.LimitStatsItem) {
	for _, limit := range stats.Limits {
		if limit.Name != name {
			continue
		}
		for _, item := range limit.Items {
			all.Used, all.Refused, all.Limit = all.Used+item.Used, all.Refused+item.Refused, max(all.Limit, item.Limit)
		}
	}
	return all
}
