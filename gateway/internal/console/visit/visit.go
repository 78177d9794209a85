// Package visit is one request of a browser: its session, the client by which it calls the API, and how a page, an action or
// a form is answered.
package visit

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/pages"
	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// maxForm bounds a form's body, in bytes.
const maxForm = 1 << 20

// Site is what serves the visits of a console.
type Site struct {
	Sealer *session.Sealer
	cross  *http.CrossOriginProtection
	Now    func() time.Time
	live   *liveReads
	once   *repeats
	API    http.Handler
	// SignOn signs people in by single sign-on; nil where there is none.
	SignOn *sso.Provider
	// processors are the seats in which pages are written.
	processors *seats.Seats
}

// NewSite makes a site; api is set by in.
func NewSite(sealer *session.Sealer, forms Forms, processors *seats.Seats, now func() time.Time) *Site {
	return &Site{
		processors: processors,
		Sealer:     sealer, cross: http.NewCrossOriginProtection(), Now: now, live: newLiveReads(now),
		once: &repeats{everywhere: forms, kept: map[string]*repeated{}},
	}
}

// In is the site in front of an API.
func (s *Site) In(api http.Handler) *Site {
	served := *s
	served.API = api
	return &served
}

// Visit is one request of a browser.
type Visit struct {
	Site *Site
	// api calls the API with key, through transport.
	API       *client.Client
	Transport *transport
	Key       string
	Response  http.ResponseWriter
	Request   *http.Request
	Session   session.Session
	// Checked is the session's person, where it is one's.
	Checked sso.Checked
	// who is what the key is; empty for the operator's.
	Who api.Whoami
	// form is what a POST has sent.
	Form url.Values
}

// Page is a page: a template, its title, and the data that it shows.
type Page struct {
	Template, Title string
	Status          int // 200 if 0
	Data            any
}

// RedirectError is an error that sends the browser elsewhere.
type RedirectError struct{ To string }

func (m RedirectError) Error() string { return "moved to " + m.To }

type (
	// PageFunc makes a page.
	PageFunc func(*Visit) (Page, error)
	// ActionFunc changes something, and names the page to show next.
	ActionFunc func(*Visit) (next string, err error)
)

// Visit begins a visit, of nobody yet.
func (s *Site) Visit(w http.ResponseWriter, r *http.Request) *Visit {
	// The outer request's id, by which its log line and those of its calls are one.
	return &Visit{Site: s, Response: w, Request: r, Transport: &transport{api: s.API, browser: r, correlation: w.Header().Get("X-Correlation-Id")}}
}

// Public serves a page that needs no session.
func (s *Site) Public(run PageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.Visit(w, r)
		if r.Method == http.MethodPost {
			if err := v.readForm(); err != nil {
				v.Fail(err)
				return
			}
		}
		page, err := run(v)
		v.answer(page, err)
	})
}

// Page serves a page to who is signed in.
func (s *Site) Page(run PageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.Visit(w, r)
		if err := v.signedIn(); err != nil {
			v.Fail(err)
			return
		}
		if v.Live() {
			v.Transport.Shared = s.live
		}
		page, err := run(v)
		v.answer(page, err)
	})
}

// Data serves what a script of an open page asks for. A refusal is a status alone: the page keeps what it has.
func (s *Site) Data(run func(*Visit) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.Visit(w, r)
		err := v.signedIn()
		var found any
		if err == nil {
			v.Transport.Shared = s.live
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
func (s *Site) form(run PageFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.Visit(w, r)
		err := v.readForm()
		if err == nil {
			err = v.signedIn()
		}
		if err == nil && !session.ValidFormToken(v.Session, r.PostFormValue("form")) {
			err = problem.New(problem.Forbidden, "The form is of another session, or of another tenant. Go back, reload the page, and try again.")
		}
		var page Page
		if err == nil {
			s.live.changed(v.Key)
			defer s.live.changed(v.Key)
			page, err = run(v)
		}
		v.answer(page, err)
	})
}

