package httpapi_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Only what is in push mode, and is the tenant's own, has a destination to try.
func TestProbesNeedADestination(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one[api.Queue](f, hop.PutQueue.Path, f.tenant, hop.Put[api.QueueRequest]{Name: "pulled"})
	of := func(p hop.Principal, name string) hop.Item[hop.Name] {
		return item(p, hop.Name{Name: name})
	}
	got := statuses(ask[api.Queue](f, hop.ProbeQueue.Path,
		of(f.tenant, "pulled"), of(f.tenant, "none"), of(f.newTenant(), "pulled"), of(f.tenant, api.WebhookQueue("x")), of(userOf(f.tenant, "bob"), "pulled"), of(operator(), "pulled")))
	if want := "invalid_request,not_found,not_found,not_found,forbidden,forbidden"; strings.Join(got, ",") != want {
		t.Errorf("queues: %q, want %q", got, want)
	}
	got = statuses(ask[api.Webhook](f, hop.ProbeWebhook.Path,
		item(f.tenant, hop.Name{Name: "none"}), item(userOf(f.tenant, "bob"), hop.Name{Name: "none"})))
	if want := "not_found,forbidden"; strings.Join(got, ",") != want {
		t.Errorf("webhooks: %q, want %q", got, want)
	}
}
