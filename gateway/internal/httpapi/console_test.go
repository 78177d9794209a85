package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// newConsole is a door with the console, and a core with one queue; change may change its options.
func newConsole(t *testing.T, change ...func(*httpapi.Options)) *door {
	t.Helper()
	d := newDoor(t, append(change, func(o *httpapi.Options) {
		made, err := console.New(console.Options{
			Secret: []byte("the console's secret of tests, 32 bytes"), Links: console.Links{Charge: o.Limiter.ChargeLink, First: o.Limiter.FirstUse},
			Hold: o.Auth.HoldSession,
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Console = made.Handler
	})...)
	queue := api.Queue{Name: "mails", Mode: api.ModePull, DepthCapped: []string{}, Unserved: []api.Unserved{}, Settings: api.QueueSettings{MaxAttempts: 3, Types: api.TypeLimits{}}}
	d.core.On(hop.ListPlans.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, api.Page[api.Plan]{Items: []api.Plan{}})
	})
	for _, path := range []string{hop.GetQueue.Path, hop.PauseQueue.Path, hop.PutQueue.Path} {
		d.core.On(path, func(coretest.Item) coretest.Result { return coretest.Value(http.StatusOK, queue) })
	}
	d.core.On(hop.ListQueues.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, api.Page[api.Queue]{Items: []api.Queue{queue}})
	})
	return d
}

