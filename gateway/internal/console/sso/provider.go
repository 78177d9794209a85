package sso

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/forgequeue/forgequeue/gateway/internal/console/session"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// CallbackPath is where the provider sends browsers back to.
	CallbackPath = "/console/oidc/callback"

	// callTimeout bounds one request to the provider, stepTimeout all those of a sign-in or a check.
	callTimeout = 5 * time.Second
	stepTimeout = 10 * time.Second
	// maxChecks bounds the sessions whose last check is remembered: for one more, another is checked again early.
	maxChecks = 5000
	// maxExchanges bounds the sign-ins of a gateway that wait for the provider: the callback is open to everybody.
	maxExchanges = 32
	// unansweredFor is how long a session goes on after the last check that the provider has answered.
	unansweredFor = 5 * time.Minute
	// longestCode bounds what is shown of a provider's error.
	longestCode = 60
)

// Options of a Provider.
type Options struct {
	// Issuer is the provider's URL, as its tokens have it. ClientSecret may be empty, for a client that PKCE alone proves.
	Issuer, ClientID, ClientSecret string
	// Grants say what groups may do; GroupsClaim is the claim that has a person's groups.
	Grants      Grants
	GroupsClaim string
	// PublicURL is where browsers reach the console, without a slash at its end.
	PublicURL string
	// CheckEvery is how often a session's groups are read again.
	CheckEvery time.Duration
	Logger     *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Provider signs people in. It is safe for concurrent use, and asks nothing before it is used: a provider that is down
// keeps no gateway from its start.
type Provider struct {
	o      Options
	client *http.Client
	found  atomic.Pointer[discovered]
	// flights are discoveries and checks under way.
	flights singleflight.Group
	checks  *lru.Cache[[32]byte, checked]
	// exchanges has an element for each sign-in that waits for the provider.
	exchanges chan struct{}
}

// discovered is what the provider says of itself.
type discovered struct {
	*oidc.Provider

	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// New makes a Provider.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	checks, _ := lru.New[[32]byte, checked](maxChecks) // it fails only for a size below 1
	return &Provider{o: o, client: &http.Client{Timeout: callTimeout}, checks: checks, exchanges: make(chan struct{}, maxExchanges)}
}

// Secure says that browsers reach the console by https.
func (p *Provider) Secure() bool { return strings.HasPrefix(p.o.PublicURL, "https://") }

// discover reads what the provider says of itself, once it answers.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	if found := p.found.Load(); found != nil {
		return found, nil
	}
	done := p.flights.DoChan("discovery", func() (_ any, err error) {
		defer caught(&err)
		ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), p.client), callTimeout)
		defer cancel()
		provider, err := oidc.NewProvider(ctx, p.o.Issuer)
		if err != nil {
			return nil, err
		}
		var offered struct {
			Scopes []string `json:"scopes_supported"`
		}
		if err := provider.Claims(&offered); err != nil {
			return nil, err
		}
		found := &discovered{
			Provider: provider, verifier: provider.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.o.Now}),
			oauth: oauth2.Config{
				ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: provider.Endpoint(),
				RedirectURL: p.o.PublicURL + CallbackPath, Scopes: p.scopes(offered.Scopes),
			},
		}
		if p.o.ClientSecret == "" { // a public client only says who it is
			found.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams
		}
		p.found.Store(found)
		return found, nil
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case landed := <-done:
		if landed.Err != nil {
			return nil, fmt.Errorf("discover %s: %w", p.o.Issuer, landed.Err)
		}
		return landed.Val.(*discovered), nil //nolint:forcetypeassert // it is what the function above returns
	}
}

// caught makes a panic an error. It is deferred in a flight, where a panic would end the process: there is no request around it.
func caught(err *error) {
	if failure := recover(); failure != nil { //nolint:revive // this is the deferred function
		*err = fmt.Errorf("panic: %v", failure)
	}
}

// scopes are what is asked of the provider: of those that not every provider has, the ones that it offers.
func (p *Provider) scopes(offered []string) []string {
	asked := []string{oidc.ScopeOpenID, "email", "profile"}
	for _, scope := range []string{oidc.ScopeOfflineAccess, p.o.GroupsClaim} {
		if slices.Contains(offered, scope) && !slices.Contains(asked, scope) {
			asked = append(asked, scope)
		}
	}
	return asked
}

// Begin gives where the browser signs in. The error is a problem.
func (p *Provider) Begin(ctx context.Context, flow session.Flow) (to string, err error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", p.unanswered(ctx, err)
	}
	return found.oauth.AuthCodeURL(flow.State, oidc.Nonce(flow.Nonce), oauth2.S256ChallengeOption(flow.Verifier)), nil
}

