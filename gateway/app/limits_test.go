package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// addKey makes a tenant key that core knows.
func addKey(core *coretest.Core, change func(*hop.KeyRecord)) auth.Key {
	key := auth.Mint("live", []byte(keySecret))
	known := hop.KeyRecord{KeyID: key.ID, Kind: hop.PrincipalTenant, SecretHMAC: key.HMAC([]byte(keySecret)), Tenant: "t-" + key.ID, Scopes: api.Scopes()}
	change(&known)
	core.AddKey(known)
	return key
}

// burst is what a gateway says of a key's only policy.
func (g *gateway) burst(t *testing.T, key auth.Key) int64 {
	t.Helper()
	status, text := fetch(t, "GET", g.url+"/v1/limits", key.Text(), "")
	var limits api.LimitsResponse
	if err := json.Unmarshal([]byte(text), &limits); status != 200 || err != nil || len(limits.Policies) != 1 {
		t.Fatalf("%d %s", status, text)
	}
	return limits.Policies[0].Burst
}

// Limits that were changed elsewhere hold in every gateway when the hint arrives,
// not 30 s later.
func TestChangedLimitsHint(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.On(hop.ListCaps.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, hop.CapsResponse{}) })
	url := storetest.Redis(t)
	gateways := []*gateway{start(t, core.URL, url, hang), start(t, core.URL, url, hang)}
	plan := func(name string, burst int64) *api.Plan {
		return &api.Plan{Name: name, Limits: api.Limits{JobsPerSecond: new(1.0), JobBurst: &burst}}
	}
	var known hop.KeyRecord
	name := "plan-" + auth.Mint("live", []byte(keySecret)).ID
	key := addKey(core, func(k *hop.KeyRecord) {
		k.Plan = plan(name, 10)
		known = *k
	})
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	publisher := redis.NewClient(options)
	defer publisher.Close()
	for _, g := range gateways {
		if got := g.burst(t, key); got != 10 {
			t.Fatalf("burst %d", got)
		}
	}
	for i, whose := range []hop.LimitsChanged{{Tenant: known.Tenant}, {Plan: name}} {
		want := int64(20 + i)
		known.Plan = plan(name, want)
		core.AddKey(known)
		hint, err := json.Marshal(whose)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, g := range gateways {
			for g.burst(t, key) != want {
				if time.Since(began) > hang {
					t.Fatalf("%+v: the old limits are still in force", whose)
				}
				// Again, since a subscription may have come later than the hint.
				if err := publisher.Publish(t.Context(), hop.ChannelLimitsChanged, hint).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Two gateways on one Redis give no more than one would.
func TestGatewaysShareTheirLimits(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	url := storetest.Redis(t)
	gateways := []*gateway{start(t, core.URL, url, hang), start(t, core.URL, url, hang)}
	key := addKey(core, func(k *hop.KeyRecord) {
		k.Plan = &api.Plan{Name: "p", Limits: api.Limits{RequestsPerSecond: new(0.001), RequestBurst: new(int64(10))}}
	})
	admitted, local := 0, 0
	for i := range 30 {
		g := gateways[i%2]
		if status, _ := fetch(t, "GET", g.url+"/v1/jobs/x", key.Text(), ""); status == http.StatusNotFound {
			admitted++
		} else if status != http.StatusTooManyRequests {
			t.Errorf("status %d", status)
		}
	}
	for _, g := range gateways {
		_, text := fetch(t, "GET", g.metrics+"/metrics", "", "")
		for line := range strings.Lines(text) {
			var n int
			if _, err := fmt.Sscanf(line, `forgequeue_admission_decisions_total{mode="local",verdict="admitted"} %d`, &n); err == nil {
				local += n
			}
		}
		if !strings.Contains(text, "forgequeue_admission_local ") || !strings.Contains(text, "forgequeue_admission_gateways ") {
			t.Error("metrics of admission are missing")
		}
	}
	// On a machine that stands still for 50 ms a gateway decides alone for a moment.
	if admitted < 10 || admitted > 10+local {
		t.Errorf("%d admitted, %d of them by a gateway alone", admitted, local)
	}
}

// What the settings say of addresses is what the door does.
func TestAddressSettings(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	from := func(g *gateway, address string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/v1/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Close = true
		request.Header.Set("X-Forwarded-For", address)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	limited := start(t, core.URL, "", hang, "FORGEQUEUE_TRUSTED_PROXIES", "10.0.0.0/8, 127.0.0.1", "FORGEQUEUE_IP_RATE", "0.001", "FORGEQUEUE_IP_BURST", "2")
	failing := start(t, core.URL, "", hang, "FORGEQUEUE_FAILED_KEY_RATE", "0.001", "FORGEQUEUE_FAILED_KEY_BURST", "2")
	open := start(t, core.URL, "", hang, "FORGEQUEUE_FAILED_KEY_RATE", "0", "FORGEQUEUE_IP_RATE", "0", "FORGEQUEUE_FAILED_KEY_BURST", "1", "FORGEQUEUE_TRUSTED_PROXIES", "127.0.0.1")
	for i, want := range []int{401, 401, 429} {
		if got := from(limited, "203.0.113.7"); got != want {
			t.Errorf("request %d from one address: %d", i, got)
		}
		if got := from(failing, fmt.Sprintf("203.0.113.%d", i)); got != want {
			t.Errorf("failure %d from loopback: %d", i, got)
		}
		if got := from(open, "203.0.113.7"); got != 401 {
			t.Errorf("without limits: %d", got)
		}
	}
	if got := from(limited, "203.0.113.8"); got != 401 {
		t.Errorf("another address: %d", got)
	}
}