// Action serves a form of who is signed in. Its page is shown after a redirect, so that a reload repeats nothing.
func (s *Site) Action(run ActionFunc) http.Handler {
	return s.form(Redirecting(run))
}

// Redirecting makes an action's next page a redirect.
func Redirecting(run ActionFunc) PageFunc {
	return func(v *Visit) (Page, error) {
		next, err := run(v)
		if err == nil {
			err = RedirectError{next}
		}
		return Page{}, err
	}
}

// Making serves a form that makes something: sent twice, it works once.
func (s *Site) Making(run PageFunc) http.Handler {
	return s.form(func(v *Visit) (Page, error) { return s.once.run(v, run) })
}

// readForm refuses forms of other sites.
func (v *Visit) readForm() error {
	if err := v.Site.cross.Check(v.Request); err != nil {
		return problem.New(problem.Forbidden, "The form was sent from another site. Open the console itself, and try again.")
	}
	return v.ReadForm()
}

// ReadForm reads a form of any site. A body that is no form is left out, as there is none.
func (v *Visit) ReadForm() error {
	v.Request.Body = http.MaxBytesReader(v.Response, v.Request.Body, maxForm)
	if err := v.Request.ParseForm(); err != nil {
		return problem.New(problem.PayloadTooLarge, "The form could not be read: it is too large, or incomplete.")
	}
	v.Form = v.Request.PostForm //nolint:forbidigo // not http.PostForm, which is meant
	return nil
}

// signedIn reads the session, and renews it.
func (v *Visit) signedIn() error {
	now := v.Site.Now()
	of, err := v.Site.Sealer.FromRequest(v.Request, now)
	if err != nil {
		return v.ToSignIn()
	}
	if err := v.Resume(of); err != nil {
		return err
	}
	if renewed, set := v.Session.Renew(now); set && !v.Live() {
		v.Session = renewed
		return v.Site.Sealer.SetCookie(v.Response, renewed, now)
	}
	return nil
}

// Resume makes the visit one of a session. A key that was revoked ends it, and one that has signed out everywhere.
func (v *Visit) Resume(of session.Session) error {
	v.Session = of
	if of.Person != nil {
		return v.resumePerson()
	}
	if err := v.UseKey(of.Key); err != nil {
		return err
	}
	if v.Session.Operator {
		return nil // each request shows whether the operator key is still the one
	}
	var err error
	if v.Who, err = v.API.Whoami(v.Context()); err != nil {
		return err
	}
	if v.Who.SessionsEnded > v.Session.Before {
		session.ClearCookie(v.Response, v.Session)
		return RedirectError{"/console/sign-in?note=sessions-ended"}
	}
	return nil
}

// Live says that the request updates an open page by itself: no person asked for it.
func (v *Visit) Live() bool { return v.Request.Header.Get("Hx-Request") != "" }

// ToSignIn leads to the sign-in, and back from there.
func (v *Visit) ToSignIn() error {
	to := "/console/sign-in"
	if at := v.Request.URL.RequestURI(); v.Request.Method == http.MethodGet && at != "/console" {
		to += "?next=" + url.QueryEscape(at)
	}
	return RedirectError{to}
}

// errLeft is for a browser that does not wait for its answer.
func errLeft() error {
	return problem.New(problem.CoreUnavailable, "The browser has left, or waited for too long.")
}

// May says whether the key has a scope, so that what it may not do is not offered. The API decides.
func (v *Visit) May(scope string) bool { return slices.Contains(v.Who.Scopes, scope) }

func (v *Visit) answer(page Page, err error) {
	if err != nil {
		v.Fail(err)
		return
	}
	v.show(page)
}

// usualPage is what it takes to write a page until that is known.
const usualPage = 5 * time.Millisecond

