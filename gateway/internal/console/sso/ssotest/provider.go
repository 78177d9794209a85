// Package ssotest is a provider of OpenID Connect for tests of what a real one does not do: answers that are wrong. The real one
// is in e2e/signon.
package ssotest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ClientID is the console's at the provider.
const ClientID = "console"

// Provider is a server. Set changes what it does.
type Provider struct {
	URL string

	tb  testing.TB
	key *ecdsa.PrivateKey

	mu    sync.Mutex
	state State
	// codes are the queries that began a sign-in, by code.
	codes map[string]url.Values
	asked map[string]int
}

// State is what a Provider does.
type State struct {
	// Now is its clock, Life how long an access token lasts.
	Now  func() time.Time
	Life time.Duration
	// Offline says that it gives refresh tokens.
	Offline bool
	// Claims are UserInfo's, nil for a provider without the claim of groups there. InToken are further ones of ID tokens.
	Claims, InToken map[string]any
	// Tokens are those that it takes, access and refresh tokens. What it gives is among them.
	Tokens map[string]bool
	// Status, where not 0, is its answer to each request.
	Status int
	// Other signs ID tokens by another key.
	Other bool
	// Padding is how long access tokens are, in bytes, beyond what they need.
	Padding int
}

// New starts a Provider, in which ann has the groups.
func New(tb testing.TB, now func() time.Time, groups ...string) *Provider {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Provider{tb: tb, key: key, codes: map[string]url.Values{}, asked: map[string]int{}, state: State{
		Now: now, Life: time.Hour, Tokens: map[string]bool{}, InToken: map[string]any{},
		Claims: map[string]any{"sub": "1", "email": "ann@example.com", "groups": groups},
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked[r.URL.Path]++
		if p.state.Status != 0 {
			w.WriteHeader(p.state.Status)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// Set changes what it does.
func (p *Provider) Set(change func(*State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.state)
}

// Asked is how often a path was asked for.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// SignIn signs ann in at the provider, which a browser has opened at to, and gives the query of the callback.
func (p *Provider) SignIn(to string) url.Values {
	p.tb.Helper()
	at, err := url.Parse(to)
	if err != nil || at.Path != "/authorize" {
		p.tb.Fatalf("sign in at %q: %v", to, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code := rand.Text()
	p.codes[code] = at.Query()
	return url.Values{"code": {code}, "state": {at.Query().Get("state")}}
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	scopes := []string{"openid", "groups"}
	if p.state.Offline {
		scopes = append(scopes, "offline_access")
	}
	p.answer(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "userinfo_endpoint": p.URL + "/userinfo",
		"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}, "scopes_supported": scopes,
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &p.key.PublicKey, KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
}

// token takes a code with its verifier, or a refresh token, each once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	given := map[string]any{"token_type": "Bearer", "expires_in": int(p.state.Life.Seconds())}
	claims := map[string]any{"iss": p.URL, "sub": "1", "aud": ClientID, "iat": p.state.Now().Unix(), "exp": p.state.Now().Add(p.state.Life).Unix()}
	switch refresh := r.FormValue("refresh_token"); {
	case refresh != "":
		if !p.state.Tokens[refresh] {
			p.refuse(w)
			return
		}
		delete(p.state.Tokens, refresh)
	default:
		began := p.codes[r.FormValue("code")]
		delete(p.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if began.Get("code_challenge_method") != "S256" || began.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			began.Get("redirect_uri") != r.FormValue("redirect_uri") {
			p.refuse(w)
			return
		}
		claims["nonce"] = began.Get("nonce")
	}
	maps.Copy(claims, p.state.InToken)
	access := "access-" + rand.Text()
	for len(access) < p.state.Padding {
		access += rand.Text()
	}
	given["access_token"], given["id_token"] = access, p.sign(claims)
	p.state.Tokens[access] = true
	if p.state.Offline {
		refresh := "refresh-" + rand.Text()
		given["refresh_token"], p.state.Tokens[refresh] = refresh, true
	}
	p.answer(w, given)
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	if token := r.Header.Get("Authorization"); len(token) < 8 || !p.state.Tokens[token[len("Bearer "):]] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	p.answer(w, p.state.Claims)
}

func (*Provider) refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"error":"invalid_grant"}`)) // the client may have left
}

func (p *Provider) sign(claims map[string]any) string {
	key := p.key
	if p.state.Other {
		key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // it fails only where there is no randomness
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		panic(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return compact
}

func (*Provider) answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may have left
}
