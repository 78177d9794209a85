package console

import (
	"net/url"
	"path"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// local says whether a target is a page of the console: nothing else is redirected to.
func local(target string) bool {
	u, err := url.Parse(target)
	return err == nil && u.Scheme == "" && u.Host == "" && u.Path == path.Clean(u.Path) && !strings.ContainsAny(target, "\\\r\n\t") &&
		(u.Path == "/console" || strings.HasPrefix(u.Path, "/console/"))
}

// signInPage is the form, with what was wrong the last time.
type signInPage struct {
	Next    string
	Refused string
}

func showSignIn(v *visit) (shown, error) {
	return shown{template: "sign_in", title: "Sign in", data: signInPage{Next: v.r.URL.Query().Get("next")}}, nil
}

// signIn takes an API key or the operator key. What is wrong with a key is said on the form.
func signIn(v *visit) (shown, error) {
	next := v.r.PostFormValue("next")
	err := v.begin(strings.TrimSpace(v.r.PostFormValue("key")), next)
	refused, known := problem.From(err)
	if !known {
		return shown{}, err
	}
	v.key = ""
	return shown{
		template: "sign_in", title: "Sign in", status: refused.Status,
		data: signInPage{Next: next, Refused: signInRefusal(refused)},
	}, nil
}

func signInRefusal(refused *problem.Problem) string {
	if refused.Code == problem.Unauthenticated {
		return "This key is not valid. It may be mistyped, revoked or expired."
	}
	return refused.Detail
}

// begin asks the API what a key is, and begins a session with it. The error of a good key is where to go.
func (v *visit) begin(key, next string) error {
	operator, err := v.identify(key)
	if err != nil {
		return err
	}
	return v.enter(operator, next)
}

// identify asks the API what a key is.
func (v *visit) identify(key string) (operator bool, err error) {
	if err := v.use(key); err != nil {
		return false, err
	}
	v.who, err = v.api.Whoami(v.ctx())
	if refused, known := problem.From(err); known && refused.Code == problem.Forbidden {
		// whoami takes every key but the operator's
		_, err := v.api.ListPlans(v.ctx(), client.PageRequest{Size: 1})
		return true, err
	}
	if err == nil && v.who.Tenant == nil {
		err = problem.New(problem.Forbidden, "This is a platform key: it claims jobs, and there is nothing to show for it. Sign in with a tenant's API key, or with the operator key.")
	}
	return false, err
}

// enter begins a session with the key that was identified.
func (v *visit) enter(operator bool, next string) error {
	now := v.console.now()
	of := session.New(v.key, operator, v.r, now)
	of.Before = v.who.SessionsEnded
	if err := v.console.sealer.SetCookie(v.w, of, now); err != nil {
		return err
	}
	if !local(next) || operator {
		next = home(operator)
	}
	return movedError{next}
}

// home is the first page.
func home(operator bool) string {
	if operator {
		return "/console/admin/tenants"
	}
	return "/console"
}

func signOut(v *visit) (string, error) {
	session.ClearCookie(v.w, v.session)
	return "/console/sign-in?note=signed-out", nil
}

// signOutEverywhere ends all sessions of the key.
func signOutEverywhere(v *visit) (string, error) {
	if err := v.api.EndSessions(v.ctx()); err != nil {
		return "", err
	}
	session.ClearCookie(v.w, v.session)
	return "/console/sign-in?note=signed-out-everywhere", nil
}

// sessionPage is what the key may do, and how its sessions end.
type sessionPage struct {
	Made, Ends api.Time
}

func showSession(v *visit) (shown, error) {
	return shown{template: "session", title: "Your session", data: sessionPage{
		Made: api.At(v.session.Made), Ends: api.At(v.session.Made.Add(session.Longest)),
	}}, nil
}
