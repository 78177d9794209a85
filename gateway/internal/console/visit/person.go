package visit

import (
	"errors"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/gateway/internal/console/sso"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// resumePerson makes the visit one of a person who signed in by single sign-on. Groups that were lost end the session, and
// tokens that have ended.
func (v *Visit) resumePerson() error {
	if v.Site.SignOn == nil {
		return v.ToSignIn() // the settings have no single sign-on any more
	}
	var err error
	v.Checked, err = v.Site.SignOn.Check(v.Context(), v.Session)
	switch {
	case errors.Is(err, sso.ErrLost):
		session.ClearCookie(v.Response, v.Session)
		return RedirectError{"/console/sign-in?note=groups-lost"}
	case errors.Is(err, sso.ErrEnded): // the cookie stays: another gateway may just have renewed the tokens
		return RedirectError{"/console/sign-in?note=sign-on-ended"}
	case errors.Is(err, sso.ErrUnanswered):
		return RedirectError{"/console/sign-in?note=sign-on-unanswered"}
	case err != nil:
		return errLeft()
	}
	had := *v.Session.Person
	if v.Live() { // the check alone makes no cookie there: it could arrive after the one of a sign-out, or of another tenant
		had.Checked = v.Checked.Who.Checked
	}
	if !v.Checked.Who.Equal(had) {
		v.Session.Person = &v.Checked.Who
		if err := v.SetPerson(); err != nil {
			return err
		}
	}
	return v.ActAs(v.Checked.Who)
}

// ActAs makes the calls of the visit those of a person, and asks what the tenant is. A tenant that was deleted ends the session.
func (v *Visit) ActAs(who session.Person) error {
	if err := v.UsePerson(v.Site.SignOn.Principal(who)); err != nil {
		return err
	}
	var err error
	v.Who, err = v.API.Whoami(v.Context())
	if refused, known := problem.From(err); known && refused.Code == problem.Forbidden {
		v.Key = "" // nobody is signed in
		session.ClearCookie(v.Response, v.Session)
		return problem.New(problem.Forbidden, "The tenant "+who.Tenant+", to which your groups give access, does not exist, or was deleted.")
	}
	return err
}

// SetPerson hands the visit's session, whose person has changed, to the browser.
func (v *Visit) SetPerson() error {
	err := v.Site.Sealer.SetCookie(v.Response, v.Session, v.Site.Now())
	if errors.Is(err, session.ErrTooLarge) {
		return problem.New(problem.PayloadTooLarge, "The sign-in provider's tokens are too large for a cookie of 4 KiB, where your session is kept. Ask who runs it for opaque or smaller access tokens.")
	}
	return err
}
