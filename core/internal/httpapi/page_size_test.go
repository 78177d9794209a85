package httpapi_test

import (
	"encoding/json"
	"math"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
)

// A page size that is out of bounds, as a gateway with a fault might send it, is neither refused by the
// database nor gives a page that is empty or has no end.
func TestPageSizesHaveBounds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.newTenant()
	for _, id := range []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb"} {
		one[api.Key](f, api.HopKeyCreate, operator(), api.HopKeyCreateRequest{
			KeyID: id, Kind: api.PrincipalTenant, Tenant: f.tenant.Tenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead},
		})
	}
	page := func(path string, p api.Principal, size int) api.Result[api.Page[json.RawMessage]] {
		return ask[api.Page[json.RawMessage]](f, path, item(p, api.HopPageRequest{Tenant: f.tenant.Tenant, PageSize: size}))[0]
	}
	for _, path := range []string{api.HopKeyList, api.HopPlanList, api.HopTenantList} {
		want := len(page(path, operator(), api.MaxPageSize).Value.Items)
		if want < 2 {
			t.Fatalf("%s: %d items", path, want)
		}
		for _, size := range []int{0, -1, -2, math.MinInt, math.MaxInt} {
			got := page(path, operator(), size)
			if got.Status != http.StatusOK {
				t.Errorf("%s, page_size %d: %d %v", path, size, got.Status, got.Problem)
			} else if len(got.Value.Items) != want || got.Value.NextPageToken != nil {
				t.Errorf("%s, page_size %d: %d items, want %d; next %v", path, size, len(got.Value.Items), want, got.Value.NextPageToken)
			}
		}
		if got := page(path, operator(), 1); len(got.Value.Items) != 1 || got.Value.NextPageToken == nil {
			t.Errorf("%s, page_size 1: %d items, next %v", path, len(got.Value.Items), got.Value.NextPageToken)
		}
	}
	for _, path := range []string{
		api.HopQueues, api.HopRedriveList, api.HopScheduleList, api.HopTypeList, api.HopWebhookList, api.HopWorkers,
		api.HopList, api.HopDeadLetters, api.HopWorkflowList, api.HopAudit, api.HopUsage, api.HopAttempts, api.HopScheduleRuns, api.HopTypeVersions, api.HopParents,
	} {
		for _, size := range []int{0, -1, -2, math.MinInt, math.MaxInt} {
			request := map[string]any{"page_size": size}
			switch path {
			case api.HopAttempts, api.HopParents:
				request["job_id"] = uuid.Nil.String()
			case api.HopUsage:
				request["by"] = api.ByType
			}
			if got := ask[any](f, path, item(f.tenant, request))[0]; got.Status >= http.StatusInternalServerError {
				t.Errorf("%s, page_size %d: %d %v", path, size, got.Status, got.Problem)
			}
		}
	}
}
