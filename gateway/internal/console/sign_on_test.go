package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso/ssotest"
	"github.com/forgequeue/forgequeue/gateway/internal/inner"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	acme, globex, deleted = "0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b", "0190a000-0000-7000-8000-00000000000c"

	sessionCookie, flowCookie = "__Host-forgequeue-console", "__Host-forgequeue-console-sign-on"
)

// personAPI answers people, in the tenants that exist.
func personAPI(w http.ResponseWriter, r *http.Request) {
	who, is := inner.PersonOf(r.Context())
	names := map[string]string{acme: "Acme", globex: "Globex"}
	switch {
	case !is || r.Header.Get("Authorization") != "":
		problem.New(problem.Unauthenticated, "").Write(w)
	case names[who.Tenant] == "":
		problem.New(problem.Forbidden, "").Write(w)
	case strings.HasSuffix(r.URL.Path, "/events"):
		w.WriteHeader(http.StatusOK)
		<-r.Context().Done()
	case r.URL.Path == "/v1/whoami":
		_ = json.NewEncoder(w).Encode(api.Whoami{Tenant: &who.Tenant, TenantName: new(names[who.Tenant]), Scopes: who.Scopes, KeyID: who.KeyID})
	default:
		_, _ = io.WriteString(w, emptyList)
	}
}

// person is a browser at a console with single sign-on.
type person struct {
	t       *testing.T
	at      *ssotest.Provider
	served  http.Handler
	every   time.Duration
	cookies map[string]*http.Cookie

	mu  sync.Mutex
	now time.Time
	// used are the sign-ins that were finished; away, where not nil, is what Redis answers.
	used map[string]bool
	away error
}

func newPerson(t *testing.T, every time.Duration, groups ...string) *person {
	t.Helper()
	b := &person{t: t, every: every, cookies: map[string]*http.Cookie{}, now: time.Now(), used: map[string]bool{}}
	b.at = ssotest.New(t, b.clock, groups...)
	b.served = newConsole(t, b)
	return b
}

