package signon_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/signon"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func TestMain(m *testing.M) { os.Exit(stack.Main(m)) }

// browser is a client with cookies. It follows redirects, but for those that stop takes.
type browser struct {
	t    *testing.T
	http *http.Client
	// stop says of a redirect that it is not followed.
	stop func(to *url.URL) bool
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t}
	transport := &http.Transport{} // and not the usual one, whose answers are held to the document of the API
	b.http = &http.Client{Transport: transport, Jar: jar, Timeout: stack.Patience(time.Minute), CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if b.stop != nil && b.stop(r.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	t.Cleanup(b.http.CloseIdleConnections)
	return b
}

// page is what a browser shows.
type page struct {
	status int
	at     *url.URL
	header http.Header
	text   string
}

func (b *browser) send(method, target string, fields ...string) page {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, target, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	got, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return page{got.StatusCode, got.Request.URL, got.Header, string(text)}
}

func (b *browser) get(target string) page {
	b.t.Helper()
	return b.send(http.MethodGet, target)
}

func (p page) field(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(p.text)
	if found == nil {
		t.Fatalf("%s has no field %s: %d %s", p.at, name, p.status, p.text)
	}
	return found[1]
}

// logIn fills the provider's form in.
func (b *browser) logIn(form page) page {
	b.t.Helper()
	return b.send(http.MethodPost, form.at.Scheme+"://"+form.at.Host+"/login/username", "id", form.field(b.t, "id"), "username", signon.User, "password", signon.Password)
}

// site is a console with single sign-on.
type site struct{ *signon.Site }

func newSite(t *testing.T, life time.Duration, groups ...string) *site {
	t.Helper()
	return &site{signon.NewSite(t, life, groups...)}
}

// signedIn is a browser whose person has signed in.
func (s *site) signedIn(t *testing.T) *browser {
	t.Helper()
	b := newBrowser(t)
	arrived := b.logIn(b.get(s.URL + "/console/oidc/begin?next=/console/queues"))
	if arrived.status != http.StatusOK || arrived.at.Path != "/console/oidc/callback" || arrived.header.Get("Refresh") != "0; url=/console/queues" {
		t.Fatalf("%s: %d %v %s", arrived.at, arrived.status, arrived.header, arrived.text)
	}
	return b
}

// A person signs in at a real provider and may do what their groups give: another group is another scope at the next check, and
// without one the session is over. Its tokens are renewed as long as the provider does that.
func TestSingleSignOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3*time.Second, "readers", "others")
	owner := s.Client(t, s.Tenant.Key)
	if _, err := owner.PutQueue(t.Context(), "mails", api.QueueRequest{}); err != nil {
		t.Fatal(err)
	}
	job := stack.Submit(t, owner, api.SubmitRequest{Type: "mail", Queue: "mails"})

	b := newBrowser(t)
	door := b.get(s.URL + "/console/queues")
	if door.at.Path != "/console/sign-in" || !strings.Contains(door.text, `href="/console/oidc/begin?next=%2fconsole%2fqueues"`) {
		t.Fatalf("%s: %s", door.at, door.text)
	}
	b = s.signedIn(t)
	if queues := b.get(s.URL + "/console/queues"); queues.status != 200 || !strings.Contains(queues.text, "mails") || !strings.Contains(queues.text, "acme") {
		t.Fatalf("%s: %d %s", queues.at, queues.status, queues.text)
	}
	token := b.get(s.URL+"/console/session").field(t, "form")
	pause := func() page {
		return b.send(http.MethodPost, s.URL+"/console/queues/mails", "form", token, "do", "pause")
	}
	if refused := pause(); refused.status != http.StatusForbidden || !strings.Contains(refused.text, "manage") {
		t.Errorf("a reader pauses a queue: %d %s", refused.status, refused.text)
	}

	s.Provider.SetGroups("readers", "ops")
	stack.Eventually(t, stack.Patience(20*time.Second), "the new group counts", func() bool { return pause().status == http.StatusOK })
	log, err := owner.Audit(t.Context(), api.AuditFilter{Action: api.AuditQueuePause}, client.PageRequest{})
	if err != nil || !slices.ContainsFunc(log.Items, func(done api.AuditEntry) bool {
		return done.Actor.KeyID != nil && strings.HasPrefix(*done.Actor.KeyID, "oidc:"+signon.Email+"/")
	}) {
		t.Errorf("the audit log does not name the person: %+v %v", log.Items, err)
	}

	renewed := s.Provider.Renewed()
	stack.Eventually(t, stack.Patience(20*time.Second), "the tokens are renewed", func() bool {
		if got := b.get(s.URL + "/console/queues"); got.at.Path != "/console/queues" {
			t.Fatalf("signed out: %s", got.at)
		}
		return s.Provider.Renewed() > renewed
	})

	events := s.URL + "/console/jobs/" + job + "/events"
	if stream := b.get(events); stream.at.Path != "/console/jobs/"+job+"/events" || !strings.Contains(stream.text, "event: job") {
		t.Errorf("%s: %d %s", stream.at, stream.status, stream.text)
	} // it has ended by itself: the browser opens it again
	s.Provider.SetGroups("others")
	stack.Eventually(t, stack.Patience(20*time.Second), "without the groups it is over", func() bool {
		return b.get(s.URL+"/console/queues").at.RequestURI() == "/console/sign-in?note=groups-lost"
	})
	if stream := b.get(events); stream.at.Path != "/console/sign-in" {
		t.Errorf("the stream is opened again: %s", stream.at)
	}
}

