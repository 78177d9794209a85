package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// A page token that was changed in any place is refused, and so is one of another list,
// tenant, user or filter.
func TestPageTokensAreBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		one[any](f, api.HopSubmit, f.tenant, job(func(r *api.SubmitRequest) { r.User = new("bob") }))
	}
	bob := userOf(f.tenant, "bob")
	page := one[api.Page[api.JobSummary]](f, api.HopList, bob, api.HopListRequest{PageSize: 1})
	token := *page.NextPageToken
	ask1 := func(p api.Principal, path string, request api.HopListRequest) int {
		return ask[any](f, path, item(p, request))[0].Status
	}
	if got := ask1(bob, api.HopList, api.HopListRequest{PageSize: 1, PageToken: token}); got != http.StatusOK {
		t.Fatalf("the token itself: %d", got)
	}
	for i := range token {
		flipped := []byte(token)
		flipped[i] = "AB"[strings.IndexByte("A", flipped[i])+1]
		if got := ask1(bob, api.HopList, api.HopListRequest{PageSize: 1, PageToken: string(flipped)}); got != http.StatusBadRequest {
			t.Errorf("changed in place %d: %d", i, got)
		}
	}
	for name, got := range map[string]int{
		"another filter": ask1(bob, api.HopList, api.HopListRequest{PageToken: token, Filter: api.JobFilter{Type: "test"}}),
		"another user":   ask1(userOf(f.tenant, "eve"), api.HopList, api.HopListRequest{PageToken: token}),
		"no user":        ask1(f.tenant, api.HopList, api.HopListRequest{PageToken: token}),
		"another tenant": ask1(userOf(f.newTenant(), "bob"), api.HopList, api.HopListRequest{PageToken: token}),
		"another list":   ask1(bob, api.HopDeadLetters, api.HopListRequest{PageToken: token}),
		"a bare place":   ask1(bob, api.HopList, api.HopListRequest{PageToken: page.Items[0].ID}),
	} {
		if got != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// What is the tenant's as a whole is not shown to a key that is bound to a user.
func TestAUserBoundKeySeesNoTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit()
	bob := userOf(f.tenant, "bob")
	for path, got := range map[string]int{
		api.HopQueues:   ask[any](f, api.HopQueues, item(bob, api.HopPageRequest{}))[0].Status,
		api.HopQueueGet: ask[any](f, api.HopQueueGet, item(bob, api.HopQueueRequest{Name: api.DefaultQueue}))[0].Status,
		api.HopWorkers:  ask[any](f, api.HopWorkers, item(bob, api.HopPageRequest{}))[0].Status,
		api.HopAudit:    ask[any](f, api.HopAudit, item(bob, api.HopAuditRequest{}))[0].Status,
	} {
		if got != http.StatusForbidden {
			t.Errorf("%s: %d", path, got)
		}
	}
}