// newConsole is a gateway's console, for a person.
func newConsole(t *testing.T, b *person) http.Handler {
	t.Helper()
	grants, err := sso.ParseGrants(`[
		{"group": "old", "tenant": "` + deleted + `", "scopes": ["read"]}, {"group": "ops", "tenant": "` + acme + `", "scopes": ["read", "manage"]},
		{"group": "more", "tenant": "` + globex + `", "scopes": ["read"]}
	]`)
	if err != nil {
		t.Fatal(err)
	}
	made, err := console.New(console.Options{
		Secret: []byte(strings.Repeat("s", 32)), Now: b.clock, Links: console.Links{First: b.first}, SignOn: sso.New(sso.Options{
			Issuer: b.at.URL, ClientID: ssotest.ClientID, Grants: grants, GroupsClaim: "groups", PublicURL: "https://jobs.example.com", CheckEvery: b.every, Now: b.clock,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return made.Handler(http.HandlerFunc(personAPI))
}

func (b *person) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *person) first(_ context.Context, id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.used[id]
	b.used[id] = true
	return !used && b.away == nil, b.away
}

func (b *person) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *person) send(method, path string, fields ...string) *http.Response {
	b.t.Helper()
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, cookie := range b.cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	b.served.ServeHTTP(w, r)
	got := w.Result()
	for _, cookie := range got.Cookies() {
		if b.cookies[cookie.Name] = cookie; cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		}
	}
	return got
}

// get gives what a page answers: its status, where it leads, its text.
func (b *person) get(path string) (status int, text string) {
	b.t.Helper()
	return read(b.t, b.send(http.MethodGet, path))
}

func read(t *testing.T, got *http.Response) (status int, text string) {
	t.Helper()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, got.Header.Get("Location") + got.Header.Get("Refresh") + string(all)
}

// begin gives the address to which the provider sends the browser back.
func (b *person) begin(next string) string {
	b.t.Helper()
	got := b.send(http.MethodGet, "/console/oidc/begin?next="+url.QueryEscape(next))
	return sso.CallbackPath + "?" + b.at.SignIn(got.Header.Get("Location")).Encode()
}

func (b *person) signIn() string {
	b.t.Helper()
	status, text := b.get(b.begin(""))
	if status != http.StatusOK {
		b.t.Fatalf("%d %s", status, text)
	}
	return text
}

// want checks a status, and words of the page.
func (b *person) want(what string, status int, text string, wantStatus int, words ...string) {
	b.t.Helper()
	if status != wantStatus || slices.ContainsFunc(words, func(one string) bool { return !strings.Contains(text, one) }) {
		b.t.Errorf("%s: %d %s, want %d with %q", what, status, text, wantStatus, words)
	}
}

func TestAPersonSignsIn(t *testing.T) {
	t.Parallel()
	b := newPerson(t, time.Minute, "ops")
	status, text := b.get("/console/sign-in?next=/console/queues")
	b.want("the form", status, text, 200, `href="/console/oidc/begin?next=%2fconsole%2fqueues"`, "single sign-on", "API key")
	if _, text := open(t, &fake{answers: map[string]string{}})(http.MethodGet, "/console/sign-in"); strings.Contains(text, "single sign-on") {
		t.Error("a console without single sign-on offers it")
	}
	callback := b.begin("/console/queues?x=1")
	flow := b.cookies[flowCookie]
	if flow == nil || !flow.HttpOnly || !flow.Secure || flow.SameSite != http.SameSiteLaxMode || flow.MaxAge != 600 || flow.Path != "/" {
		t.Errorf("%+v", flow)
	}
	status, text = b.get(callback)
	b.want("the callback", status, text, 200, "0; url=/console/queues?x=1", "You are signed in")
	got := b.cookies[sessionCookie]
	if b.cookies[flowCookie] != nil || got == nil || got.SameSite != http.SameSiteStrictMode || !got.Secure || strings.Contains(text, "access-") {
		t.Errorf("%+v", b.cookies)
	}
	status, text = b.get("/console/session")
	b.want("the session", status, text, 200, "Acme", "ann@example.com", "oidc:ann@example.com/", "read, manage", "What ends this session")
	if strings.Contains(text, "Sign out everywhere") || strings.Contains(text, "Other tenants") {
		t.Error("it offers what a person cannot do")
	}
	for next, want := range map[string]string{"https://evil.example.com/console": "0; url=/console<", "//evil.example.com": "0; url=/console<", "/console/" + strings.Repeat("x", 2000): "0; url=/console<"} {
		if _, text = b.get(b.begin(next)); !strings.HasPrefix(text, want) {
			t.Errorf("%.40s leads to %.60s", next, text)
		}
	}
	status, _ = b.get("/console/oidc/nothing")
	b.want("no page", status, "", 404)
}

// An answer that was not asked for by this browser signs nobody in.
func TestAnAnswerForAnotherBrowser(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *person, callback string) string{
		"no cookie": func(b *person, callback string) string {
			delete(b.cookies, flowCookie)
			return callback
		},
		"a changed cookie": func(b *person, callback string) string {
			value := []byte(b.cookies[flowCookie].Value)
			value[40] ^= 1
			b.cookies[flowCookie].Value = string(value)
			return callback
		},
		"another cookie": func(b *person, callback string) string {
			b.begin("")
			return callback
		},
		"too late": func(b *person, callback string) string {
			b.pass(11 * time.Minute)
			return callback
		},
		"a changed state": func(_ *person, callback string) string { return strings.Replace(callback, "state=", "state=x", 1) },
		"a session": func(b *person, callback string) string {
			b.get(callback)
			callback = b.begin("")
			b.cookies[flowCookie].Value = b.cookies[sessionCookie].Value
			delete(b.cookies, sessionCookie)
			return callback
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPerson(t, time.Minute, "ops")
			status, text := b.get(change(b, b.begin("")))
			b.want("the callback", status, text, 401, `role="alert"`)
			if b.cookies[sessionCookie] != nil {
				t.Error("somebody is signed in")
			}
		})
	}
	b := newPerson(t, time.Minute, "ops") // and what is sealed of a sign-in is no session
	b.begin("")
	b.cookies[sessionCookie] = &http.Cookie{Name: sessionCookie, Value: b.cookies[flowCookie].Value}
	status, text := b.get("/console")
	b.want("a page", status, text, 303, "/console/sign-in")
}

