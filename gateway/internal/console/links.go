package console

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// makeLink answers POST /console/links, with an API key as every request to the API: a token that signs in once.
func (c *Console) makeLink(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	link, err := v.newLink(r.Header.Get("Authorization"))
	var token string
	if err == nil {
		token, err = c.sealer.SealLink(link)
	}
	if err != nil {
		refused, known := problem.From(err)
		if !known {
			panic(err) // a fault of this program: observe logs it, and answers 500
		}
		refused.Instance, refused.RequestID = r.URL.Path, w.Header().Get("X-Request-Id") // and not of the question about the key
		refused.Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(api.ConsoleLink{Path: "/console/enter/" + token, ExpiresAt: api.At(link.Expires)}) // the caller may have left
}

func (v *visit) newLink(authorization string) (session.Link, error) {
	scheme, key, _ := strings.Cut(authorization, " ")
	if strings.EqualFold(scheme, "Bearer") {
		v.key = strings.TrimSpace(key)
	}
	err := v.use(v.key)
	if err == nil {
		v.who, err = v.api.Whoami(v.ctx())
	}
	if err != nil {
		return session.Link{}, err
	}
	if v.who.Tenant == nil {
		return session.Link{}, problem.New(problem.Forbidden, "A platform key cannot sign in to the console.")
	}
	if wait, ok := v.console.links.Charge(v.r.Context(), v.who.KeyID); !ok {
		return session.Link{}, problem.New(problem.RateLimited, "This key has made too many links that sign in.").WithRetryAfter(wait)
	}
	return session.NewLink(v.key, v.who.SessionsEnded, v.console.now()), nil
}

// enterPage says whom a link signs in.
type enterPage struct {
	Token, Tenant, KeyID string
	// Other: this browser is signed in with another key, which the link replaces.
	Other bool
	// Alone: the page sends its form without a click.
	Alone bool
}

// showEnter asks for a click that names the tenant: what looks at a link before its reader does (a mail scanner, a preview)
// must not use it, and a page of another site must not sign its reader in as somebody else. Without a click it goes on only
// where the person opened the link from outside the browser's pages, and is not signed in with another key.
func showEnter(v *visit) (shown, error) {
	token := v.r.PathValue("token")
	link, err := v.console.sealer.OpenLink(token, v.console.now())
	if err != nil {
		return v.linkEnded(), nil //nolint:nilerr // the page says it
	}
	of, err := v.console.sealer.FromRequest(v.r, v.console.now())
	other := err == nil && of.Key != link.Key
	if _, err := v.identify(link.Key); err != nil {
		v.key = "" // nobody is signed in
		return shown{}, err
	}
	v.key = ""
	page := enterPage{Token: token, KeyID: v.who.KeyID, Other: other, Alone: !other && v.r.Header.Get("Sec-Fetch-Site") == "none"}
	if v.who.TenantName != nil {
		page.Tenant = *v.who.TenantName
	}
	return shown{template: "enter", title: "Sign in", data: page}, nil
}

func enter(v *visit) (shown, error) {
	link, err := v.console.sealer.OpenLink(v.r.PostFormValue("token"), v.console.now())
	if err != nil {
		return v.linkEnded(), nil //nolint:nilerr // the page says it
	}
	if _, err := v.identify(link.Key); err != nil {
		v.key = "" // nobody is signed in
		return shown{}, err
	}
	first, err := v.console.links.First(v.r.Context(), link.ID)
	if err != nil {
		v.key = ""
		return shown{}, problem.New(problem.Overloaded, "Whether this link was used already cannot be checked now. Try again in a moment, or sign in with an API key.")
	}
	if !first || v.who.SessionsEnded > link.Before {
		return v.linkEnded(), nil
	}
	return shown{}, v.enter(false, "")
}

// linkEnded is the page of a link that signs nobody in.
func (v *visit) linkEnded() shown {
	v.key = ""
	return shown{
		template: "sign_in", title: "Sign in", status: http.StatusGone,
		data: signInPage{Refused: "This link was already used, has expired, or its key has signed out everywhere. Sign in with an API key."},
	}
}