// Finish signs in who comes back from the provider, with the query that it sent. The person's Tenant and Scopes are for the
// caller to choose from access, which has at least one. The error is a problem.
func (p *Provider) Finish(ctx context.Context, flow session.Flow, query url.Values) (who session.Person, access Access, err error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), stepTimeout)
	defer cancel()
	switch issuer := query.Get("iss"); {
	case subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(flow.State)) != 1:
		return who, nil, p.refuse(ctx, errors.New("the state is of another sign-in"))
	case query.Get("error") != "":
		code := query.Get("error")
		return who, nil, problem.New(problem.Forbidden, fmt.Sprintf("The sign-in provider refused with %.*q. Try again, or ask who runs it.", longestCode, code))
	case issuer != "" && issuer != p.o.Issuer: // RFC 9207
		return who, nil, p.refuse(ctx, errors.New("the answer is of another issuer"))
	}
	select {
	case p.exchanges <- struct{}{}:
		defer func() { <-p.exchanges }()
	default:
		return who, nil, problem.New(problem.Overloaded, "Too many people sign in at the same time. Try again in a moment: begin the sign-in again.")
	}
	found, err := p.discover(ctx)
	if err != nil {
		return who, nil, p.unanswered(ctx, err)
	}
	token, err := found.oauth.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		return who, nil, p.failed(ctx, err)
	}
	id, err := found.verify(ctx, token)
	if err == nil && subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(flow.Nonce)) != 1 {
		err = errors.New("the nonce is of another sign-in")
	}
	if err != nil {
		return who, nil, p.refuse(ctx, err)
	}
	who = session.Person{Subject: id.Subject}
	p.take(&who, token, id)
	var claims claims
	if err := id.Claims(&claims); err != nil {
		return who, nil, p.refuse(ctx, err)
	}
	groups, said, err := p.groupsOf(ctx, found, &who, claims)
	if err != nil {
		return who, nil, p.failed(ctx, err)
	}
	who.Name, who.Checked = nameOf(id.Subject, claims, said), p.now()
	if access = p.o.Grants.For(groups); len(access) == 0 {
		return who, nil, problem.New(problem.Forbidden, "You have signed in, but none of your groups gives access to a tenant here. Ask who runs this console.")
	}
	return who, access, nil
}

// unanswered is for a provider that gives no answer, refuse for an answer that is not to be trusted: the log has why.
func (p *Provider) unanswered(ctx context.Context, err error) error {
	p.o.Logger.WarnContext(ctx, "the sign-in provider gives no answer", "issuer", p.o.Issuer, "error", err)
	return problem.New(problem.CoreUnavailable, "The sign-in provider does not answer. Try again in a moment, or sign in with an API key.")
}

func (p *Provider) refuse(ctx context.Context, err error) error {
	p.o.Logger.WarnContext(ctx, "a single sign-on was refused", "issuer", p.o.Issuer, "error", err)
	return problem.New(problem.Unauthenticated, "The sign-in could not be verified. Begin it again here, and finish it in this browser.")
}

func (p *Provider) failed(ctx context.Context, err error) error {
	if errors.Is(err, errNoGroups) {
		p.o.Logger.WarnContext(ctx, "a single sign-on was refused", "issuer", p.o.Issuer, "claim", p.o.GroupsClaim, "error", err)
		return problem.New(problem.Forbidden, "The sign-in provider does not let this console read your groups again, so nobody could notice when you lose one. Ask who runs it for UserInfo with groups, or for a refresh token.")
	}
	if isRefusal(err) {
		return p.refuse(ctx, err)
	}
	return p.unanswered(ctx, err)
}

// verify gives the ID token of an answer: of the issuer, for this client, signed, not expired, and of this access token.
func (d *discovered) verify(ctx context.Context, token *oauth2.Token) (*oidc.IDToken, error) {
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("the provider gave no ID token")
	}
	id, err := d.verifier.Verify(ctx, raw)
	if err == nil && id.AccessTokenHash != "" {
		err = id.VerifyAccessToken(token.AccessToken)
	}
	return id, err
}

// claims are what a token or UserInfo says of a person.
type claims map[string]json.RawMessage

// strings gives a claim that is a text or a list of texts; nil where there is none.
func (c claims) strings(name string) (texts []string) {
	var text string
	if json.Unmarshal(c[name], &texts) == nil {
		return texts
	}
	if json.Unmarshal(c[name], &text) == nil {
		return []string{text}
	}
	return nil
}

func (c claims) text(name string) (text string) {
	_ = json.Unmarshal(c[name], &text) // none where it is no text
	return text
}