// A copy of the cookie and of the provider's answer signs nobody in, and does not reach the provider.
func TestAnAnswerIsUsedOnce(t *testing.T) {
	t.Parallel()
	b := newPerson(t, time.Minute, "ops")
	callback := b.begin("")
	flow := *b.cookies[flowCookie]
	b.get(callback)
	delete(b.cookies, sessionCookie)
	b.cookies[flowCookie] = &flow
	status, text := b.get(callback)
	b.want("a copy", status, text, 401, "has ended already")
	b.away = errors.New("away")
	status, text = b.get(b.begin(""))
	b.want("without Redis", status, text, 503, "cannot be checked now", "API key")
	if asked := b.at.Asked("/token"); asked != 1 || b.cookies[sessionCookie] != nil {
		t.Errorf("the provider was asked %d times", asked)
	}
}

// A provider that does not answer ends a session after five minutes, and the page says so.
func TestASessionEndsWithoutTheProvider(t *testing.T) {
	t.Parallel()
	b := newPerson(t, time.Minute, "ops")
	b.signIn()
	b.pass(4 * time.Minute)
	first := *b.cookies[sessionCookie]
	live := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console", nil)
	live.Header.Set("Hx-Request", "true")
	live.AddCookie(&first)
	w := httptest.NewRecorder()
	b.served.ServeHTTP(w, live)
	if w.Code != http.StatusOK || len(w.Result().Cookies()) > 0 {
		t.Errorf("a live update: %d with %v", w.Code, w.Result().Cookies())
	}
	status, text := b.get("/console/session") // its check is in the cookie
	b.want("the session", status, text, 200, "five minutes at most")
	b.at.Set(func(state *ssotest.State) { state.Status = http.StatusServiceUnavailable })
	b.served = newConsole(t, b)
	b.pass(4 * time.Minute)
	status, text = b.get("/console/session")
	b.want("after a restart", status, text, 200, "Acme")
	b.pass(time.Minute)
	status, text = b.get("/console/session")
	b.want("five minutes after the check", status, text, 303, "note=sign-on-unanswered")
	status, text = b.get("/console/sign-in?note=sign-on-unanswered")
	b.want("the form", status, text, 200, "five minutes")
	b.served, b.cookies[sessionCookie] = newConsole(t, b), &first
	status, text = b.get("/console/session")
	b.want("an old cookie, after a restart", status, text, 303, "note=sign-on-unanswered")
}

func TestGroupsThatAreLostEndTheSession(t *testing.T) {
	t.Parallel()
	b := newPerson(t, time.Minute, "ops")
	b.signIn()
	b.at.Set(func(state *ssotest.State) { state.Claims["groups"] = []string{} })
	b.pass(time.Minute)
	status, text := b.get("/console/queues")
	b.want("a page", status, text, 303, "/console/sign-in?note=groups-lost")
	if b.cookies[sessionCookie] != nil {
		t.Error("the cookie is left")
	}
}

