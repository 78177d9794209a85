package auth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var keySecret = []byte(strings.Repeat("k", 32))

const operatorKey = "the-operator-key-of-these-tests"

// core is what the Authenticator may ask, with a clock beside it.
type core struct {
	mu      sync.Mutex
	now     time.Time
	keys    map[string]hop.KeyRecord
	err     error
	asked   atomic.Int64
	entered chan struct{} // where set: each look-up says so here, then
	release chan struct{} // waits here
}

func newCore() *core {
	return &core{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), keys: map[string]hop.KeyRecord{}}
}

func (c *core) authenticator() *auth.Authenticator {
	return auth.New(auth.Options{KeySecret: keySecret, OperatorKey: operatorKey, Lookup: c.lookUp, Now: c.clock})
}

func (c *core) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *core) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *core) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *core) lookUp(_ context.Context, id string) (hop.KeyRecord, bool, error) {
	c.asked.Add(1)
	c.mu.Lock()
	key, found := c.keys[id]
	if key.ExpiresAt != nil { // as core's database does
		left := key.ExpiresAt.Sub(c.now).Milliseconds()
		key.ExpiresInMS = &left
	}
	err := c.err
	c.mu.Unlock()
	if c.entered != nil {
		c.entered <- struct{}{}
		<-c.release
	}
	return key, found, err
}

// add mints a key that core knows.
func (c *core) add(change func(*hop.KeyRecord)) auth.Key {
	key := auth.Mint("live", keySecret)
	known := hop.KeyRecord{KeyID: key.ID, Kind: hop.PrincipalTenant, SecretHMAC: key.HMAC(keySecret), Tenant: "t1", Scopes: []string{"read"}}
	if change != nil {
		change(&known)
	}
	c.set(func() { c.keys[key.ID] = known })
	return key
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	good := c.add(func(k *hop.KeyRecord) { k.User = "bob" })
	caller, err := a.Authenticate(t.Context(), good.Text())
	if err != nil {
		t.Fatal(err)
	}
	want := hop.Principal{Kind: "tenant", Tenant: "t1", User: "bob", KeyID: good.ID}
	got := caller.Principal
	if got.Kind != want.Kind || got.Tenant != want.Tenant || got.User != want.User || got.KeyID != want.KeyID || len(got.Scopes) != 1 {
		t.Fatalf("principal %+v", got)
	}
	caller, err = a.Authenticate(t.Context(), operatorKey)
	if err != nil || caller.Principal.Kind != hop.PrincipalOperator || caller.Key != nil {
		t.Fatalf("operator: %+v, %v", caller, err)
	}
}

func TestAuthenticateRefuses(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	good := c.add(nil)
	past := api.At(c.now)
	tests := map[string]string{
		"empty":               "",
		"not a key":           "Basic Zm9v",
		"unknown id":          auth.Mint("live", keySecret).Text(),
		"wrong secret":        auth.Key{Env: "live", ID: good.ID, Secret: strings.Repeat("x", 38)}.Text(),
		"expired":             c.add(func(k *hop.KeyRecord) { k.ExpiresAt = &past }).Text(),
		"no hmac stored":      c.add(func(k *hop.KeyRecord) { k.SecretHMAC = nil }).Text(),
		"a key as operator":   c.add(func(k *hop.KeyRecord) { k.Kind = hop.PrincipalOperator }).Text(),
		"a tenant key of one": c.add(func(k *hop.KeyRecord) { k.Tenant = "" }).Text(),
		"operator key cut":    operatorKey[:len(operatorKey)-1],
	}
	for name, credential := range tests {
		if _, err := a.Authenticate(t.Context(), credential); !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	without := auth.New(auth.Options{KeySecret: keySecret, Lookup: c.lookUp})
	if _, err := without.Authenticate(t.Context(), ""); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("an empty credential where no operator key is set: %v", err)
	}
}

func TestGarbageCostsNoLookUp(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	_, _ = a.Authenticate(t.Context(), "fq_live_abcdefghijklmnop_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa000000")
	if asked := c.asked.Load(); asked != 0 {
		t.Fatalf("core was asked %d times for a key with a wrong checksum", asked)
	}
}

