package console

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// makeLink answers POST /console/links, with an API key as every request to the API: a token that signs in once.
func (c *Console) makeLink(w http.ResponseWriter, r *http.Request) {
	v := c.Visit(w, r)
	link, err := c.newLink(v, r.Header.Get("Authorization"))
	var token string
	if err == nil {
		token, err = c.Sealer.SealLink(link)
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

func (c *Console) newLink(v *visit.Visit, authorization string) (session.Link, error) {
	scheme, key, _ := strings.Cut(authorization, " ")
	if strings.EqualFold(scheme, "Bearer") {
		v.Key = strings.TrimSpace(key)
	}
	err := v.UseKey(v.Key)
	if err == nil {
		v.Who, err = v.API.Whoami(v.Context())
	}
	if err != nil {
		return session.Link{}, err
	}
	if v.Who.Tenant == nil {
		return session.Link{}, problem.New(problem.Forbidden, "A platform key cannot sign in to the console.")
	}
	if wait, ok := c.links.Charge(v.Request.Context(), v.Who.KeyID); !ok {
		return session.Link{}, problem.New(problem.RateLimited, "This key has made too many links that sign in.").WithRetryAfter(wait)
	}
	return session.NewLink(v.Key, v.Who.SessionsEnded, v.Site.Now()), nil
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
func (c *Console) showEnter(v *visit.Visit) (visit.Page, error) {
	token := v.Request.PathValue("token")
	link, err := v.Site.Sealer.OpenLink(token, v.Site.Now())
	if err != nil {
		return linkEnded(v), nil //nolint:nilerr // the page says it
	}
	of, err := v.Site.Sealer.FromRequest(v.Request, v.Site.Now())
	other := err == nil && of.Key != link.Key
	if _, err := identify(v, link.Key); err != nil {
		v.Key = "" // nobody is signed in
		return visit.Page{}, err
	}
	v.Key = ""
	page := enterPage{Token: token, KeyID: v.Who.KeyID, Other: other, Alone: !other && v.Request.Header.Get("Sec-Fetch-Site") == "none"}
	if v.Who.TenantName != nil {
		page.Tenant = *v.Who.TenantName
	}
	return visit.Page{Template: "enter", Title: "Sign in", Data: page}, nil
}

func (c *Console) enter(v *visit.Visit) (visit.Page, error) {
	link, err := v.Site.Sealer.OpenLink(v.Request.PostFormValue("token"), v.Site.Now())
	if err != nil {
		return linkEnded(v), nil //nolint:nilerr // the page says it
	}
	if _, err := identify(v, link.Key); err != nil {
		v.Key = "" // nobody is signed in
		return visit.Page{}, err
	}
	first, err := c.links.First(v.Request.Context(), link.ID)
	if err != nil {
		v.Key = ""
		return visit.Page{}, problem.New(problem.Overloaded, "Whether this link was used already cannot be checked now. Try again in a moment, or sign in with an API key.")
	}
	if !first || v.Who.SessionsEnded > link.Before {
		return linkEnded(v), nil
	}
	return visit.Page{}, beginSession(v, false, "")
}

// linkEnded is the page of a link that signs nobody in.
func linkEnded(v *visit.Visit) visit.Page {
	v.Key = ""
	return signInAgain(v, http.StatusGone, "", "This link was already used, has expired, or its key has signed out everywhere. Sign in with an API key.")
}
