package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ErrUnauthenticated means that a credential is not valid: absent, malformed,
// unknown, revoked, expired, wrong. The response must not say which.
var ErrUnauthenticated = errors.New("auth: no valid credential")

const (
	// foundLife is how long a found key is cached: a revocation whose hint was lost
	// takes effect within it.
	foundLife = 30 * time.Second
	// missingLife bounds how long a new key may be refused because it was used before
	// it was stored.
	missingLife   = time.Second
	foundSize     = 10_000
	missingSize   = 10_000
	lookupTimeout = 5 * time.Second
)

// Lookup reads one key from core; found is false for an unknown, revoked or
// expired one.
type Lookup func(ctx context.Context, keyID string) (key hop.KeyRecord, found bool, err error)

// Options of an Authenticator.
type Options struct {
	// KeySecret is the HMAC secret of API keys, at least 32 bytes.
	KeySecret []byte
	// OperatorKey opens /v1/admin; empty is none.
	OperatorKey string
	Lookup      Lookup
	// LookupTenant reads, by a tenant's id, what a key has of its tenant. Nil: no person can act for one.
	LookupTenant Lookup
	// Now is time.Now if nil; tests set it.
	Now func() time.Time
}

// Authenticator authenticates callers. It is safe for concurrent use.
type Authenticator struct {
	macs     sync.Pool          // of hash.Hash: HMACs under the key secret
	operator *[sha256.Size]byte // hash of the operator key, nil where there is none
	lookup   Lookup
	tenant   Lookup
	now      func() time.Time
	found    *cache
	missing  *cache
	flights  singleflight.Group
	// forgets counts invalidations: a look-up that was under way during one may have
	// read the key as it was before, and is not cached.
	forgets atomic.Uint64
	holds   holds
}