func TestCacheLives30SecondsAndMissesOne(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	key := c.add(nil)
	use := func(text string, want error, asked int64) {
		t.Helper()
		if _, err := a.Authenticate(t.Context(), text); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if got := c.asked.Load(); got != asked {
			t.Errorf("core was asked %d times, want %d", got, asked)
		}
	}
	use(key.Text(), nil, 1)
	c.set(func() { delete(c.keys, key.ID) }) // revoked, and the hint is lost
	c.pass(29 * time.Second)
	use(key.Text(), nil, 1)
	c.pass(time.Second)
	use(key.Text(), auth.ErrUnauthenticated, 2)
	use(key.Text(), auth.ErrUnauthenticated, 2)
	c.pass(time.Second)
	use(key.Text(), auth.ErrUnauthenticated, 3)
}

func TestExpiryIsJudgedAtEachUse(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	soon := api.At(c.now.Add(time.Second))
	key := c.add(func(k *hop.KeyRecord) { k.ExpiresAt = &soon })
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Second)
	if _, err := a.Authenticate(t.Context(), key.Text()); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Fatalf("a key that ran out while remembered: %v", err)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	key := c.add(nil)
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
		t.Fatal(err)
	}
	c.set(func() { delete(c.keys, key.ID) })
	a.Forget(key.ID)
	if _, err := a.Authenticate(t.Context(), key.Text()); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Fatalf("a forgotten key still works: %v", err)
	}
}

// A look-up that read the key before it was revoked must not bring it back.
func TestForgetDuringALookUp(t *testing.T) {
	t.Parallel()
	c := newCore()
	c.entered, c.release = make(chan struct{}), make(chan struct{})
	a := c.authenticator()
	key := c.add(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = a.Authenticate(t.Context(), key.Text()) // it began before the revocation: either answer is right
	}()
	<-c.entered
	c.set(func() { delete(c.keys, key.ID) })
	a.Forget(key.ID)
	close(c.release)
	<-done
	go func() { <-c.entered }()
	if _, err := a.Authenticate(t.Context(), key.Text()); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Fatalf("a revoked key was remembered: %v", err)
	}
}

func TestOneFlightAKey(t *testing.T) {
	t.Parallel()
	c := newCore()
	c.entered, c.release = make(chan struct{}), make(chan struct{})
	a := c.authenticator()
	key := c.add(nil)
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := a.Authenticate(ctx, key.Text())
		first <- err
	}()
	<-c.entered
	var others sync.WaitGroup
	for range 20 {
		others.Go(func() {
			if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
				t.Errorf("one that waited: %v", err)
			}
		})
	}
	leave() // the one that started the look-up must not take the others along
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	close(c.release)
	others.Wait()
	if asked := c.asked.Load(); asked != 1 {
		t.Fatalf("core was asked %d times", asked)
	}
}

func TestCoreAwayIsNot401(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	key := c.add(nil)
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
		t.Fatal(err)
	}
	away := errors.New("connection refused")
	c.set(func() { c.err = away })
	c.pass(29 * time.Second)
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
		t.Fatalf("a remembered key while core is away: %v", err)
	}
	c.pass(time.Second)
	for range 2 { // an error is not remembered as a missing key
		_, err := a.Authenticate(t.Context(), key.Text())
		if !errors.Is(err, away) || errors.Is(err, auth.ErrUnauthenticated) {
			t.Fatalf("a stale key while core is away: %v", err)
		}
	}
	c.set(func() { c.err = nil })
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
		t.Fatalf("core is back: %v", err)
	}
}

func TestAFloodOfUnknownKeysKeepsRealOnes(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	key := c.add(nil)
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
		t.Fatal(err)
	}
	for range 12_000 {
		_, _ = a.Authenticate(t.Context(), auth.Mint("live", keySecret).Text())
	}
	asked := c.asked.Load()
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil || c.asked.Load() != asked {
		t.Fatalf("the real key was pushed out: %v, asked %d", err, c.asked.Load()-asked)
	}
}
