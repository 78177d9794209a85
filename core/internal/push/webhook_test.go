package push_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// webhook makes a webhook of a tenant for cancelled jobs.
func (f *fixture) webhook(owner tenant.ID, url string) {
	f.Helper()
	sealed := f.keys.Seal([]byte(secret), tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue("hook")}.SecretPlace())
	_, made, err := f.d.PutWebhook(f.Context(), owner, "hook", api.WebhookRequest{URL: url, Events: []string{api.EventJobCancelled}}, sealed)
	if err != nil || !made {
		f.Fatal(made, err)
	}
}

// cancelled submits and cancels n jobs, and makes the deliveries of their ends.
func (f *fixture) cancelled(owner tenant.ID, n int) {
	f.Helper()
	for _, id := range f.submit(owner, "idle", n) {
		if _, _, err := f.d.Cancel(f.Context(), owner, "", id); err != nil {
			f.Fatal(err)
		}
	}
	for more := true; more; {
		done, _, err := f.d.Deliver(f.Context(), owner)
		if err != nil {
			f.Fatal(err)
		}
		more = done > 0
	}
}

// A tenant whose endpoint hangs holds back its own deliveries only.
func TestAHangingEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	quiet := f.newTenant()
	release := make(chan struct{})
	hangs := newDestination(t, func(_ http.ResponseWriter, _ *http.Request, _ int) { <-release })
	t.Cleanup(func() { close(release) }) // before the server waits for its calls
	answers := newDestination(t, says(204, ""))
	f.webhook(f.tenant, hangs.URL)
	f.webhook(quiet, answers.URL)
	f.cancelled(f.tenant, 100)
	celltest.Eventually(f, "the endpoint that hangs to be called", func() bool { return len(hangs.got()) > 0 })
	const n = 30
	f.cancelled(quiet, n)
	celltest.Eventually(f, "the other's deliveries to be made", func() bool { return len(answers.got()) == n })
	if left := f.count(`SELECT count(*) FROM jobs WHERE tenant_id = $1 AND queue LIKE '\_%'`, f.tenant); left != 100 {
		t.Errorf("%d of 100 deliveries are left where the endpoint hangs", left)
	}
	if held := len(hangs.got()); held > 64/8 {
		t.Errorf("one destination has %d of 64 calls", held)
	}
}

// After a rotation calls are signed with both secrets, until the time of the old one is over; one that cannot be
// opened is left out.
func TestBothSecretsSign(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := newDestination(t, says(200, ""))
	f.webhook(f.tenant, d.URL)
	const newer = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	place := tenant.QueueKey{Tenant: f.tenant, Name: api.WebhookQueue("hook")}.SecretPlace()
	if _, err := f.d.RotateWebhookSecret(t.Context(), f.tenant, "hook", func([]byte, []byte) ([]byte, error) { return f.keys.Seal([]byte(newer), place), nil }); err != nil {
		t.Fatal(err)
	}
	other, err := seal.New(strings.Repeat("o", 32))
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		change string
		args   []any
		want   []bool
	}{
		{"", nil, []bool{true, true}},
		{`UPDATE queues SET push_secret_previous_until = now() - interval '1 s', updated_at = clock_timestamp() WHERE name = '_webhook.hook'`, nil, []bool{false, true}},
		{
			`UPDATE queues SET push_secret_previous_until = now() + interval '1 h', push_secret_previous = $1, updated_at = clock_timestamp() WHERE name = '_webhook.hook'`,
			[]any{other.Seal([]byte(secret), place)},
			[]bool{false, true},
		},
	} {
		if step.change != "" {
			f.exec(step.change, step.args...)
			if err := f.d.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.cancelled(f.tenant, 1)
		celltest.Eventually(f, "the call", func() bool { return len(d.got()) == i+1 })
		call := d.got()[i]
		var verified []bool
		for _, one := range []string{secret, newer} {
			verifier, err := standardwebhooks.NewWebhook(one)
			if err != nil {
				t.Fatal(err)
			}
			verified = append(verified, verifier.Verify(call.body, call.header) == nil)
		}
		if !slices.Equal(verified, step.want) {
			t.Errorf("step %d: verified with the old and the new secret: %v, want %v", i, verified, step.want)
		}
	}
	celltest.Eventually(f, "the last call to be stored", func() bool {
		shown, err := f.d.Webhook(t.Context(), f.tenant, "hook")
		return err == nil && shown.Deliveries.LastStatus != nil && *shown.Deliveries.LastStatus == 200 && shown.Deliveries.LastAt.After(time.Now().Add(-time.Minute))
	})
	if strings.Contains(f.log.String(), "whsec_") {
		t.Error("a secret is in the log")
	}
}
