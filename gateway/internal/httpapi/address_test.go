package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// behindProxy has a door believe loopback about where requests come from.
func behindProxy(t *testing.T) func(*httpapi.Options) {
	t.Helper()
	proxies, err := request.ParseProxies("X-Forwarded-For", []string{"127.0.0.0/8", "::1", " "})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *httpapi.Options) { o.Proxies = proxies }
}

func addressBurst(n int) func(*httpapi.Options) {
	return func(o *httpapi.Options) {
		o.IPLimit = admission.NewIPLimit(admission.IPLimitOptions{PerSecond: slowly, Burst: n})
	}
}

func failures(n int) func(*httpapi.Options) {
	return func(o *httpapi.Options) {
		o.FailedKeys = admission.NewIPLimit(admission.IPLimitOptions{PerSecond: slowly, Burst: n})
	}
}

// byAddress checks a refusal that was made before anybody was known.
func (a answer) byAddress(t *testing.T, policy string) {
	t.Helper()
	p := a.refused(t, 429, problem.RateLimited)
	if len(p.Policies) != 1 || p.Policies[0].Name != policy || p.Policies[0].Limit != p.Policies[0].Current || p.Policies[0].RetryAfterMS == nil {
		t.Errorf("policies %+v", p.Policies)
	}
	if wait := a.waits(t, p); wait < 900*time.Second || wait > 1001*time.Second {
		t.Errorf("wait %v", wait)
	}
	if a.header.Get("RateLimit")+a.header.Get("WWW-Authenticate") != "" {
		t.Errorf("headers %v", a.header)
	}
}

func TestLimitByAddress(t *testing.T) {
	t.Parallel()
	d := newDoor(t, behindProxy(t), addressBurst(3))
	key := d.key("read")
	from := func(address string, more ...string) answer {
		return d.do("GET", "/v1/whoami", key, "", append([]string{"X-Forwarded-For", address}, more...)...)
	}
	for range 3 {
		if got := from("203.0.113.7"); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	from("203.0.113.7").byAddress(t, "address-requests")
	from("198.51.100.1, 203.0.113.7").byAddress(t, "address-requests") // the client's own word comes first
	// Before anything else: neither headers nor key nor path nor method matter.
	from("203.0.113.7", "X-Big", strings.Repeat("x", api.MaxHeaders)).byAddress(t, "address-requests")
	d.do("GET", "/v1/whoami", "no key", "", "X-Forwarded-For", "203.0.113.7").byAddress(t, "address-requests")
	d.do("BREW", "/no/such/thing", "", "", "X-Forwarded-For", "203.0.113.7").byAddress(t, "address-requests")
	for range 3 { // one client has a whole /64
		from("2001:db8::1")
	}
	from("2001:db8::ffff:1").byAddress(t, "address-requests")
	for _, address := range []string{"203.0.113.8", "2001:db8:0:1::1"} {
		if got := from(address); got.status != 200 {
			t.Errorf("%s: %d %s", address, got.status, got.body)
		}
	}
	for range 10 {
		if got := from("127.0.0.1"); got.status != 200 { // somebody on the proxy's machine, which is this one
			t.Errorf("loopback: %d", got.status)
		}
		for _, probe := range []string{"/livez", "/readyz"} {
			if got := d.do("GET", probe, "", "", "X-Forwarded-For", "203.0.113.7"); got.status == 429 {
				t.Errorf("%s was refused", probe)
			}
		}
	}
	if got := d.metric("forgequeue_address_refusals_total"); got["policy=address-requests"] != 6 || got["policy=failed-keys"] != 0 {
		t.Errorf("%v", got)
	}
	if line := d.log.requests(t)[3]; line["address"] != "203.0.113.7" || line["code"] != "rate_limited" || !strings.HasPrefix(fmt.Sprint(line["remote"]), "127.0.0.1:") {
		t.Errorf("%v", line)
	}
}

// Nobody's word is taken unless he is configured: all of these are one address.
func TestForwardedHeadersOfStrangersAreIgnored(t *testing.T) {
	t.Parallel()
	strangers, err := request.ParseProxies("X-Forwarded-For", []string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*httpapi.Options){
		"no proxy":      func(*httpapi.Options) {},
		"another proxy": func(o *httpapi.Options) { o.Proxies = strangers },
	} {
		d := newDoor(t, change, failures(4))
		for i, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Forwarded-For"} {
			value := fmt.Sprintf("203.0.113.%d", i)
			if header == "Forwarded" {
				value = "for=" + value
			}
			d.do("GET", "/v1/whoami", auth.Mint("test", []byte(keySecret)).Text(), "", header, value).refused(t, 401, problem.Unauthenticated)
		}
		d.do("GET", "/v1/whoami", auth.Mint("test", []byte(keySecret)).Text(), "", "X-Forwarded-For", "203.0.113.99").byAddress(t, "failed-keys")
		if line := d.log.requests(t)[0]; line["address"] != "127.0.0.1" {
			t.Errorf("%s: %v", name, line)
		}
	}
}

