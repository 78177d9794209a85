package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
)

// A browser that leaves while it waits for the answer to its first click is no failure of the gateway.
func TestABrowserLeavesItsSecondClick(t *testing.T) {
	t.Parallel()
	made, release := make(chan struct{}), make(chan struct{})
	f := &fake{answers: map[string]string{"GET /v1/whoami": `{"tenant":"t","user":null,"scopes":["read","admin"],"plan":"p","key_id":"k"}`, "GET /v1/keys": emptyList}}
	served, err := console.New(console.Options{Secret: []byte(strings.Repeat("s", 32)), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	handler := served.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			close(made)
			<-release
		}
		f.ServeHTTP(w, r)
	}))
	b := &formBrowser{handler: handler}
	b.post("/console/sign-in", url.Values{"key": {"the-key"}})
	form := formsOf(b.send(http.MethodGet, "/console/keys", nil).Body.String())[0]
	first := make(chan struct{})
	go func() {
		defer close(first)
		b.post("/console/keys", form.values)
	}()
	<-made
	left, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(left, http.MethodPost, "/console/keys", strings.NewReader(form.values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Cookie", b.cookie)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %.99q", w.Code, w.Body)
	}
	close(release)
	<-first
}

// A form that makes something works once over all gateways, also if its second click arrives at another one; after a
// failure it may be sent again, to any.
func TestAFormWorksOnceOverAllGateways(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/whoami": `{"tenant":"t","user":null,"scopes":["read","admin"],"plan":"p","key_id":"k"}`, "GET /v1/keys": emptyList, "POST /v1/keys": "503",
	}}
	shared := storetest.Redis(t)
	var gateways [2]http.Handler
	for i := range gateways {
		redis, err := admission.ConnectWithin(shared, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = redis.Close() })
		limiter := admission.NewLimiter(redis, admission.LimiterOptions{})
		made, err := console.New(console.Options{
			Secret: []byte(strings.Repeat("s", 32)), Now: func() time.Time { return noon },
			Forms: visit.Forms{First: limiter.FirstForm, Forget: limiter.ForgetForm},
		})
		if err != nil {
			t.Fatal(err)
		}
		gateways[i] = made.Handler(f)
	}
	cookie := ""
	send := func(gateway int, path string, fields url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(fields.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		gateways[gateway].ServeHTTP(w, r)
		return w
	}
	cookie, _, _ = strings.Cut(send(0, "/console/sign-in", url.Values{"key": {"the-key"}}).Header().Get("Set-Cookie"), ";")
	page := httptest.NewRequest(http.MethodGet, "/console/keys", nil)
	page.Header.Set("Cookie", cookie)
	w := httptest.NewRecorder()
	gateways[0].ServeHTTP(w, page)
	form := url.Values{"scope": {"read"}}
	for _, name := range []string{"form", "once"} {
		form.Set(name, regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(w.Body.String())[1])
	}
	for gateway := range gateways {
		if got := send(gateway, "/console/keys", form); got.Code != http.StatusServiceUnavailable {
			t.Errorf("core is away: %d %.99q", got.Code, got.Body)
		}
	}
	const secret = "fq_live_made_once"
	f.answers["POST /v1/keys"] = `{"key_id":"new","key":"` + secret + `","tenant":"t","user":null,"scopes":["read"],"expires_at":null,"created_at":"2026-11-20T12:00:00Z"}`
	failed := countOf(f.asked, "POST /v1/keys")
	if got := send(1, "/console/keys", form); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), secret) {
		t.Errorf("%d %.99q", got.Code, got.Body)
	}
	if got := send(0, "/console/keys", form); got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "was already sent") || strings.Contains(got.Body.String(), secret) {
		t.Errorf("to another gateway: %d %.99q", got.Code, got.Body)
	}
	if got := send(1, "/console/keys", form); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), secret) {
		t.Errorf("again: %d %.99q", got.Code, got.Body)
	}
	if made := countOf(f.asked, "POST /v1/keys") - failed; made != 1 {
		t.Errorf("%d keys are made", made)
	}
}