// show writes a page once its tenant has a seat: a large one takes milliseconds.
func (v *Visit) show(page Page) {
	owner := "console"
	if v.Who.Tenant != nil {
		owner = *v.Who.Tenant
	}
	seat, err := v.Site.processors.Take(v.Request.Context(), seats.Work{Owner: owner, Operation: "page", On: page.Template, Guess: usualPage})
	if err != nil {
		refused := problem.New(problem.Overloaded, "Too many pages of your tenant are written at the same time. Load this one again later.")
		page = Page{Template: "problem", Title: refused.Title, Status: refused.Status, Data: problemPage{refused, v.back()}}
		v.send(page, v.render(page))
		return
	}
	text := func() []byte {
		defer seat.Leave() // even where the template panics
		return v.render(page)
	}()
	v.send(page, text)
}

func (v *Visit) render(page Page) []byte {
	frame := pages.Frame{
		Template: page.Template, Title: page.Title, At: v.Request.URL.Path, SignedIn: v.Key != "", Operator: v.Session.Operator, Who: v.Who,
		Note: pages.Note(v.Request.URL.Query().Get("note")), Now: v.Site.Now(), Data: page.Data, Fragment: v.Live(),
	}
	if frame.SignedIn {
		frame.FormToken, frame.Once = session.FormToken(v.Session), rand.Text()
	}
	text, err := pages.Render(frame)
	if err != nil {
		panic(err) // the template and its data do not fit: observe logs it, and answers 500
	}
	return text
}

func (v *Visit) send(page Page, text []byte) {
	v.Response.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.Response.WriteHeader(max(page.Status, http.StatusOK))
	_, _ = v.Response.Write(text) //nolint:gosec // the templates have escaped it; if this fails the browser has left
}

// Fail answers with an error in words, or sends the browser elsewhere.
func (v *Visit) Fail(err error) {
	if errors.Is(err, client.ErrInvalidID) {
		err = problem.New(problem.InvalidRequest, "The address names nothing that there can be.")
	}
	refused, known := problem.From(err)
	if known && refused.Code == problem.Unauthenticated && v.Session.Key != "" {
		session.ClearCookie(v.Response, v.Session) // the key was revoked, or has expired
		err = RedirectError{"/console/sign-in?note=key-ended"}
	}
	if elsewhere, ok := errors.AsType[RedirectError](err); ok {
		if v.Live() {
			v.Response.Header().Set("HX-Redirect", elsewhere.To)
			v.Response.WriteHeader(http.StatusNoContent)
			return
		}
		v.Response.Header().Set("Location", elsewhere.To)
		v.Response.WriteHeader(http.StatusSeeOther)
		return
	}
	if !known {
		panic(err) // a fault of this program: observe logs it, and answers 500
	}
	v.show(Page{Template: "problem", Title: refused.Title, Status: refused.Status, Data: problemPage{refused, v.back()}})
}

// problemPage is what a refusal shows.
type problemPage struct {
	Refused *problem.Problem
	Back    string
}

// back is the page that the refused form was on.
func (v *Visit) back() string {
	from, err := url.Parse(v.Request.Header.Get("Referer"))
	if err != nil || from.Host != v.Request.Host || !Local(from.RequestURI()) {
		return "/console"
	}
	return from.RequestURI()
}

// NotFound is the page of a path that the console does not have.
func NotFound(*Visit) (Page, error) {
	return Page{}, problem.New(problem.NotFound, "There is no such page in the console.")
}

// Local says whether a target is a page of the console: nothing else is redirected to.
func Local(target string) bool {
	u, err := url.Parse(target)
	return err == nil && u.Scheme == "" && u.Host == "" && u.Path == path.Clean(u.Path) && !strings.ContainsAny(target, "\\\r\n\t") &&
		(u.Path == "/console" || strings.HasPrefix(u.Path, "/console/"))
}

// Gone says that a resource or route is not there (any more).
func Gone(err error) bool {
	refused, known := problem.From(err)
	return known && refused.Status == http.StatusNotFound
}

// ErrNoSuchAction is for a form that the console does not have.
var ErrNoSuchAction = problem.New(problem.InvalidRequest, "The console has no such action.")