func TestLimitOfFailedKeys(t *testing.T) {
	t.Parallel()
	d := newDoor(t, behindProxy(t), failures(5))
	good, fresh := d.key("read"), d.key("read")
	ask := func(address, key string) answer {
		return d.do("GET", "/v1/whoami", key, "", "X-Forwarded-For", address)
	}
	for range 20 { // good keys cost nothing
		if got := ask("203.0.113.7", good); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	expired := d.keyWith(func(k *hop.KeyRecord) { k.ExpiresInMS = new(int64(-1)) })
	for _, bad := range []string{auth.Mint("test", []byte(keySecret)).Text(), "", "short", good[:len(good)-1], expired} {
		ask("203.0.113.7", bad).refused(t, 401, problem.Unauthenticated)
	}
	for _, key := range []string{auth.Mint("test", []byte(keySecret)).Text(), "", expired} {
		ask("203.0.113.7", key).byAddress(t, "failed-keys")
	}
	// Whatever others have sent from there, a credential that is good works.
	if got := ask("203.0.113.7", fresh); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	ask("203.0.113.7", operatorKey).refused(t, 403, problem.Forbidden) // it is the operator's
	// Others behind the same address, whose keys were good before, go on; also when
	// these have to be looked up again.
	parsed, err := auth.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	d.auth.Forget(parsed.ID)
	for range 2 {
		if got := ask("203.0.113.7", good); got.status != 200 {
			t.Errorf("a key that was good before: %d %s", got.status, got.body)
		}
	}
	d.core.RevokeKey(parsed.ID)
	d.auth.Forget(parsed.ID)
	ask("203.0.113.7", good).byAddress(t, "failed-keys") // it is no good any more
	if got := ask("203.0.113.8", fresh); got.status != 200 {
		t.Errorf("another address: %d %s", got.status, got.body)
	}
	if got := d.metric("forgequeue_address_refusals_total"); got["policy=failed-keys"] != 4 {
		t.Errorf("%v", got)
	}
}

// What a proxy of ours does not say of its clients, or a client has spoilt, has a
// limit of its own: neither the proxy's, which may be none, nor another client's.
func TestWhatAProxyDoesNotAttributeIsLimited(t *testing.T) {
	t.Parallel()
	d := newDoor(t, behindProxy(t), addressBurst(3))
	key := d.key("read")
	for i, headers := range [][]string{{"X-Forwarded-For", "unknown"}, {"Forwarded", "for=203.0.113.9"}, nil, {"X-Forwarded-For", ""}} {
		got := d.do("GET", "/v1/whoami", key, "", headers...)
		if i == 3 {
			got.byAddress(t, "address-requests")
		} else if got.status != 200 {
			t.Errorf("%v: %d %s", headers, got.status, got.body)
		}
	}
	for i := range 4 { // a header of his own changes nothing for who comes through a proxy that says it
		got := d.do("GET", "/v1/whoami", key, "", "X-Forwarded-For", "203.0.113.9", "Forwarded", "x")
		if i == 3 {
			got.byAddress(t, "address-requests")
		} else if got.status != 200 {
			t.Errorf("%d: %d %s", i, got.status, got.body)
		}
	}
}

// What a client says of itself does not change whose bucket is charged, and for what.
func TestForgedHeadersAreChargedToTheKey(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.accept()
	key := d.limited(api.Limits{UserJobsPerSecond: new(slowly), UserJobBurst: new(int64(1000))}, boundTo("bob"))
	const body = `{"type":"a"}`
	for i, forgery := range append(forgeries(), "X-Forwarded-For: 203.0.113.7", "X.User: ann", "x_user: ann", "X-User: ann\r\nConnection: X-User", "RateLimit: x", "X-RateLimit-Remaining: 9") {
		told := raw(t, d.url, fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n\r\n%s", key, len(body), forgery, body))
		if want := fmt.Sprintf(`"user-jobs";r=%d;`, 999-i); told.status != http.StatusAccepted || !strings.HasPrefix(told.header.Get("RateLimit"), want) {
			t.Fatalf("%s: %d, RateLimit %s, want %s", forgery, told.status, told.header.Get("RateLimit"), want)
		}
	}
}
