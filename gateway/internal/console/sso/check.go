package sso

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
)

// Why a session ends.
var (
	// ErrLost: no group of the person gives access to the session's tenant any more.
	ErrLost = errors.New("sso: the groups give no access")
	// ErrEnded: the provider does not take the session's tokens any more.
	ErrEnded = errors.New("sso: the sign-in has ended")
	// ErrUnanswered: the provider gives no answer, and the access token has ended, or the last answer is too old.
	ErrUnanswered = errors.New("sso: the provider gives no answer")
)

// errNoGroups means that the provider does not say which groups a person has.
var errNoGroups = errors.New("neither UserInfo nor a renewed ID token has the claim of groups")

// checked is what the last check of a session has found.
type checked struct {
	who    session.Person
	access Access
	// due is when the next check is.
	due time.Time
	// over is why the session ended, nil if it did not.
	over error
}

// Keep notes what a sign-in has found of a session, which was checked by it.
func (p *Provider) Keep(ctx context.Context, of session.Session, access Access) {
	p.o.Logger.InfoContext(ctx, "a person signed in", "key_id", p.Principal(*of.Person).KeyID, "subject", of.Person.Subject, "tenant", of.Person.Tenant)
	p.checks.Add(nameOfSession(of), checked{who: *of.Person, access: access, due: p.due(*of.Person)})
}

// Checked is a session's person as the last check has found them.
type Checked struct {
	Who    session.Person
	Access Access
	// Due is when the next check is: what goes on longer must end then, and ask again.
	Due time.Time
}

// Check gives the person of a session with the scopes of now. It asks the provider at most once in CheckEvery for each
// session, and when the access token has ended; requests at the same time share the answer. The error is ErrLost, ErrEnded
// or ErrUnanswered, or that of a context that has ended.
func (p *Provider) Check(ctx context.Context, of session.Session) (Checked, error) {
	name := nameOfSession(of)
	known, valid := p.last(name, of)
	if !valid {
		done := p.flights.DoChan(string(name[:]), func() (_ any, err error) {
			defer caught(&err)
			known, valid := p.last(name, of) // another check may have ended meanwhile, and have renewed the tokens
			if !valid {
				known = p.check(ctx, of, known)
				p.checks.Add(name, known)
			}
			return known, nil
		})
		select {
		case <-ctx.Done():
			return Checked{}, ctx.Err()
		case landed := <-done:
			if landed.Err != nil {
				p.o.Logger.ErrorContext(ctx, "the check of a session failed", "error", landed.Err)
				return Checked{}, ErrUnanswered
			}
			known = landed.Val.(checked) //nolint:forcetypeassert // it is what the function above returns
		}
	}
	if known.over != nil {
		return Checked{}, known.over
	}
	who := newer(*of.Person, known.who)
	who.Scopes = known.access.In(who.Tenant)
	if len(who.Scopes) == 0 {
		return Checked{}, ErrLost
	}
	return Checked{Who: who, Access: known.access, Due: known.due}, nil
}

// last gives what the last check has found, and whether that is still to be used: not if it is due again, and not to end a
// session whose tokens another gateway has renewed.
func (p *Provider) last(name [32]byte, of session.Session) (known checked, valid bool) {
	known, has := p.checks.Get(name)
	return known, has && p.o.Now().Before(known.due) && (known.over == nil || !of.Person.Ends.After(known.who.Ends))
}

// nameOfSession is by what a session is known here: the cache holds nothing that opens one.
func nameOfSession(of session.Session) [32]byte { return sha256.Sum256([]byte(of.ID)) }

// newer is a person with the tokens that end later, and the later check.
func newer(who, other session.Person) session.Person {
	if other.Ends.After(who.Ends) {
		who.Access, who.Refresh, who.Ends = other.Access, other.Refresh, other.Ends
	}
	if other.Checked.After(who.Checked) {
		who.Checked = other.Checked
	}
	return who
}

// now is a time as a cookie has it: without what makes that longer.
func (p *Provider) now() time.Time { return p.o.Now().UTC().Truncate(time.Second) }

// lasts is until when a session goes on without an answer of the provider.
func lasts(who session.Person) time.Time {
	last := who.Checked.Add(unansweredFor)
	if who.Ends.Before(last) {
		return who.Ends
	}
	return last
}

func (p *Provider) due(who session.Person) time.Time {
	due := p.o.Now().Add(p.o.CheckEvery)
	if last := lasts(who); last.Before(due) {
		return last
	}
	return due
}