// form sends one; fields are name, value.
func (d *door) form(path, cookie string, fields []string, headers ...string) answer {
	d.t.Helper()
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+path, strings.NewReader(values.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	headers = append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", d.url, "Cookie", cookie}, headers...)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return d.send(request)
}

// signIn gives the cookie of a key's session.
func (d *door) signIn(key string) string {
	d.t.Helper()
	got := d.form("/console/sign-in", "", []string{"key", key})
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	if got.status != http.StatusSeeOther || cookie == "" {
		d.t.Fatalf("sign-in: %d %v %s", got.status, got.header, got.body)
	}
	return cookie
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// token is the form token of a session.
func (d *door) token(cookie string) string {
	d.t.Helper()
	got := d.do(http.MethodGet, "/console/session", "", "", "Cookie", cookie)
	found := formToken.FindSubmatch(got.body)
	if found == nil {
		d.t.Fatalf("no form token: %d %s", got.status, got.body)
	}
	return string(found[1])
}

func TestConsoleSignsIn(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	key := d.key("read", "manage")
	if got := d.do(http.MethodGet, "/console/queues/mails?a=b", "", ""); got.status != http.StatusSeeOther || got.header.Get("Location") != "/console/sign-in?next=%2Fconsole%2Fqueues%2Fmails%3Fa%3Db" {
		t.Errorf("without a session: %d %v", got.status, got.header)
	}
	for _, wrong := range []string{"", "x", key[:len(key)-1], "a\nb"} {
		if got := d.form("/console/sign-in", "", []string{"key", wrong}); got.status != http.StatusUnauthorized || got.header.Get("Set-Cookie") != "" ||
			!strings.Contains(string(got.body), "This key is not valid") || wrong != "" && strings.Contains(string(got.body), wrong) && len(wrong) > 3 {
			t.Errorf("with the key %q: %d %s", wrong, got.status, got.body)
		}
	}
	if got := d.form("/console/sign-in", "", []string{"key", d.platformKey()}); got.status != http.StatusForbidden || !strings.Contains(string(got.body), "platform key") {
		t.Errorf("with a platform key: %d %s", got.status, got.body)
	}
	for next, want := range map[string]string{
		"/console/jobs?state=queued": "/console/jobs?state=queued", "https://evil.example": "/console", "//evil.example/console/": "/console",
		"/console/../docs": "/console", "/docs": "/console", `/console/\evil`: "/console", "/consoles": "/console",
	} {
		if got := d.form("/console/sign-in", "", []string{"key", key, "next", next}); got.header.Get("Location") != want {
			t.Errorf("next %q leads to %q, want %q", next, got.header.Get("Location"), want)
		}
	}
	cookie := d.signIn(key)
	if got := d.do(http.MethodGet, "/console/queues", "", "", "Cookie", cookie); got.status != http.StatusOK || !strings.Contains(string(got.body), "mails") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := d.form("/console/sign-out", cookie, []string{"form", d.token(cookie)}); got.status != http.StatusSeeOther || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign-out: %d %v", got.status, got.header)
	}
	if got := d.do(http.MethodGet, "/console/queues", "", "", "Cookie", "forgequeue-console=abc"); got.status != http.StatusSeeOther {
		t.Errorf("with a forged cookie: %d", got.status)
	}
	// The operator's pages are others.
	if got := d.form("/console/sign-in", "", []string{"key", operatorKey}); got.header.Get("Location") != "/console/admin/tenants" {
		t.Errorf("the operator: %d %v", got.status, got.header)
	}
}

// A key sees no button for what it may not do, and a form that it sends all the same is refused by the API itself.
func TestConsoleKeepsToScopes(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	reader, manager := d.signIn(d.key("read")), d.signIn(d.key("read", "manage"))
	for cookie, buttons := range map[string]bool{reader: false, manager: true} {
		got := d.do(http.MethodGet, "/console/queues/mails", "", "", "Cookie", cookie)
		if strings.Contains(string(got.body), `name="do"`) != buttons || got.status != http.StatusOK {
			t.Errorf("buttons %v: %d %s", buttons, got.status, got.body)
		}
	}
	for do, path := range map[string]string{"pause": hop.PauseQueue.Path, "settings": hop.PutQueue.Path} {
		got := d.form("/console/queues/mails", reader, []string{"form", d.token(reader), "do", do})
		if got.status != http.StatusForbidden || !strings.Contains(string(got.body), "The key lacks the scope manage") || len(d.core.Requests(path)) > 0 {
			t.Errorf("%s by a reader: %d %s", do, got.status, got.body)
		}
		got = d.form("/console/queues/mails", manager, []string{"form", d.token(manager), "do", do})
		if got.status != http.StatusSeeOther || len(d.core.Requests(path)) != 1 {
			t.Errorf("%s by a manager: %d %s", do, got.status, got.body)
		}
	}
}

func TestConsoleTakesFormsOfItsOwnPagesOnly(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	cookie, other := d.signIn(d.key("read", "manage")), d.signIn(d.key("read", "manage"))
	token := d.token(cookie)
	for name, c := range map[string]struct {
		fields  []string
		headers []string
	}{
		"no token":            {[]string{"do", "pause"}, nil},
		"another's token":     {[]string{"do", "pause", "form", d.token(other)}, nil},
		"another site":        {[]string{"do", "pause", "form", token}, []string{"Sec-Fetch-Site", "cross-site"}},
		"another subdomain":   {[]string{"do", "pause", "form", token}, []string{"Sec-Fetch-Site", "same-site"}},
		"another site, older": {[]string{"do", "pause", "form", token}, []string{"Origin", "https://evil.example"}},
	} {
		if got := d.form("/console/queues/mails", cookie, c.fields, c.headers...); got.status != http.StatusForbidden || len(d.core.Requests(hop.PauseQueue.Path)) > 0 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := d.do(http.MethodGet, "/console/queues/mails?do=pause&form="+token, "", "", "Cookie", cookie); got.status != http.StatusOK || len(d.core.Requests(hop.PauseQueue.Path)) > 0 {
		t.Errorf("by GET: %d", got.status)
	}
	// A sign-in from another site would show its reader the pages of another key.
	if got := d.form("/console/sign-in", "", []string{"key", d.key("read")}, "Sec-Fetch-Site", "cross-site"); got.status != http.StatusForbidden || got.header.Get("Set-Cookie") != "" {
		t.Errorf("sign-in from another site: %d", got.status)
	}
}

func TestConsoleHeaders(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	cookie := d.signIn(d.key("read"))
	d.core.On(hop.GetQueue.Path, func(coretest.Item) coretest.Result {
		return coretest.Refuse(problem.NotFound, "There is no such queue.")
	})
	for path, status := range map[string]int{
		"/console/sign-in": 200, "/console/queues": 200, "/console/queues/none": 404, "/console/none": 404, "/console/session": 200, "/console/assets/none.js": 404,
		"/console/jobs/x": 404, "/console/": 303,
	} {
		got := d.do(http.MethodGet, path, "", "", "Cookie", cookie)
		if got.status != status {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		policy := got.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || !strings.Contains(policy, "frame-ancestors 'none'") ||
			!strings.Contains(policy, "form-action 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %q", path, policy)
		}
		for header, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got.header.Get(header) != want {
				t.Errorf("%s: %s %q", path, header, got.header.Get(header))
			}
		}
	}
	if got := newDoor(t).do(http.MethodGet, "/console", "", ""); got.status != http.StatusNotFound {
		t.Errorf("without the console: %d", got.status)
	}
}

// A revoked key ends its sessions; a core that is away ends none.
func TestConsoleSessionEndsWithItsKey(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	key := d.key("read")
	cookie := d.signIn(key)
	id := strings.Split(key, "_")[2]
	d.core.RevokeKey(id)
	d.auth.Forget(id)
	got := d.do(http.MethodGet, "/console/queues", "", "", "Cookie", cookie)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/console/sign-in?note=key-ended" || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%d %v", got.status, got.header)
	}
	// An open page is led there too, instead of being emptied.
	if got := d.do(http.MethodGet, "/console/queues", "", "", "Cookie", cookie, "Hx-Request", "true"); got.status != http.StatusNoContent || got.header.Get("Hx-Redirect") == "" {
		t.Errorf("%d %v", got.status, got.header)
	}
}

