package session

import (
	"crypto/rand"
	"net/http"
	"slices"
	"time"
)

// Person is who has signed in by single sign-on. Nothing of it is stored but in the sealed cookie.
type Person struct {
	// Subject is the provider's id of the person, Name what the provider calls them.
	Subject string `json:"sub"`
	Name    string `json:"name,omitzero"`
	// Tenant is the tenant that the person acts for, Scopes what their groups give them there.
	Tenant string   `json:"tenant"`
	Scopes []string `json:"scopes"`
	// Access is the provider's access token, Refresh its refresh token, empty where it gave none.
	Access  string `json:"access"`
	Refresh string `json:"refresh,omitzero"`
	// Ends is when Access does.
	Ends time.Time `json:"ends"`
	// Checked is when the provider has last said what the person may do.
	Checked time.Time `json:"checked,omitzero"`
}

// Equal says that nothing differs: the browser need not be handed another cookie.
func (p Person) Equal(other Person) bool {
	return p.Subject == other.Subject && p.Name == other.Name && p.Tenant == other.Tenant && slices.Equal(p.Scopes, other.Scopes) &&
		p.Access == other.Access && p.Refresh == other.Refresh && p.Ends.Equal(other.Ends) && p.Checked.Equal(other.Checked)
}

const (
	// FlowLife is how long a person may take to sign in at the provider.
	FlowLife = 10 * time.Minute

	flowSuffix = "-sign-on"
)

// flowing binds what is sealed of a sign-in at the provider to its use: it is not a session.
var flowing = []byte("forgequeue console sign-on 1")

// Flow is a sign-in at the provider that has begun in this browser.
type Flow struct {
	// State, Nonce and Verifier are drawn for this sign-in alone: the provider gives back the first, signs the second, and
	// has a hash of the third.
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	// Next is the page to show afterwards.
	Next    string    `json:"next,omitzero"`
	Expires time.Time `json:"expires"`
}

// NewFlow begins a sign-in; verifier is the secret of its PKCE.
func NewFlow(verifier, next string, now time.Time) Flow {
	return Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: verifier, Next: next, Expires: now.Add(FlowLife)}
}

// SetFlow hands the sign-in to the browser.
func (s *Sealer) SetFlow(w http.ResponseWriter, of Flow, secure bool) error {
	text, err := s.seal(of, flowing)
	if err != nil {
		return err
	}
	cookie := newFlowCookie(secure, text) //nolint:gosec // Secure where the browser comes by https
	cookie.MaxAge = int(FlowLife.Seconds())
	http.SetCookie(w, cookie)
	return nil
}

// TakeFlow gives the sign-in that has begun in the request's browser, and takes it away: it is used once. ErrInvalid without
// one, or for one that has expired.
func (s *Sealer) TakeFlow(w http.ResponseWriter, r *http.Request, secure bool, now time.Time) (Flow, error) {
	gone := newFlowCookie(secure, "") //nolint:gosec // as above
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	cookie, err := r.Cookie(gone.Name)
	if err != nil {
		return Flow{}, ErrInvalid
	}
	var of Flow
	if err := s.open(cookie.Value, flowing, &of); err != nil {
		return Flow{}, err
	}
	if of.State == "" || of.Nonce == "" || of.Verifier == "" || !now.Before(of.Expires) {
		return Flow{}, ErrInvalid
	}
	return of, nil
}

// newFlowCookie is sent with the redirect from the provider's site, which SameSite=Strict would not be.
func newFlowCookie(secure bool, text string) *http.Cookie {
	cookie := newCookie(secure, text) //nolint:gosec // Secure where the browser comes by https
	cookie.Name += flowSuffix
	cookie.SameSite = http.SameSiteLaxMode
	return cookie
}
