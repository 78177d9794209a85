package httpapi_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Only what is in push mode, and is the tenant's own, has a destination to try.
func TestProbesNeedADestination(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one[api.Queue](f, api.HopQueuePut, f.tenant, api.HopQueuePutRequest{Name: "pulled"})
	of := func(p api.Principal, name string) api.Item[api.HopQueueRequest] {
		return item(p, api.HopQueueRequest{Name: name})
	}
	got := statuses(ask[api.Queue](f, api.HopQueueProbe,
		of(f.tenant, "pulled"), of(f.tenant, "none"), of(f.newTenant(), "pulled"), of(f.tenant, api.WebhookQueue("x")), of(userOf(f.tenant, "bob"), "pulled"), of(operator(), "pulled")))
	if want := "invalid_request,not_found,not_found,not_found,forbidden,forbidden"; strings.Join(got, ",") != want {
		t.Errorf("queues: %q, want %q", got, want)
	}
	got = statuses(ask[api.Webhook](f, api.HopWebhookProbe,
		item(f.tenant, api.HopWebhookRequest{Name: "none"}), item(userOf(f.tenant, "bob"), api.HopWebhookRequest{Name: "none"})))
	if want := "not_found,forbidden"; strings.Join(got, ",") != want {
		t.Errorf("webhooks: %q, want %q", got, want)
	}
}
