package sso_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso/ssotest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is the time of a test. Tokens last by the real one, so it begins there.
type clock struct {
	mu  sync.Mutex
	now time.Time
	// broken makes Now panic.
	broken bool
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		panic("of a clock")
	}
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// signOn is a console's single sign-on at a provider.
type signOn struct {
	*clock

	t  *testing.T
	at *ssotest.Provider
	// of makes one more gateway.
	of func() *sso.Provider
	*sso.Provider
}

func newSignOn(t *testing.T, groups ...string) *signOn {
	t.Helper()
	s := &signOn{t: t, clock: &clock{now: time.Now()}}
	s.at = ssotest.New(t, s.Now, groups...)
	grants, err := sso.ParseGrants(`[
		{"group": "readers", "tenant": "` + acme + `", "scopes": ["read"]}, {"group": "ops", "tenant": "` + acme + `", "scopes": ["manage"]},
		{"group": "ops", "tenant": "` + other + `", "scopes": ["read"]}
	]`)
	if err != nil {
		t.Fatal(err)
	}
	s.of = func() *sso.Provider {
		return sso.New(sso.Options{
			Issuer: s.at.URL, ClientID: ssotest.ClientID, ClientSecret: "secret", Grants: grants, GroupsClaim: "groups",
			PublicURL: "https://jobs.example.com", CheckEvery: time.Minute, Now: s.Now,
		})
	}
	s.Provider = s.of()
	return s
}

// begin gives a sign-in that has begun, and the answer of the provider to it.
func (s *signOn) begin() (session.Flow, url.Values) {
	s.t.Helper()
	flow := session.NewFlow("a-verifier-of-this-test-which-is-long-enough-for-PKCE", "", s.Now())
	to, err := s.Begin(s.t.Context(), flow)
	if err != nil {
		s.t.Fatal(err)
	}
	return flow, s.at.SignIn(to)
}

// session signs in, in acme.
func (s *signOn) session() session.Session {
	s.t.Helper()
	flow, query := s.begin()
	who, access, err := s.Finish(s.t.Context(), flow, query)
	if err != nil {
		s.t.Fatal(err)
	}
	who.Tenant, who.Scopes = acme, access.In(acme)
	of := session.NewPerson(who, true, s.Now())
	s.Keep(s.t.Context(), of, access)
	return of
}

func (s *signOn) check(by *sso.Provider, of session.Session, want error, scopes ...string) sso.Checked {
	s.t.Helper()
	got, err := by.Check(s.t.Context(), of)
	if !errors.Is(err, want) || !slices.Equal(got.Who.Scopes, scopes) {
		s.t.Errorf("%v with %q, want %v with %q", err, got.Who.Scopes, want, scopes)
	}
	return got
}

func TestAPersonSignsIn(t *testing.T) {
	t.Parallel()
	s := newSignOn(t, "readers", "ops", "others")
	flow, query := s.begin()
	who, access, err := s.Finish(t.Context(), flow, query)
	if err != nil {
		t.Fatal(err)
	}
	if who.Subject != "1" || who.Name != "ann@example.com" || who.Refresh != "" || len(access) != 2 || !slices.Equal(access.In(acme), []string{"read", "manage"}) {
		t.Errorf("%+v may %+v", who, access)
	}
	who.Tenant, who.Name = acme, "ann \u202e<b>@example.com"+strings.Repeat("x", 200)
	id := s.Principal(who).KeyID
	if !strings.HasPrefix(id, "oidc:ann___b_@example.comxxx") || !api.ValidLabel(id) || !s.Principal(who).IsPerson() {
		t.Errorf("the id %q", id)
	}
	namesake := who
	namesake.Subject = "2"
	if s.Principal(namesake).KeyID == id {
		t.Error("two people have the same id")
	}
	if _, _, err := s.Finish(t.Context(), flow, query); err == nil {
		t.Error("a code is taken twice")
	}
}

// Each of these answers is refused, and nobody is signed in.
func TestAWrongAnswerIsRefused(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(*signOn, *session.Flow, url.Values) {
		return func(s *signOn, _ *session.Flow, _ url.Values) {
			s.at.Set(func(state *ssotest.State) { state.InToken[name] = value })
		}
	}
	set := func(change func(*ssotest.State)) func(*signOn, *session.Flow, url.Values) {
		return func(s *signOn, _ *session.Flow, _ url.Values) { s.at.Set(change) }
	}
	for name, test := range map[string]struct {
		change func(*signOn, *session.Flow, url.Values)
		code   problem.Code
	}{
		"another state":           {func(_ *signOn, _ *session.Flow, query url.Values) { query.Set("state", "x") }, problem.Unauthenticated},
		"no state":                {func(_ *signOn, _ *session.Flow, query url.Values) { query.Del("state") }, problem.Unauthenticated},
		"another verifier":        {func(_ *signOn, flow *session.Flow, _ url.Values) { flow.Verifier += "x" }, problem.Unauthenticated},
		"another nonce":           {func(_ *signOn, flow *session.Flow, _ url.Values) { flow.Nonce += "x" }, problem.Unauthenticated},
		"no nonce":                {claim("nonce", nil), problem.Unauthenticated},
		"another code":            {func(_ *signOn, _ *session.Flow, query url.Values) { query.Set("code", "x") }, problem.Unauthenticated},
		"another issuer":          {func(_ *signOn, _ *session.Flow, query url.Values) { query.Set("iss", "https://evil.example.com") }, problem.Unauthenticated},
		"an issuer's token":       {claim("iss", "https://evil.example.com"), problem.Unauthenticated},
		"for another client":      {claim("aud", "other"), problem.Unauthenticated},
		"an expired token":        {claim("exp", 1), problem.Unauthenticated},
		"another signature":       {set(func(state *ssotest.State) { state.Other = true }), problem.Unauthenticated},
		"of another token":        {claim("at_hash", "x"), problem.Unauthenticated},
		"another's UserInfo":      {set(func(state *ssotest.State) { state.Claims["sub"] = "2" }), problem.Unauthenticated},
		"no groups":               {set(func(state *ssotest.State) { state.Claims["groups"] = []string{} }), problem.Forbidden},
		"groups that give 0":      {set(func(state *ssotest.State) { state.Claims["groups"] = "strangers" }), problem.Forbidden},
		"no claim":                {set(func(state *ssotest.State) { delete(state.Claims, "groups") }), problem.Forbidden},
		"denied":                  {func(_ *signOn, _ *session.Flow, query url.Values) { query.Set("error", "access_denied<b>") }, problem.Forbidden},
		"a provider that is down": {set(func(state *ssotest.State) { state.Status = http.StatusBadGateway }), problem.CoreUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignOn(t, "readers")
			flow, query := s.begin()
			test.change(s, &flow, query)
			who, access, err := s.Finish(t.Context(), flow, query)
			if refused, known := problem.From(err); !known || refused.Code != test.code || access != nil {
				t.Errorf("%+v, %v: %v", who, access, err)
			}
		})
	}
}

