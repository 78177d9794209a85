package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/forgequeue/forgequeue/shared/api"
)

// ErrUnauthenticated is every way in which a credential proves nobody: absent,
// malformed, unknown, revoked, expired, wrong. Callers must not be told which.
var ErrUnauthenticated = errors.New("auth: no valid credential")

const (
	// foundLife bounds how long a revocation whose hint was lost goes unnoticed.
	foundLife = 30 * time.Second
	// missingLife bounds how long a fresh key may be refused because somebody
	// asked for it too early.
	missingLife   = time.Second
	foundSize     = 10_000
	missingSize   = 10_000
	lookupTimeout = 5 * time.Second
)

// Lookup reads one key from core; found is false for an unknown, revoked or
// expired one.
type Lookup func(ctx context.Context, keyID string) (key api.HopKey, found bool, err error)

// Options of an Authenticator.
type Options struct {
	// KeySecret is the HMAC secret of API keys, at least 32 bytes.
	KeySecret []byte
	// OperatorKey opens /v1/admin; empty is none.
	OperatorKey string
	Lookup      Lookup
	// Now is time.Now if nil; tests set it.
	Now func() time.Time
}

// Authenticator proves callers. It is safe for concurrent use.
type Authenticator struct {
	keySecret []byte
	operator  *[sha256.Size]byte // hash of the operator key, nil where there is none
	lookup    Lookup
	now       func() time.Time
	found     *cache
	missing   *cache
	flights   singleflight.Group
	// forgets counts the calls of Forget: a look-up that was under way meanwhile
	// may have read the key before it was revoked, and is not remembered.
	forgets atomic.Uint64
}

// New makes an Authenticator.
func New(o Options) *Authenticator {
	a := &Authenticator{
		keySecret: o.KeySecret,
		lookup:    o.Lookup,
		now:       o.Now,
		found:     newCache(foundSize, foundLife),
		missing:   newCache(missingSize, missingLife),
	}
	if a.now == nil {
		a.now = time.Now
	}
	if o.OperatorKey != "" {
		sum := sha256.Sum256([]byte(o.OperatorKey))
		a.operator = &sum
	}
	return a
}

// Caller is who calls, and for API keys what core knows of the key.
type Caller struct {
	Principal api.Principal
	// Key is nil for the operator. It is shared: never change it.
	Key *api.HopKey
}

// Authenticate proves the holder of a credential. It gives ErrUnauthenticated
// for a credential that is no good, and any other error where core could not
// say: a caller must not be told 401 then.
func (a *Authenticator) Authenticate(ctx context.Context, credential string) (Caller, error) {
	if a.isOperator(credential) {
		return Caller{Principal: api.Principal{Kind: api.PrincipalOperator}}, nil
	}
	presented, err := Parse(credential)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	known, err := a.key(ctx, presented.ID)
	if err != nil {
		return Caller{}, fmt.Errorf("look up key %s: %w", presented.ID, err)
	}
	if !a.proves(presented, known) {
		return Caller{}, ErrUnauthenticated
	}
	return Caller{Key: known, Principal: api.Principal{
		Kind:   known.Kind,
		Tenant: known.Tenant,
		User:   known.User,
		Scopes: known.Scopes,
		KeyID:  known.KeyID,
	}}, nil
}

// isOperator compares hashes, so that neither content nor length shows in time.
func (a *Authenticator) isOperator(credential string) bool {
	if a.operator == nil {
		return false
	}
	sum := sha256.Sum256([]byte(credential))
	return hmac.Equal(sum[:], a.operator[:])
}

// proves compares even where no key is known, so that an unknown id takes as
// long as a wrong secret. The expiry is judged at each use, not at the look-up.
func (a *Authenticator) proves(presented Key, known *api.HopKey) bool {
	stored := make([]byte, sha256.Size)
	if known != nil {
		stored = known.SecretHMAC
	}
	equal := hmac.Equal(presented.HMAC(a.keySecret), stored)
	if known == nil || !equal {
		return false
	}
	// No key may act as the operator, or for no tenant, whatever is stored.
	tenant := known.Kind == api.PrincipalTenant && known.Tenant != ""
	platform := known.Kind == api.PrincipalPlatform && known.Tenant == ""
	if !tenant && !platform {
		return false
	}
	return known.ExpiresAt == nil || a.now().Before(known.ExpiresAt.Time)
}

// key gives the key, nil if there is none.
func (a *Authenticator) key(ctx context.Context, id string) (*api.HopKey, error) {
	now := a.now()
	if key, ok := a.found.get(id, now); ok {
		return key, nil
	}
	if _, ok := a.missing.get(id, now); ok {
		return nil, nil
	}
	// One flight a key. It is not bound to the caller that started it: others wait
	// for it as well, and must not fail because the first has left.
	flight := a.flights.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return a.ask(ctx, id)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case landed := <-flight:
		if landed.Err != nil {
			return nil, landed.Err
		}
		return landed.Val.(*api.HopKey), nil //nolint:forcetypeassert // ask gives nothing else
	}
}

// ask reads the key from core and remembers what it was told.
func (a *Authenticator) ask(ctx context.Context, id string) (*api.HopKey, error) {
	forgets, asked := a.forgets.Load(), a.now()
	key, found, err := a.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if found && key.KeyID != id {
		return nil, fmt.Errorf("core answered for key %q", key.KeyID)
	}
	if !found {
		a.missing.put(id, nil, asked)
		return nil, nil
	}
	a.found.put(id, &key, asked)
	if a.forgets.Load() != forgets { // asked after put: Forget counts first, then removes
		a.found.forget(id)
	}
	return &key, nil
}

// Forget drops what is remembered of a key, for one that was revoked or has just
// been made. Forgetting an unknown id does nothing.
func (a *Authenticator) Forget(keyID string) {
	a.forgets.Add(1)
	a.flights.Forget(keyID) // who asks from now on asks core again
	a.found.forget(keyID)
	a.missing.forget(keyID)
}
