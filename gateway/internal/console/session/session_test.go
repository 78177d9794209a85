package session_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
)

var (
	secret   = []byte(strings.Repeat("s", 32))
	previous = []byte(strings.Repeat("p", 32))
	noon     = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func sealer(t *testing.T, secret, previous []byte) *session.Sealer {
	t.Helper()
	s, err := session.NewSealer(secret, previous)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func post(origin string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/console/sign-in", nil)
	r.Header.Set("Origin", origin)
	return r
}

// cookieOf is the cookie that a browser gets for a session, and a request that brings it back.
func cookieOf(t *testing.T, s *session.Sealer, of session.Session) (*http.Cookie, *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	if err := s.SetCookie(w, of, noon); err != nil {
		t.Fatal(err)
	}
	cookie := w.Result().Cookies()[0]
	r := httptest.NewRequest(http.MethodGet, "/console", nil)
	r.AddCookie(cookie)
	return cookie, r
}

func TestACookieIsSealed(t *testing.T) {
	t.Parallel()
	s := sealer(t, secret, nil)
	for origin, want := range map[string]struct {
		name, path string
		secure     bool
	}{
		"http://127.0.0.1:8080": {"forgequeue-console", "/console", false},
		"https://queue.example": {"__Host-forgequeue-console", "/", true},
	} {
		cookie, r := cookieOf(t, s, session.New("the key", true, post(origin), noon))
		if cookie.Name != want.name || cookie.Path != want.path || cookie.Secure != want.secure || !cookie.HttpOnly ||
			cookie.SameSite != http.SameSiteStrictMode || cookie.Domain != "" || cookie.MaxAge != 7*24*3600 || strings.Contains(cookie.Value, "the key") {
			t.Errorf("%s: %+v", origin, cookie)
		}
		if of, err := s.FromRequest(r, noon); err != nil || of.Key != "the key" || !of.Operator {
			t.Errorf("%+v %v", of, err)
		}
		again, err := s.Seal(session.Session{ID: "1", Key: "the key"})
		if other, _ := s.Seal(session.Session{ID: "1", Key: "the key"}); err != nil || other == again {
			t.Error("two seals are the same")
		}
		for at := range len(cookie.Value) - 1 {
			changed := []byte(cookie.Value)
			changed[at] = map[bool]byte{true: 'A', false: 'B'}[changed[at] != 'A']
			if _, err := s.Open(string(changed)); !errors.Is(err, session.ErrInvalid) {
				t.Fatalf("changed at %d: %v", at, err)
			}
		}
	}
}

// A session by https must not be brought by the cookie that http can set.
func TestASessionStaysWithItsCookie(t *testing.T) {
	t.Parallel()
	s := sealer(t, secret, nil)
	cookie, _ := cookieOf(t, s, session.New("the key", false, post("https://queue.example"), noon))
	cookie.Name = "forgequeue-console"
	r := httptest.NewRequest(http.MethodGet, "/console", nil)
	r.AddCookie(cookie)
	if _, err := s.FromRequest(r, noon); !errors.Is(err, session.ErrInvalid) {
		t.Error(err)
	}
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	s := sealer(t, secret, nil)
	of := session.New("the key", false, post("http://127.0.0.1"), noon)
	_, r := cookieOf(t, s, of)
	for after, ok := range map[time.Duration]bool{session.Idle: true, session.Idle + time.Second: false} {
		if _, err := s.FromRequest(r, noon.Add(after)); (err == nil) != ok {
			t.Errorf("after %v: %v", after, err)
		}
	}
	now := noon
	for now.Sub(noon) < session.Longest { // opened every hour
		now = now.Add(time.Hour)
		var renewed bool
		if of, renewed = of.Renew(now); !renewed {
			t.Fatal("not renewed")
		}
		if of.Ended(now) {
			t.Fatalf("ended after %v", now.Sub(noon))
		}
	}
	if of, _ = of.Renew(now.Add(time.Hour)); !of.Ended(now.Add(time.Hour)) {
		t.Error("it lasts for ever")
	}
	if _, renewed := of.Renew(of.Seen.Add(time.Second)); renewed {
		t.Error("renewed for each request")
	}
}

func TestSecretsRotate(t *testing.T) {
	t.Parallel()
	of := session.New("the key", false, post("http://127.0.0.1"), noon)
	_, r := cookieOf(t, sealer(t, previous, nil), of)
	if _, err := sealer(t, secret, previous).FromRequest(r, noon); err != nil {
		t.Error("the previous secret is not accepted")
	}
	if _, err := sealer(t, secret, nil).FromRequest(r, noon); !errors.Is(err, session.ErrInvalid) {
		t.Error("a removed secret is accepted")
	}
	if _, err := session.NewSealer(nil, nil); err == nil {
		t.Error("a console without a secret")
	}
}

func TestFormTokensAreOfOneSession(t *testing.T) {
	t.Parallel()
	one := session.New("the key", false, post("http://127.0.0.1"), noon)
	other := session.New("the key", false, post("http://127.0.0.1"), noon)
	if !session.ValidFormToken(one, session.FormToken(one)) || session.ValidFormToken(one, session.FormToken(other)) || session.ValidFormToken(one, "") {
		t.Error("form tokens")
	}
	here := session.NewPerson(session.Person{Subject: "1", Tenant: "a"}, true, noon)
	there := here
	there.Person = &session.Person{Subject: "1", Tenant: "b"}
	if !session.ValidFormToken(here, session.FormToken(here)) || session.ValidFormToken(there, session.FormToken(here)) {
		t.Error("form tokens of a person's tenants")
	}
	if strings.Contains(session.FormToken(one), one.ID) {
		t.Error("the token shows what it is made of")
	}
}

func TestALinkIsSealed(t *testing.T) {
	t.Parallel()
	one, other := sealer(t, secret, nil), sealer(t, secret, nil) // of another gateway
	link := session.NewLink("the key", 7, noon)
	token, err := one.SealLink(link)
	if err != nil || strings.Contains(token, "the key") {
		t.Fatal(token, err)
	}
	if got, err := other.OpenLink(token, link.Expires.Add(-time.Second)); err != nil || got.Key != "the key" || got.Before != 7 || got.ID != link.ID {
		t.Errorf("by another gateway: %+v %v", got, err)
	}
	if _, err := sealer(t, []byte(strings.Repeat("n", 32)), secret).OpenLink(token, noon); err != nil {
		t.Errorf("after a change of the secret: %v", err)
	}
	cookie, err := one.Seal(session.New("the key", false, post("http://127.0.0.1"), noon))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Open(token); !errors.Is(err, session.ErrInvalid) {
		t.Error("a link is a session")
	}
	for name, text := range map[string]string{"a session": cookie, "nothing": "", "another": token[1:]} {
		if _, err := one.OpenLink(text, noon); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s is a link", name)
		}
	}
	if _, err := one.OpenLink(token, link.Expires); !errors.Is(err, session.ErrInvalid) {
		t.Error("opened late")
	}
}