// A provider that is down at first is asked again.
func TestDiscoveryIsRepeated(t *testing.T) {
	t.Parallel()
	s := newSignOn(t, "readers")
	s.at.Set(func(state *ssotest.State) { state.Status = http.StatusServiceUnavailable })
	if _, err := s.Begin(t.Context(), session.NewFlow("v", "", s.Now())); err == nil {
		t.Error("it begins without a provider")
	}
	s.at.Set(func(state *ssotest.State) { state.Status = 0 })
	s.check(s.Provider, s.session(), nil, "read")
}

// The groups are read again once in a minute, however many ask, and what was lost is gone.
func TestGroupsAreCheckedOnceAMinute(t *testing.T) {
	t.Parallel()
	s := newSignOn(t, "readers")
	of := s.session()
	asked := func(want int) {
		t.Helper()
		if got := s.at.Asked("/userinfo"); got != want {
			t.Errorf("UserInfo was asked %d times, want %d", got, want)
		}
	}
	s.pass(59 * time.Second)
	checked := s.check(s.Provider, of, nil, "read")
	asked(1)
	if left := checked.Due.Sub(s.Now()); left > time.Second {
		t.Errorf("the next check is in %v", left)
	}
	s.pass(time.Second)
	s.at.Set(func(state *ssotest.State) { state.Claims["groups"] = []string{"ops"} })
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { s.check(s.Provider, of, nil, "manage") })
	}
	group.Wait()
	asked(2)
	s.pass(time.Minute)
	s.at.Set(func(state *ssotest.State) { state.Claims["groups"] = []string{} })
	for range 3 {
		s.check(s.Provider, of, sso.ErrLost)
	}
	asked(3)
	second := s.of() // another gateway, which knows nothing of the session
	s.check(second, of, sso.ErrLost)
}

// Without a refresh token a session ends with its token; with one it goes on, also in a gateway that has an older cookie.
func TestASessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	s := newSignOn(t, "readers")
	of := s.session()
	s.pass(time.Hour + time.Minute)
	s.check(s.Provider, of, sso.ErrEnded)

	s = newSignOn(t, "readers")
	of = s.session()
	s.at.Set(func(state *ssotest.State) { clear(state.Tokens) }) // the provider has ended it
	s.pass(time.Minute)
	s.check(s.Provider, of, sso.ErrEnded)

	s = newSignOn(t, "readers")
	s.at.Set(func(state *ssotest.State) { state.Offline = true })
	of = s.session()
	s.at.Set(func(state *ssotest.State) { state.Life = 3 * time.Hour })
	s.pass(time.Hour + time.Minute)
	renewed := s.check(s.Provider, of, nil, "read")
	if renewed.Who.Access == of.Person.Access || renewed.Who.Refresh == of.Person.Refresh || renewed.Who.Equal(*of.Person) {
		t.Error("the tokens were not renewed")
	}
	s.pass(time.Minute)
	s.check(s.Provider, of, nil, "read") // the cookie of before: the refresh token in it was used
	second := s.of()
	s.check(second, of, sso.ErrEnded)
	newer := of
	newer.Person = &renewed.Who
	s.check(second, newer, nil, "read") // what has ended with an old cookie goes on with the new one
}

// A provider without groups in UserInfo is asked for a new ID token each time.
func TestGroupsInTheIDToken(t *testing.T) {
	t.Parallel()
	s := newSignOn(t)
	s.at.Set(func(state *ssotest.State) {
		delete(state.Claims, "groups")
		state.InToken["groups"], state.Offline = []string{"readers"}, true
	})
	of := s.session()
	s.at.Set(func(state *ssotest.State) { state.InToken["groups"] = []string{"ops"} })
	s.pass(time.Minute)
	s.check(s.Provider, of, nil, "manage")
	s.at.Set(func(state *ssotest.State) { delete(state.InToken, "groups") })
	s.pass(time.Minute)
	s.check(s.Provider, of, sso.ErrLost)
}
