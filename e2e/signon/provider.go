// Package signon runs a provider of OpenID Connect: the one that zitadel/oidc has as its example, with groups. It is the real
// provider of the tests of single sign-on.
package signon

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	// ClientID is the console's.
	ClientID = "console"
	// ClientSecret is the console's.
	ClientSecret = "secret-of-the-console"
	// User signs in.
	User = "test-user@localhost"
	// Password is the user's.
	Password = "verysecure"
	// Email is the user's address.
	Email = "test-user@zitadel.ch"

	subject = "id1"
)

// Provider is a server. Its users sign in with a password, in a form.
type Provider struct {
	// Issuer names localhost: for a browser another site than a gateway at 127.0.0.1.
	Issuer string

	*storage.Storage

	mu      sync.Mutex
	groups  []string
	life    time.Duration
	renewed int
}

// New starts a Provider for a console at publicURL. Its access tokens last for life, and its user has the groups.
func New(tb testing.TB, publicURL string, life time.Duration, groups ...string) *Provider {
	tb.Helper()
	var served http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served.ServeHTTP(w, r) }))
	tb.Cleanup(server.Close)
	p := &Provider{Issuer: strings.Replace(server.URL, "127.0.0.1", "localhost", 1), life: life, groups: groups}
	p.Storage = storage.NewStorageWithClients(storage.NewUserStore(p.Issuer), map[string]*storage.Client{
		ClientID: storage.WebClient(ClientID, ClientSecret, publicURL+"/console/oidc/callback"),
	})
	served = exampleop.SetupServer(p.Issuer, p, slog.New(slog.DiscardHandler), false)
	return p
}

// SetGroups changes the groups of the user.
func (p *Provider) SetGroups(groups ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups = groups
}

// Renewed is how often tokens were renewed.
func (p *Provider) Renewed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

// EndSessions makes all tokens of the user invalid.
func (p *Provider) EndSessions(tb testing.TB) {
	tb.Helper()
	if err := p.TerminateSession(tb.Context(), subject, ClientID); err != nil {
		tb.Fatal(err)
	}
}

// SetUserinfoFromToken adds the groups to UserInfo.
func (p *Provider) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, of, origin string) error {
	err := p.Storage.SetUserinfoFromToken(ctx, info, tokenID, of, origin)
	p.mu.Lock()
	defer p.mu.Unlock()
	info.AppendClaims("groups", p.groups)
	return err
}

// CreateAccessAndRefreshTokens gives tokens that last for life.
func (p *Provider) CreateAccessAndRefreshTokens(ctx context.Context, of op.TokenRequest, current string) (access, refresh string, ends time.Time, err error) {
	access, refresh, _, err = p.Storage.CreateAccessAndRefreshTokens(ctx, of, current)
	p.mu.Lock()
	defer p.mu.Unlock()
	if current != "" && err == nil {
		p.renewed++
	}
	return access, refresh, time.Now().Add(p.life), err
}