// What the provider ends is over, without a word of the person.
func TestASessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Hour, "readers")
	b := s.signedIn(t)
	if queues := b.get(s.URL + "/console/queues"); queues.status != 200 || queues.at.Path != "/console/queues" {
		t.Fatalf("%s: %d", queues.at, queues.status)
	}
	s.Provider.EndSessions(t)
	stack.Eventually(t, stack.Patience(20*time.Second), "it is over", func() bool {
		return b.get(s.URL+"/console/queues").at.RequestURI() == "/console/sign-in?note=sign-on-ended"
	})
	s.signedIn(t) // and begins again
}

// Each is refused by the gateway, or by the provider: another state, another nonce, another challenge of PKCE, a code a second time,
// an answer in another browser.
func TestATamperedSignOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Hour, "readers")
	refused := func(what string, b *browser, got page) {
		t.Helper()
		if got.status != http.StatusUnauthorized || !strings.Contains(got.text, `role="alert"`) {
			t.Errorf("%s: %d %s", what, got.status, got.text)
		}
		if after := b.get(s.URL + "/console/queues"); after.at.Path != "/console/sign-in" {
			t.Errorf("%s: signed in, at %s", what, after.at)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		b := newBrowser(t)
		b.stop = func(to *url.URL) bool { return to.Path == "/auth" }
		to, err := url.Parse(b.get(s.URL + "/console/oidc/begin").header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		query := to.Query()
		if query.Get("code_challenge_method") != "S256" || query.Get(name) == "" {
			t.Fatalf("the sign-in begins at %s", to)
		}
		query.Set(name, "x"+query.Get(name)[1:])
		to.RawQuery = query.Encode()
		b.stop = nil
		refused(name, b, b.logIn(b.get(to.String())))
	}
	b, other := newBrowser(t), newBrowser(t)
	b.stop = func(to *url.URL) bool { return to.Path == "/console/oidc/callback" }
	callback := b.logIn(b.get(s.URL + "/console/oidc/begin")).header.Get("Location")
	refused("another browser", other, other.get(callback))
	other.get(s.URL + "/console/oidc/begin")
	refused("another browser that has begun too", other, other.get(callback))
	b.stop = nil
	if got := b.get(callback); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.text)
	}
	used := newBrowser(t)
	refused("a code a second time", used, used.get(callback))
}
