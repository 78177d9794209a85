package console

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/pages"
	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// maxForm bounds a form's body, in bytes.
const maxForm = 1 << 20

// visit is one request of a browser.
type visit struct {
	console *Console
	// api calls the API with key, through transport.
	api       *client.Client
	transport *transport
	key       string
	w         http.ResponseWriter
	r         *http.Request
	session   session.Session
	// who is what the key is; empty for the operator's.
	who api.Whoami
	// form is what a POST has sent.
	form url.Values
}

// shown is a page: a template, its title, and the data that it shows.
type shown struct {
	template, title string
	status          int // 200 if 0
	data            any
}

// movedError is an error that sends the browser elsewhere.
type movedError struct{ to string }

func (m movedError) Error() string { return "moved to " + m.to }

type (
	pageFunc func(*visit) (shown, error)
	// actionFunc changes something, and names the page to show next.
	actionFunc func(*visit) (next string, err error)
)

func (c *Console) visit(w http.ResponseWriter, r *http.Request) *visit {
	// The outer request's id, by which its log line and those of its calls are one.
	return &visit{console: c, w: w, r: r, transport: &transport{api: c.api, browser: r, correlation: w.Header().Get("X-Correlation-Id")}}
}

// public serves a page that needs no session.
func (c *Console) public(run pageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		if r.Method == http.MethodPost {
			if err := v.readForm(); err != nil {
				v.fail(err)
				return
			}
		}
		page, err := run(v)
		v.answer(page, err)
	})
}

// page serves a page to who is signed in.
func (c *Console) page(run pageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		if err := v.signedIn(); err != nil {
			v.fail(err)
			return
		}
		if v.live() {
			v.transport.shared = c.live
		}
		page, err := run(v)
		v.answer(page, err)
	})
}

// data serves what a script of an open page asks for. A refusal is a status alone: the page keeps what it has.
func (c *Console) data(run func(*visit) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		err := v.signedIn()
		var found any
		if err == nil {
			v.transport.shared = c.live
			found, err = run(v)
		}
		var text []byte
		if err == nil {
			text, err = json.Marshal(found)
		}
		if err != nil {
			status := http.StatusUnauthorized
			if refused, known := problem.From(err); known {
				status = refused.Status
			}
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // if this fails the browser has left
	})
}

// form serves a form of who is signed in, and answers with a page.
func (c *Console) form(run pageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		err := v.readForm()
		if err == nil {
			err = v.signedIn()
		}
		if err == nil && !session.ValidFormToken(v.session, r.PostFormValue("form")) {
			err = problem.New(problem.Forbidden, "The form is of another session. Go back, reload the page, and try again.")
		}
		var page shown
		if err == nil {
			c.live.changed(v.key)
			defer c.live.changed(v.key)
			page, err = run(v)
		}
		v.answer(page, err)
	})
}

// action serves a form of who is signed in. Its page is shown after a redirect, so that a reload repeats nothing.
func (c *Console) action(run actionFunc) http.Handler {
	return c.form(moved(run))
}

// moved makes an action's next page a redirect.
func moved(run actionFunc) pageFunc {
	return func(v *visit) (shown, error) {
		next, err := run(v)
		if err == nil {
			err = movedError{next}
		}
		return shown{}, err
	}
}

// making serves a form that makes something: sent twice, it works once.
func (c *Console) making(run pageFunc) http.Handler {
	return c.form(func(v *visit) (shown, error) { return c.once.run(v, run) })
}

// readForm refuses forms of other sites.
func (v *visit) readForm() error {
	if err := v.console.cross.Check(v.r); err != nil {
		return problem.New(problem.Forbidden, "The form was sent from another site. Open the console itself, and try again.")
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return problem.New(problem.PayloadTooLarge, "The form could not be read: it is too large, or incomplete.")
	}
	v.form = v.r.PostForm //nolint:forbidigo // not http.PostForm, which is meant
	return nil
}