// New makes an Authenticator.
func New(o Options) *Authenticator {
	a := &Authenticator{
		macs:    sync.Pool{New: func() any { return hmac.New(sha256.New, o.KeySecret) }},
		lookup:  o.Lookup,
		tenant:  o.LookupTenant,
		now:     o.Now,
		found:   newCache(foundSize, foundLife),
		missing: newCache(missingSize, missingLife),
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

// Caller is the principal, and for API keys the key as core has it.
type Caller struct {
	Principal hop.Principal
	// Key is nil for the operator. It is shared: never change it.
	Key *hop.KeyRecord
}

// Authenticate verifies a credential. It returns ErrUnauthenticated for one that
// is not valid, and any other error if core gave no answer: the response must not
// be 401 then.
// Core is asked only for a key that a gateway with this key secret has signed.
func (a *Authenticator) Authenticate(ctx context.Context, credential string) (Caller, error) {
	if a.isOperator(credential) {
		return Caller{Principal: hop.Principal{Kind: hop.PrincipalOperator}}, nil
	}
	presented, err := Parse(credential)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	if !a.signed(presented) {
		return Caller{}, ErrUnauthenticated
	}
	known, err := a.key(ctx, presented.ID)
	if err != nil {
		return Caller{}, fmt.Errorf("look up key %s: %w", presented.ID, err)
	}
	if !a.proves(presented, known) {
		return Caller{}, ErrUnauthenticated
	}
	return callerOf(known), nil
}

func callerOf(known *hop.KeyRecord) Caller {
	return Caller{Key: known, Principal: hop.Principal{
		Kind:   known.Kind,
		Tenant: known.Tenant,
		User:   known.User,
		Scopes: known.Scopes,
		KeyID:  known.KeyID,
	}}
}

// isOperator compares hashes, so that its time depends on neither content nor length.
func (a *Authenticator) isOperator(credential string) bool {
	if a.operator == nil {
		return false
	}
	sum := sha256.Sum256([]byte(credential))
	return hmac.Equal(sum[:], a.operator[:])
}

// proves compares even if the key is unknown, so that an unknown id takes as long
// as a wrong secret. An expired key counts as unknown, see ask.
func (a *Authenticator) proves(presented Key, known *hop.KeyRecord) bool {
	stored := make([]byte, sha256.Size)
	if known != nil {
		stored = known.SecretHMAC
	}
	mac := a.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool holds nothing else
	defer a.macs.Put(mac)
	equal := hmac.Equal(presented.sumBy(mac), stored)
	return known != nil && equal && isOfAPIKey(known)
}

// isOfAPIKey says that a stored key does not act as the operator, or for no tenant.
func isOfAPIKey(known *hop.KeyRecord) bool {
	tenant := known.Kind == hop.PrincipalTenant && known.Tenant != ""
	platform := known.Kind == hop.PrincipalPlatform && known.Tenant == ""
	return tenant || platform
}

// signed says whether a gateway with our secret has made the key.
func (a *Authenticator) signed(presented Key) bool {
	mac := a.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool holds nothing else
	defer a.macs.Put(mac)
	return presented.signedBy(mac)
}

// cached gives a key from the cache, nil for one that does not exist, and whether
// there is an entry.
func (a *Authenticator) cached(id string) (*hop.KeyRecord, bool) {
	now := a.now()
	if key, ok := a.found.get(id, now); ok {
		return key, true
	}
	_, ok := a.missing.get(id, now)
	return nil, ok
}

// key gives the key, nil if there is none; it asks core if it is not cached.
func (a *Authenticator) key(ctx context.Context, id string) (*hop.KeyRecord, error) {
	if key, ok := a.cached(id); ok {
		return key, nil
	}
	// One look-up a key at a time. It does not end with the caller that started it:
	// others wait for it too, and must not fail because the first has left.
	// A caller that comes after an invalidation does not join an earlier look-up.
	flight := a.flights.DoChan(id+"@"+strconv.FormatUint(a.forgets.Load(), 10), func() (any, error) {
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
		return landed.Val.(*hop.KeyRecord), nil //nolint:forcetypeassert // ask gives nothing else
	}
}

// ask reads the key from core and caches the answer.
func (a *Authenticator) ask(ctx context.Context, id string) (*hop.KeyRecord, error) {
	forgets, asked := a.forgets.Load(), a.now()
	tenant, isTenant := strings.CutPrefix(id, tenantPrefix)
	lookup := a.lookup
	if isTenant {
		lookup = a.tenant
	}
	key, found, err := lookup(ctx, strings.TrimPrefix(id, tenantPrefix))
	if err != nil {
		return nil, err
	}
	if isTenant && found && key.Tenant != tenant {
		return nil, fmt.Errorf("core answered for tenant %q", key.Tenant)
	}
	if !isTenant && found && key.KeyID != id {
		return nil, fmt.Errorf("core answered for key %q", key.KeyID)
	}
	if !found {
		a.found.drop(id)
		a.missing.put(id, nil, asked)
		return nil, nil
	}
	// Clocks are not compared: core's database gives the remaining life of the key as a
	// length, which is counted from the start of the look-up.
	if key.ExpiresInMS != nil {
		left := time.Duration(*key.ExpiresInMS) * time.Millisecond
		if left <= 0 {
			a.found.drop(id)
			return nil, nil
		}
		a.found.putFor(id, &key, asked, min(left, foundLife))
		return a.unlessForgotten(id, &key, forgets), nil
	}
	a.found.put(id, &key, asked)
	return a.unlessForgotten(id, &key, forgets), nil
}

// unlessForgotten removes a key that was revoked during its look-up from the cache.
// Forget counts first, then removes.
func (a *Authenticator) unlessForgotten(id string, key *hop.KeyRecord, forgets uint64) *hop.KeyRecord {
	if a.forgets.Load() != forgets {
		a.found.forget(id)
	}
	return key
}

// Forget invalidates a cached key, for one that was revoked or has just been made,
// and has the requests that it holds open checked again. For an unknown id it
// does nothing.
func (a *Authenticator) Forget(keyID string) {
	a.forgets.Add(1)
	a.found.forget(keyID)
	a.missing.forget(keyID)
	a.holds.look(keyID)
}

// ForgetLimits invalidates all cached keys of a tenant, or of a plan: their limits
// have changed, or the tenant was deleted. Requests that are held open are checked again.
func (a *Authenticator) ForgetLimits(whose hop.LimitsChanged) {
	a.forgets.Add(1)
	a.found.forgetWhere(func(key *hop.KeyRecord) bool {
		return (whose.Tenant != "" && key.Tenant == whose.Tenant) ||
			(whose.Plan != "" && key.Plan != nil && key.Plan.Name == whose.Plan)
	})
	a.holds.look() // the tenant may have been deleted
}

// ForgetAll invalidates every cached key: hints may have been missed.
func (a *Authenticator) ForgetAll() {
	a.forgets.Add(1)
	a.found.forgetWhere(func(*hop.KeyRecord) bool { return true })
	a.holds.look()
}