// A person chooses among the tenants of their groups, and gets into no other.
func TestAPersonOfSeveralTenants(t *testing.T) {
	t.Parallel()
	b := newPerson(t, time.Minute, "old", "ops", "more")
	if text := b.signIn(); !strings.HasPrefix(text, "0; url=/console/session?note=choose-tenant") {
		t.Errorf("%.60s", text)
	}
	status, text := b.get("/console/session?note=choose-tenant")
	b.want("the session", status, text, 200, "several tenants", "Acme", "Other tenants", `value="`+globex+`"`)
	if strings.Contains(text, deleted) {
		t.Error("it offers a tenant that does not exist")
	}
	token := formToken.FindStringSubmatch(text)[1]
	pause := []string{"form", token, "do", "pause"}
	status, text = read(t, b.send(http.MethodPost, "/console/queues/mails", pause...))
	b.want("a form of this tenant", status, text, 303)
	status, text = read(t, b.send(http.MethodPost, "/console/oidc/tenant", "form", token, "tenant", acme+"x"))
	b.want("no tenant of theirs", status, text, 403, "no access")
	status, text = read(t, b.send(http.MethodPost, "/console/oidc/tenant", "form", "x", "tenant", globex))
	b.want("without the form's token", status, text, 403)
	status, text = read(t, b.send(http.MethodPost, "/console/oidc/tenant", "form", token, "tenant", globex))
	b.want("the change", status, text, 303, "/console?note=tenant-changed")
	status, text = b.get("/console/session")
	b.want("the session", status, text, 200, "Globex", `value="`+acme+`"`)
	for _, path := range []string{"/console/queues/mails", "/console/keys", "/console/oidc/tenant", "/console/sign-out"} {
		status, text = read(t, b.send(http.MethodPost, path, append(pause, "tenant", acme, "once", "1")...))
		b.want("a form from before the change, to "+path, status, text, 403, "of another tenant")
	}
	b.at.Set(func(state *ssotest.State) { state.Claims["groups"] = []string{"ops"} })
	b.pass(time.Minute)
	status, text = b.get("/console/session")
	b.want("the group of this tenant is lost", status, text, 303, "groups-lost")
}

func TestASignOnThatCannotBe(t *testing.T) {
	t.Parallel()
	b := newPerson(t, time.Minute, "old")
	status, text := b.get(b.begin(""))
	b.want("a tenant that does not exist", status, text, 403, deleted, "does not exist")
	b.at.Set(func(state *ssotest.State) { state.Claims["groups"], state.Padding = []string{"ops"}, 5000 })
	status, text = b.get(b.begin(""))
	b.want("large tokens", status, text, 413, "4 KiB")
	b.at.Set(func(state *ssotest.State) { state.Status = http.StatusBadGateway })
	status, text = b.get(sso.CallbackPath + "?code=x&state=y")
	b.want("a callback by itself", status, text, 401, "not begun in this browser")
	if b.cookies[sessionCookie] != nil {
		t.Error("somebody is signed in")
	}
	b = newPerson(t, time.Minute, "ops")
	b.at.Set(func(state *ssotest.State) { state.Status = http.StatusBadGateway })
	status, text = b.get("/console/oidc/begin")
	b.want("a provider that is down", status, text, 503, "does not answer", "API key")
}

// A stream ends when the groups are to be checked: the browser opens it again, which checks them.
func TestAPersonsStreamEndsWithTheCheck(t *testing.T) {
	t.Parallel()
	b := newPerson(t, 100*time.Millisecond, "ops")
	b.signIn()
	path := "/console/jobs/" + acme + "/events"
	status, text := b.get(path)
	b.want("the stream", status, text, 200)
	b.at.Set(func(state *ssotest.State) { state.Claims["groups"] = []string{} })
	b.pass(time.Second)
	status, text = b.get(path)
	b.want("opened again", status, text, 303, "groups-lost")
}

// The audit log calls a person a person, and a key a key.
func TestTheAuditLogNamesPeople(t *testing.T) {
	t.Parallel()
	entry := `{"id":"1","tenant":"t","actor":{"kind":"tenant","key_id":"%","user":null},"action":"queue.pause","object":"mails","detail":{},"at":"2026-11-20T11:00:00Z"}`
	send := open(t, &fake{answers: map[string]string{"GET /v1/audit": `{"items":[` + strings.ReplaceAll(entry, "%", "oidc:ann@example.com/abc") + `,` +
		strings.ReplaceAll(entry, "%", "8y2k4m6n8p0q1r3s") + `],"next_page_token":null}`}})
	_, text := send(http.MethodGet, "/console/audit")
	for _, want := range []string{`person <code>ann@example.com/abc</code>`, `key <code>8y2k4m6n8p0q1r3s</code>`} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %s: %s", want, text)
		}
	}
}