// check asks the provider. It does not end with the request that began it: others wait for it too, and a renewed refresh
// token must not be lost.
func (p *Provider) check(ctx context.Context, of session.Session, last checked) checked {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), p.client), stepTimeout)
	defer cancel()
	who := newer(*of.Person, last.who)
	sealedLater := who.Checked.After(last.who.Checked) // the cookie has a later check than this gateway
	groups, err := p.ask(ctx, &who)
	if err == nil {
		who.Checked = p.now()
	}
	now := checked{who: who, due: p.due(who)}
	switch {
	case err == nil:
		now.access = p.o.Grants.For(groups)
	case errors.Is(err, errNoGroups):
		now.over, now.due = ErrLost, p.o.Now().Add(p.o.CheckEvery) // a provider may leave out the claim of who has no groups
	case isRefusal(err):
		now.over, now.due = ErrEnded, p.o.Now().Add(p.o.CheckEvery)
	case errors.Is(last.over, ErrEnded) && !sealedLater: // no answer brings no session back
		now.over, now.due = ErrEnded, p.o.Now().Add(p.o.CheckEvery)
	case !p.o.Now().Before(lasts(who)):
		now.over, now.due = ErrUnanswered, p.o.Now().Add(callTimeout)
		fallthrough
	default:
		p.o.Logger.WarnContext(ctx, "the groups of a session could not be checked", "issuer", p.o.Issuer, "error", err)
		if now.access = last.access; sealedLater {
			now.access = Access{{who.Tenant, who.Scopes}}
		}
	}
	return now
}

// ask gives the groups of a session's person. A panic of what reads the provider's answer is as no answer.
func (p *Provider) ask(ctx context.Context, who *session.Person) (groups []string, err error) {
	defer caught(&err)
	found, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	groups, _, err = p.groupsOf(ctx, found, who, nil)
	return groups, err
}

// groupsOf reads a person's groups of now, and what else UserInfo says: from UserInfo; where that has none, or does not take the
// access token, with a renewed one. id is what the ID token of a sign-in says, nil of a session. The person's tokens are
// renewed where they were.
func (p *Provider) groupsOf(ctx context.Context, found *discovered, who *session.Person, id claims) (groups []string, said claims, err error) {
	fresh := id != nil
	if !fresh && !p.o.Now().Before(who.Ends) {
		if id, err = p.renew(ctx, found, who); err != nil {
			return nil, nil, err
		}
		fresh = true
	}
	for {
		said, err = found.userInfo(ctx, who)
		if err != nil && (!isRefusal(err) || errors.Is(err, errOther)) {
			return nil, nil, err
		}
		if groups = said.strings(p.o.GroupsClaim); err == nil && groups != nil {
			return groups, said, nil
		}
		if fresh {
			groups = id.strings(p.o.GroupsClaim)
			if groups == nil || who.Refresh == "" { // without it they could not be read again
				return nil, nil, errors.Join(errNoGroups, err)
			}
			return groups, said, nil
		}
		if id, err = p.renew(ctx, found, who); err != nil {
			return nil, nil, err
		}
		fresh = true
	}
}

// userInfo asks who holds an access token; nothing where the provider has no UserInfo.
func (d *discovered) userInfo(ctx context.Context, who *session.Person) (said claims, err error) {
	if d.UserInfoEndpoint() == "" {
		return nil, nil
	}
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: who.Access, TokenType: "Bearer"}))
	if err != nil {
		return nil, err
	}
	if info.Subject != who.Subject {
		return nil, errOther
	}
	err = info.Claims(&said)
	return said, err
}

// renew gets new tokens for the refresh token. It gives what a new ID token says, if there is one.
func (p *Provider) renew(ctx context.Context, found *discovered, who *session.Person) (claims, error) {
	if who.Refresh == "" {
		return nil, errNoRefresh
	}
	token, err := found.oauth.TokenSource(ctx, &oauth2.Token{RefreshToken: who.Refresh}).Token()
	if err != nil {
		return nil, err
	}
	var id *oidc.IDToken
	var said claims
	if raw, _ := token.Extra("id_token").(string); raw != "" {
		if id, err = found.verify(ctx, token); err != nil {
			return nil, errors.Join(errOther, err)
		}
		if id.Subject != who.Subject {
			return nil, errOther
		}
		if err := id.Claims(&said); err != nil {
			return nil, errors.Join(errOther, err)
		}
	}
	p.take(who, token, id)
	return said, nil
}

// take notes new tokens; id may be nil.
func (p *Provider) take(who *session.Person, token *oauth2.Token, id *oidc.IDToken) {
	who.Access, who.Ends = token.AccessToken, token.Expiry
	if token.RefreshToken != "" {
		who.Refresh = token.RefreshToken
	}
	if who.Ends.IsZero() { // the provider does not say how long it lasts
		who.Ends = p.o.Now().Add(p.o.CheckEvery)
		if id != nil {
			who.Ends = id.Expiry
		}
	}
}

// Answers that end a session as a refusal does.
var (
	errNoRefresh = errors.New("the access token has ended, and there is no refresh token")
	errOther     = errors.New("the answer is of another person, or could not be verified")
)

// isRefusal says that the provider has answered, and does not take the tokens.
func isRefusal(err error) bool {
	if errors.Is(err, errNoRefresh) || errors.Is(err, errOther) {
		return true
	}
	if refused, is := errors.AsType[*oauth2.RetrieveError](err); is && refused.Response != nil {
		status := refused.Response.StatusCode
		return status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
	}
	// Of UserInfo the library gives the status in its text alone.
	for _, status := range []string{"400 ", "401 ", "403 ", "404 ", "410 "} {
		if err != nil && strings.HasPrefix(err.Error(), status) {
			return true
		}
	}
	return false
}