// signedIn reads the session, and renews it.
func (v *visit) signedIn() error {
	now := v.console.now()
	of, err := v.console.sealer.FromRequest(v.r, now)
	if err != nil {
		return v.toSignIn()
	}
	v.session = of
	if err := v.use(of.Key); err != nil {
		return err
	}
	if err := v.stillSignedIn(); err != nil {
		return err
	}
	if renewed, set := of.Renew(now); set && !v.live() {
		v.session = renewed
		return v.console.sealer.SetCookie(v.w, renewed, now)
	}
	return nil
}

// stillSignedIn asks what the session's key is: a key that was revoked ends it, and one that has signed out everywhere.
func (v *visit) stillSignedIn() error {
	if v.session.Operator {
		return nil // each request shows whether the operator key is still the one
	}
	var err error
	if v.who, err = v.api.Whoami(v.ctx()); err != nil {
		return err
	}
	if v.who.SessionsEnded > v.session.Before {
		session.ClearCookie(v.w, v.session)
		return movedError{"/console/sign-in?note=sessions-ended"}
	}
	return nil
}

// live says that the request updates an open page by itself: no person asked for it.
func (v *visit) live() bool { return v.r.Header.Get("Hx-Request") != "" }

// toSignIn leads to the sign-in, and back from there.
func (v *visit) toSignIn() error {
	to := "/console/sign-in"
	if at := v.r.URL.RequestURI(); v.r.Method == http.MethodGet && at != "/console" {
		to += "?next=" + url.QueryEscape(at)
	}
	return movedError{to}
}

// errLeft is for a browser that does not wait for its answer.
func errLeft() error {
	return problem.New(problem.CoreUnavailable, "The browser has left, or waited for too long.")
}

// may says whether the key has a scope, so that what it may not do is not offered. The API decides.
func (v *visit) may(scope string) bool { return slices.Contains(v.who.Scopes, scope) }

func (v *visit) answer(page shown, err error) {
	if err != nil {
		v.fail(err)
		return
	}
	v.show(page)
}

func (v *visit) show(page shown) {
	frame := pages.Frame{
		Template: page.template, Title: page.title, At: v.r.URL.Path, SignedIn: v.key != "", Operator: v.session.Operator, Who: v.who,
		Note: pages.Note(v.r.URL.Query().Get("note")), Now: v.console.now(), Data: page.data, Fragment: v.live(),
	}
	if frame.SignedIn {
		frame.FormToken, frame.Once = session.FormToken(v.session), rand.Text()
	}
	text, err := pages.Render(frame)
	if err != nil {
		panic(err) // the template and its data do not fit: observe logs it, and answers 500
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(max(page.status, http.StatusOK))
	_, _ = v.w.Write(text) // if this fails the browser has left
}

// fail answers with an error in words, or sends the browser elsewhere.
func (v *visit) fail(err error) {
	refused, known := problem.From(err)
	if known && refused.Code == problem.Unauthenticated && v.session.Key != "" {
		session.ClearCookie(v.w, v.session) // the key was revoked, or has expired
		err = movedError{"/console/sign-in?note=key-ended"}
	}
	if elsewhere, ok := errors.AsType[movedError](err); ok {
		if v.live() {
			v.w.Header().Set("HX-Redirect", elsewhere.to)
			v.w.WriteHeader(http.StatusNoContent)
			return
		}
		v.w.Header().Set("Location", elsewhere.to)
		v.w.WriteHeader(http.StatusSeeOther)
		return
	}
	if !known {
		panic(err) // a fault of this program: observe logs it, and answers 500
	}
	v.show(shown{template: "problem", title: refused.Title, status: refused.Status, data: problemPage{refused, v.back()}})
}

// problemPage is what a refusal shows.
type problemPage struct {
	Refused *problem.Problem
	Back    string
}

// back is the page that the refused form was on.
func (v *visit) back() string {
	from, err := url.Parse(v.r.Header.Get("Referer"))
	if err != nil || from.Host != v.r.Host || !local(from.RequestURI()) {
		return "/console"
	}
	return from.RequestURI()
}

func notFound(*visit) (shown, error) {
	return shown{}, problem.New(problem.NotFound, "There is no such page in the console.")
}
