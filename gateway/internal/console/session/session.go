package session

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"
)

const (
	// Idle is how long a session lasts after the last page that a person opened. Live updates do not extend it.
	Idle = 12 * time.Hour
	// Longest is how long it lasts at most.
	Longest = 7 * 24 * time.Hour
	// renewal is the age of Seen from which a page renews the cookie.
	renewal = time.Minute

	// A browser takes a cookie of the first name only by https, for this host alone and all of its paths.
	secureCookie = "__Host-forgequeue-console"
	plainCookie  = "forgequeue-console"
	plainPath    = "/console"
	// maxCookie bounds name and value, in bytes: browsers drop a larger cookie without a word.
	maxCookie = 4096
)

// ErrTooLarge means that a session is larger than a cookie may be.
var ErrTooLarge = errors.New("the session is too large for a cookie")

// Session is one signed-in browser.
type Session struct {
	// ID is 128 random bits: forms are bound to it.
	ID  string `json:"id"`
	Key string `json:"key,omitzero"`
	// Person is who signed in by single sign-on, and then has no Key.
	Person *Person `json:"person,omitzero"`
	// Operator says that Key is the operator key.
	Operator bool `json:"operator,omitzero"`
	// Secure says that the browser came by https.
	Secure bool `json:"secure,omitzero"`
	// Made is when the person signed in, Seen about when the last page was opened.
	Made time.Time `json:"made"`
	Seen time.Time `json:"seen"`
	// Before is how often all sessions of the key were ended before this one began: once more, and it is over.
	Before int64 `json:"before,omitzero"`
}

// New begins a session.
func New(key string, operator bool, r *http.Request, now time.Time) Session {
	return Session{ID: rand.Text(), Key: key, Operator: operator, Secure: secure(r), Made: now, Seen: now}
}

// NewPerson begins a session of a person. secure says that browsers reach the console by https.
func NewPerson(who Person, secure bool, now time.Time) Session {
	return Session{ID: rand.Text(), Person: &who, Secure: secure, Made: now, Seen: now}
}

// secure says whether the browser itself speaks https, which a proxy may end: a form's request always has an Origin.
func secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// Ended says whether the session has lasted too long.
func (s Session) Ended(now time.Time) bool {
	return now.Sub(s.Seen) > Idle || now.Sub(s.Made) > Longest
}

// Renew gives the session as a page that is opened now leaves it, and whether the cookie must be set for it.
func (s Session) Renew(now time.Time) (Session, bool) {
	if now.Sub(s.Seen) < renewal {
		return s, false
	}
	s.Seen = now
	return s, true
}

// SetCookie hands the session to the browser.
func (s *Sealer) SetCookie(w http.ResponseWriter, of Session, now time.Time) error {
	text, err := s.Seal(of)
	if err != nil {
		return err
	}
	cookie := newCookie(of.Secure, text) //nolint:gosec // Secure where the browser came by https
	cookie.MaxAge = max(int(of.Made.Add(Longest).Sub(now).Seconds()), 1)
	if len(cookie.Name)+len(cookie.Value) > maxCookie {
		return ErrTooLarge
	}
	http.SetCookie(w, cookie)
	return nil
}

// ClearCookie takes it away.
func ClearCookie(w http.ResponseWriter, of Session) {
	cookie := newCookie(of.Secure, "") //nolint:gosec // as above
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
}

func newCookie(secure bool, text string) *http.Cookie {
	cookie := &http.Cookie{Name: plainCookie, Path: plainPath, Value: text, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if secure {
		cookie.Name, cookie.Path, cookie.Secure = secureCookie, "/", true
	}
	return cookie
}

// FromRequest reads the session of a request; ErrInvalid without one that still lasts. A session by https is taken
// from the secure cookie only.
func (s *Sealer) FromRequest(r *http.Request, now time.Time) (Session, error) {
	for _, name := range []string{secureCookie, plainCookie} {
		cookie, err := r.Cookie(name)
		if err != nil {
			continue
		}
		of, err := s.Open(cookie.Value)
		if err != nil || of.Ended(now) || of.Secure != (name == secureCookie) {
			continue
		}
		return of, nil
	}
	return Session{}, ErrInvalid
}
