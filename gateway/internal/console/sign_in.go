package console

import (
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// signInPage is the form, with what was wrong the last time.
type signInPage struct {
	Next    string
	Refused string
	// SignOn says that there is single sign-on too.
	SignOn bool
}

func showSignIn(v *visit.Visit) (visit.Page, error) {
	return signInAgain(v, 0, v.Request.URL.Query().Get("next"), ""), nil
}

// signInAgain is the form, with what was wrong.
func signInAgain(v *visit.Visit, status int, next, refused string) visit.Page {
	return visit.Page{
		Template: "sign_in", Title: "Sign in", Status: status,
		Data: signInPage{Next: next, Refused: refused, SignOn: v.Site.SignOn != nil},
	}
}

// signIn takes an API key or the operator key. What is wrong with a key is said on the form.
func signIn(v *visit.Visit) (visit.Page, error) {
	next := v.Request.PostFormValue("next")
	err := signInWith(v, strings.TrimSpace(v.Request.PostFormValue("key")), next)
	refused, known := problem.From(err)
	if !known {
		return visit.Page{}, err
	}
	v.Key = ""
	return signInAgain(v, refused.Status, next, signInRefusal(refused)), nil
}

func signInRefusal(refused *problem.Problem) string {
	if refused.Code == problem.Unauthenticated {
		return "This key is not valid. It may be mistyped, revoked or expired."
	}
	return refused.Detail
}

// signInWith asks the API what a key is, and begins a session with it. The error of a good key is where to go.
func signInWith(v *visit.Visit, key, next string) error {
	operator, err := identify(v, key)
	if err != nil {
		return err
	}
	return beginSession(v, operator, next)
}

// identify asks the API what a key is.
func identify(v *visit.Visit, key string) (operator bool, err error) {
	if err := v.UseKey(key); err != nil {
		return false, err
	}
	v.Who, err = v.API.Whoami(v.Context())
	if refused, known := problem.From(err); known && refused.Code == problem.Forbidden {
		// whoami takes every key but the operator's
		_, err := v.API.ListPlans(v.Context(), client.PageRequest{Size: 1})
		return true, err
	}
	if err == nil && v.Who.Tenant == nil {
		err = problem.New(problem.Forbidden, "This is a platform key: it claims jobs, and there is nothing to show for it. Sign in with a tenant's API key, or with the operator key.")
	}
	return false, err
}

// beginSession begins a session with the key that was identified.
func beginSession(v *visit.Visit, operator bool, next string) error {
	now := v.Site.Now()
	of := session.New(v.Key, operator, v.Request, now)
	of.Before = v.Who.SessionsEnded
	if err := v.Site.Sealer.SetCookie(v.Response, of, now); err != nil {
		return err
	}
	if !visit.Local(next) || operator {
		next = home(operator)
	}
	return visit.RedirectError{To: next}
}

// home is the first page.
func home(operator bool) string {
	if operator {
		return "/console/admin/tenants"
	}
	return "/console"
}

func signOut(v *visit.Visit) (string, error) {
	session.ClearCookie(v.Response, v.Session)
	return "/console/sign-in?note=signed-out", nil
}

// signOutEverywhere ends all sessions of the key.
func signOutEverywhere(v *visit.Visit) (string, error) {
	if err := v.API.EndSessions(v.Context()); err != nil {
		return "", err
	}
	session.ClearCookie(v.Response, v.Session)
	return "/console/sign-in?note=signed-out-everywhere", nil
}

// sessionPage is what the key may do, and how its sessions end.
type sessionPage struct {
	Made, Ends api.Time
	// Person is who signed in by single sign-on, nil for a key. Others are the tenants that they may change to.
	Person *session.Person
	Others []otherTenant
}

func showSession(v *visit.Visit) (visit.Page, error) {
	return visit.Page{Template: "session", Title: "Your session", Data: sessionPage{
		Made: api.At(v.Session.Made), Ends: api.At(v.Session.Made.Add(session.Longest)), Person: v.Session.Person, Others: otherTenants(v),
	}}, nil
}
