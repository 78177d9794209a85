package console

import (
	"net/http"
	"strings"

	"golang.org/x/oauth2"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// beginSignOn leads to the provider, and notes in this browser what its answer must fit.
func beginSignOn(v *visit.Visit) (visit.Page, error) {
	next := v.Request.URL.Query().Get("next")
	if !visit.Local(next) || len(next) > longestNext {
		next = ""
	}
	flow := session.NewFlow(oauth2.GenerateVerifier(), next, v.Site.Now())
	to, err := v.Site.SignOn.Begin(v.Context(), flow)
	if err != nil {
		return signOnRefused(v, next, err)
	}
	if err := v.Site.Sealer.SetFlow(v.Response, flow, v.Site.SignOn.Secure()); err != nil {
		return visit.Page{}, err
	}
	return visit.Page{}, visit.RedirectError{To: to}
}

// longestNext bounds the page to show after a sign-in, in bytes: it is in a cookie.
const longestNext = 1000

// signOnRefused says on the form why nobody was signed in.
func signOnRefused(v *visit.Visit, next string, err error) (visit.Page, error) {
	refused, known := problem.From(err)
	if !known {
		return visit.Page{}, err
	}
	v.Key = "" // nobody is signed in
	return signInAgain(v, refused.Status, next, refused.Detail), nil
}

// arrivedPage is where a page of the console leads on to.
type arrivedPage struct{ Next string }

// finishSignOn begins a session of who comes back from the provider. The next page is opened by this one, and not by a
// redirect: browsers send the session's cookie, which is SameSite=Strict, with no request that another site began.
func (c *Console) finishSignOn(v *visit.Visit) (visit.Page, error) {
	flow, err := v.Site.Sealer.TakeFlow(v.Response, v.Request, v.Site.SignOn.Secure(), v.Site.Now())
	if err != nil {
		return flowEnded(v), nil //nolint:nilerr // the page says it
	}
	first, err := c.firstAnswer(v, flow)
	if err == nil && !first {
		return flowEnded(v), nil
	}
	var who session.Person
	var access sso.Access
	if err == nil {
		who, access, err = v.Site.SignOn.Finish(v.Context(), flow, v.Request.URL.Query())
	}
	if err == nil {
		err = beginPerson(v, who, access)
	}
	if err != nil {
		return signOnRefused(v, flow.Next, err)
	}
	next := flow.Next
	if next == "" {
		next = "/console"
		if len(access) > 1 {
			next = "/console/session?note=choose-tenant"
		}
	}
	v.Key = "" // the page has no navigation
	v.Response.Header().Set("Refresh", "0; url="+next)
	return visit.Page{Template: "arrived", Title: "Signed in", Data: arrivedPage{next}}, nil
}

// flowEnded is the page of an answer of the provider that signs nobody in.
func flowEnded(v *visit.Visit) visit.Page {
	return signInAgain(v, http.StatusUnauthorized, "", "This sign-in was not begun in this browser, took longer than ten minutes, or has ended already. Begin it again.")
}

// firstAnswer says whether the answer to a sign-in has come for the first time, to whichever gateway: the cookie may be a copy.
func (c *Console) firstAnswer(v *visit.Visit, flow session.Flow) (bool, error) {
	if c.links.First == nil {
		return true, nil
	}
	first, err := c.links.First(v.Context(), "sign-on-"+flow.State)
	if err != nil {
		return false, problem.New(problem.Overloaded, "Whether this sign-in was used already cannot be checked now. Try again in a moment, or sign in with an API key.")
	}
	return first, nil
}

// beginPerson begins a session in the first tenant that exists.
func beginPerson(v *visit.Visit, who session.Person, access sso.Access) error {
	var err error
	for _, allowed := range access {
		who.Tenant, who.Scopes = allowed.Tenant, allowed.Scopes
		if err = v.ActAs(who); err == nil {
			v.Session = session.NewPerson(who, v.Site.SignOn.Secure(), v.Site.Now())
			v.Site.SignOn.Keep(v.Context(), v.Session, access)
			return v.SetPerson()
		}
		if refused, known := problem.From(err); !known || refused.Code != problem.Forbidden {
			return err
		}
	}
	return err
}

// otherTenant is a tenant that a person may change to.
type otherTenant struct{ ID, Name string }

// otherTenants are those that exist.
func otherTenants(v *visit.Visit) (others []otherTenant) {
	for _, allowed := range v.Checked.Access {
		if allowed.Tenant == v.Session.Person.Tenant {
			continue
		}
		there := v.Site.Visit(v.Response, v.Request)
		who := *v.Session.Person
		who.Tenant, who.Scopes = allowed.Tenant, allowed.Scopes
		if there.UsePerson(v.Site.SignOn.Principal(who)) != nil {
			continue
		}
		if found, err := there.API.Whoami(v.Context()); err == nil && found.TenantName != nil {
			others = append(others, otherTenant{allowed.Tenant, *found.TenantName})
		}
	}
	return others
}

// changeTenant makes the session one of another tenant, to which the person's groups give access.
func changeTenant(v *visit.Visit) (string, error) {
	to := strings.TrimSpace(v.Form.Get("tenant"))
	if v.Session.Person == nil || len(v.Checked.Access.In(to)) == 0 {
		return "", problem.New(problem.Forbidden, "Your groups give no access to this tenant.")
	}
	who := *v.Session.Person
	who.Tenant, who.Scopes = to, v.Checked.Access.In(to)
	v.Session.Person = &who
	if err := v.SetPerson(); err != nil {
		return "", err
	}
	return "/console?note=tenant-changed", nil
}