// endsSessions makes core count how often the sessions of a key were ended.
func (d *door) endsSessions(key string) {
	d.t.Helper()
	known, _, err := d.hop.LookUpKey(d.t.Context(), strings.Split(key, "_")[2])
	if err != nil {
		d.t.Fatal(err)
	}
	d.core.On(hop.EndSessions.Path, func(item coretest.Item) coretest.Result {
		if item.Principal.KeyID != known.KeyID {
			return coretest.Refuse(problem.NotFound, "There is no such resource.")
		}
		known.SessionsEnded++
		d.core.AddKey(known)
		return coretest.Result{Status: http.StatusNoContent}
	})
}

// Streams of the sessions end at once, those of the sessions of other keys and of programs go on.
func TestConsoleStreamsEndWithTheirSessions(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	job := d.watched(api.StateQueued)
	key := d.key("read")
	d.endsSessions(key)
	ofSession := func(key string) *events {
		cookie := d.signIn(key)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/console/jobs/"+jobID+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Cookie", cookie)
		return d.open(request)
	}
	ends, others, program := []*events{ofSession(key), ofSession(key)}, ofSession(d.key("read")), d.events(eventsPath, key)
	for _, stream := range append(ends, others, program) {
		stream.want("job", api.StateQueued)
	}
	signedOut := time.Now()
	if got := d.do(http.MethodDelete, "/v1/sessions", key, ""); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for _, stream := range ends {
		if name, _ := stream.next(); name != "" {
			t.Errorf("the event %q", name)
		}
	}
	if took := time.Since(signedOut); took > 5*time.Second { // a tenth of a second is usual; a check every 10 s is too slow
		t.Errorf("they end after %v", took)
	}
	again := ofSession(key)
	again.want("job", api.StateQueued)
	job.change(toState(api.StateRunning))
	for _, stream := range []*events{others, program, again} {
		stream.want("job", api.StateRunning)
	}
}

// Signing out everywhere ends the sessions and links of the key that have begun before, and nothing else.
func TestConsoleSignsOutEverywhere(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	key := d.key("read")
	d.endsSessions(key)
	link := func() string {
		var link api.ConsoleLink
		d.do(http.MethodPost, "/console/links", key, "").into(t, &link)
		return link.Path[strings.LastIndex(link.Path, "/")+1:]
	}
	here, there, another, unused := d.signIn(key), d.signIn(key), d.signIn(d.key("read")), link()
	wants := func(what, cookie string, status int, location string) {
		t.Helper()
		got := d.do(http.MethodGet, "/console/queues", "", "", "Cookie", cookie)
		if got.status != status || got.header.Get("Location") != location || location != "" && !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("%s: %d %v", what, got.status, got.header)
		}
	}
	wants("the other browser, before", there, http.StatusOK, "")
	got := d.form("/console/sign-out-everywhere", here, []string{"form", d.token(here)})
	if got.header.Get("Location") != "/console/sign-in?note=signed-out-everywhere" || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	const over = "/console/sign-in?note=sessions-ended"
	wants("the other browser", there, http.StatusSeeOther, over)
	wants("a copy of the cookie that was taken away", here, http.StatusSeeOther, over)
	wants("another key", another, http.StatusOK, "")
	if got := d.form("/console/enter", "", []string{"token", unused}); got.status != http.StatusGone || got.header.Get("Set-Cookie") != "" {
		t.Errorf("a link of before: %d %v", got.status, got.header)
	}
	if got := d.form("/console/enter", "", []string{"token", link()}); got.status != http.StatusSeeOther || got.header.Get("Set-Cookie") == "" {
		t.Errorf("a link of now: %d %v", got.status, got.header)
	}
	again := d.signIn(key)
	wants("a session of now", again, http.StatusOK, "")
	if got := d.do(http.MethodDelete, "/v1/sessions", key, ""); got.status != http.StatusNoContent || len(got.body) != 0 {
		t.Errorf("by the API: %d %s", got.status, got.body)
	}
	wants("after it was done by the API", again, http.StatusSeeOther, over)
	// The operator key's are not counted: its page says how they end.
	operator := d.signIn(operatorKey)
	if got := d.do(http.MethodGet, "/console/session", "", "", "Cookie", operator); strings.Contains(string(got.body), "sign-out-everywhere") || !strings.Contains(string(got.body), "FORGEQUEUE_OPERATOR_KEY") {
		t.Errorf("the operator's session page: %s", got.body)
	}
	if got := d.form("/console/sign-out-everywhere", operator, []string{"form", d.token(operator)}); got.status != http.StatusForbidden {
		t.Errorf("the operator signs out everywhere: %d", got.status)
	}
}

