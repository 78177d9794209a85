package operations_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Only what is in push mode, and is the tenant's own, has a destination to try.
func TestProbesNeedADestination(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, hop.Put[api.QueueRequest]{Name: "pulled"})
	of := func(p hop.Principal, name string) hop.Item[hop.Name] {
		return calltest.Item(p, hop.Name{Name: name})
	}
	got := calltest.Statuses(calltest.Ask[api.Queue](f, hop.ProbeQueue.Path,
		of(f.Tenant, "pulled"), of(f.Tenant, "none"), of(f.NewTenant(), "pulled"), of(f.Tenant, api.WebhookQueue("x")), of(calltest.UserOf(f.Tenant, "bob"), "pulled"), of(calltest.Operator(), "pulled")))
	if want := "invalid_request,not_found,not_found,not_found,forbidden,forbidden"; strings.Join(got, ",") != want {
		t.Errorf("queues: %q, want %q", got, want)
	}
	got = calltest.Statuses(calltest.Ask[api.Webhook](f, hop.ProbeWebhook.Path,
		calltest.Item(f.Tenant, hop.Name{Name: "none"}), calltest.Item(calltest.UserOf(f.Tenant, "bob"), hop.Name{Name: "none"})))
	if want := "not_found,forbidden"; strings.Join(got, ",") != want {
		t.Errorf("webhooks: %q, want %q", got, want)
	}
}
