package pages_test

import (
	"encoding/json"
	"math"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A page size that is out of bounds, as a gateway with a fault might send it, is neither refused by the
// database nor gives a page that is empty or has no end.
func TestPageSizesHaveBounds(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	f.NewTenant()
	for _, id := range []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb"} {
		calltest.One[api.Key](f, hop.CreateKey.Path, calltest.Operator(), hop.CreateKeyRequest{
			KeyID: id, Kind: hop.PrincipalTenant, Tenant: f.Tenant.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
		})
	}
	page := func(path string, p hop.Principal, size int) hop.Result[api.Page[json.RawMessage]] {
		return calltest.Ask[api.Page[json.RawMessage]](f, path, calltest.Item(p, hop.PageFor{For: f.Tenant.Tenant, PageRequest: hop.PageRequest{PageSize: size}}))[0]
	}
	for _, path := range []string{hop.ListKeys.Path, hop.ListPlans.Path, hop.ListTenants.Path} {
		want := len(page(path, calltest.Operator(), api.MaxPageSize).Value.Items)
		if want < 2 {
			t.Fatalf("%s: %d items", path, want)
		}
		for _, size := range []int{0, -1, -2, math.MinInt, math.MaxInt} {
			got := page(path, calltest.Operator(), size)
			if got.Status != http.StatusOK {
				t.Errorf("%s, page_size %d: %d %v", path, size, got.Status, got.Problem)
			} else if len(got.Value.Items) != want || got.Value.NextPageToken != nil {
				t.Errorf("%s, page_size %d: %d items, want %d; next %v", path, size, len(got.Value.Items), want, got.Value.NextPageToken)
			}
		}
		if got := page(path, calltest.Operator(), 1); len(got.Value.Items) != 1 || got.Value.NextPageToken == nil {
			t.Errorf("%s, page_size 1: %d items, next %v", path, len(got.Value.Items), got.Value.NextPageToken)
		}
	}
	for _, path := range []string{
		hop.ListQueues.Path, hop.ListRedrives.Path, hop.ListSchedules.Path, hop.ListTypes.Path, hop.ListWebhooks.Path, hop.ListWorkers.Path,
		hop.ListJobs.Path, hop.ListDeadLetters.Path, hop.ListWorkflows.Path, hop.ListAudit.Path, hop.GetUsage.Path, hop.ListAttempts.Path, hop.ListScheduleRuns.Path, hop.ListQueueKeys.Path, hop.ListTypeVersions.Path, hop.ListParents.Path,
	} {
		for _, size := range []int{0, -1, -2, math.MinInt, math.MaxInt} {
			request := map[string]any{"page_size": size}
			switch path {
			case hop.ListAttempts.Path, hop.ListParents.Path:
				request["job_id"] = uuid.Nil.String()
			case hop.GetUsage.Path:
				request["by"] = api.ByType
			}
			if got := calltest.Ask[any](f, path, calltest.Item(f.Tenant, request))[0]; got.Status >= http.StatusInternalServerError {
				t.Errorf("%s, page_size %d: %d %v", path, size, got.Status, got.Problem)
			}
		}
	}
}