func TestConsoleLinks(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	if p := d.do(http.MethodPost, "/console/links", "", "").refused(t, http.StatusUnauthorized, problem.Unauthenticated); p.Instance != "/console/links" {
		t.Errorf("the instance is %q", p.Instance)
	}
	if got := d.do(http.MethodPost, "/console/links", d.platformKey(), ""); got.status != http.StatusForbidden {
		t.Errorf("with a platform key: %d", got.status)
	}
	key := d.key("read")
	var link api.ConsoleLink
	d.do(http.MethodPost, "/console/links", "", "", "Authorization", "bearer "+key).into(t, &link)
	for what, c := range map[string]struct {
		cookie, site string
		alone        bool
	}{
		"opened by a program":                       {"", "none", true},
		"signed in with the same key":               {d.signIn(key), "none", true},
		"a page of another site leads there":        {"", "cross-site", false},
		"the browser does not say":                  {"", "", false},
		"signed in with another key":                {d.signIn(d.key("read")), "none", false},
		"a page of the same origin with a link":     {d.signIn(key), "same-origin", false},
		"another key, as another site leads there":  {d.signIn(d.key("read")), "cross-site", false},
		"another key, and the browser does not say": {d.signIn(d.key("read")), "", false},
	} {
		got := d.do(http.MethodGet, link.Path, "", "", "Cookie", c.cookie, "Sec-Fetch-Site", c.site)
		text := string(got.body)
		if got.status != http.StatusOK || got.header.Get("Set-Cookie") != "" || strings.Contains(text, "data-submit") != c.alone ||
			!strings.Contains(text, "signs this browser in to the tenant") {
			t.Errorf("%s: %d %v %s", what, got.status, got.header, text)
		}
	}
	token := link.Path[strings.LastIndex(link.Path, "/")+1:]
	first, again := d.form("/console/enter", "", []string{"token", token}), d.form("/console/enter", "", []string{"token", token})
	if first.status != http.StatusSeeOther || first.header.Get("Set-Cookie") == "" {
		t.Errorf("%d %v", first.status, first.header)
	}
	if again.status != http.StatusGone || again.header.Get("Set-Cookie") != "" {
		t.Errorf("again: %d %v", again.status, again.header)
	}
	if got := d.do(http.MethodGet, "/console/enter/x"+token, "", ""); got.status != http.StatusGone {
		t.Errorf("a token that was changed: %d", got.status)
	}
	d.mustNotLog(t, key, token)
}

// One key's links use up nothing of another's: each key has a rate of its own.
func TestConsoleLinksAreChargedByKey(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	mine, greedy := d.key("read"), d.key("read")
	var link api.ConsoleLink
	d.do(http.MethodPost, "/console/links", mine, "").into(t, &link)
	refused := answer{}
	for range 1000 {
		if refused = d.do(http.MethodPost, "/console/links", greedy, ""); refused.status != http.StatusOK {
			break
		}
	}
	if refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" {
		t.Errorf("a thousand links of one key: %d %v", refused.status, refused.header)
	}
	token := link.Path[strings.LastIndex(link.Path, "/")+1:]
	if got := d.form("/console/enter", "", []string{"token", token}); got.status != http.StatusSeeOther {
		t.Errorf("another key's link: %d", got.status)
	}
}

// The log has who did what, and never a key, a cookie or a link.
func TestConsoleLogsNoSecrets(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	key := d.key("read", "manage")
	cookie := d.signIn(key)
	d.do(http.MethodGet, "/console/queues/mails?note=queue-paused", "", "", "Cookie", cookie)
	d.form("/console/queues/mails", cookie, []string{"form", d.token(cookie), "do", "pause"})
	d.form("/console/sign-in", "", []string{"key", "fq_live_mistyped"})
	_, sealed, _ := strings.Cut(cookie, "=")
	d.mustNotLog(t, key, sealed, d.token(cookie), "fq_live_mistyped")
	for _, route := range []string{"/console/queues/{name}", "/v1/queues/{name}/pause", "/console/sign-in"} {
		if !strings.Contains(d.log.String(), `"route":"`+route+`"`) {
			t.Errorf("%s is not in the log", route)
		}
	}
}

func (d *door) mustNotLog(t *testing.T, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

func (a answer) into(t *testing.T, value any) {
	t.Helper()
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}
