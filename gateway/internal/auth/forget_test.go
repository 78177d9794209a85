package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestForgetLimitsAndAll(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	on := func(tenant, plan string) string {
		return c.add(func(k *api.HopKey) {
			k.Tenant = tenant
			if plan != "" {
				k.Plan = &api.Plan{Name: plan}
			}
		}).Text()
	}
	keys := []string{on("t1", "free"), on("t1", "free"), on("t2", "free"), on("t3", "standard"), on("t4", "")}
	looksUp := func(what string, want int64) {
		t.Helper()
		before := c.asked.Load()
		for _, key := range keys {
			if _, err := a.Authenticate(t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.asked.Load() - before; got != want {
			t.Errorf("%s: %d look-ups, want %d", what, got, want)
		}
	}
	looksUp("at first", 5)
	looksUp("again", 0)
	for what, test := range map[string]struct {
		whose api.LimitsChanged
		want  int64
	}{
		"a tenant": {api.LimitsChanged{Tenant: "t1"}, 2}, "a plan": {api.LimitsChanged{Plan: "free"}, 3},
		"both": {api.LimitsChanged{Tenant: "t3", Plan: "free"}, 4}, "unknown": {api.LimitsChanged{Tenant: "x", Plan: "y"}, 0}, "nothing": {api.LimitsChanged{}, 0},
	} {
		a.ForgetLimits(test.whose)
		looksUp(what, test.want)
	}
	a.ForgetAll()
	looksUp("all", 5)
}

// Limits that changed during a look-up must not be remembered as they were.
func TestForgetLimitsDuringALookUp(t *testing.T) {
	t.Parallel()
	for what, forget := range map[string]func(*auth.Authenticator){
		"limits": func(a *auth.Authenticator) { a.ForgetLimits(api.LimitsChanged{Tenant: "t1"}) },
		"all":    (*auth.Authenticator).ForgetAll,
	} {
		c := newCore()
		c.entered, c.release = make(chan struct{}), make(chan struct{})
		a := c.authenticator()
		key := c.add(func(k *api.HopKey) { k.Plan = &api.Plan{Name: "old"} })
		plan := func() string {
			caller, err := a.Authenticate(t.Context(), key.Text(), nil)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return ""
			}
			return caller.Key.Plan.Name
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			plan() // it began before the change: either answer is right
		}()
		<-c.entered
		c.set(func() {
			changed := c.keys[key.ID]
			changed.Plan = &api.Plan{Name: "new"}
			c.keys[key.ID] = changed
		})
		forget(a)
		// Who asks now does not wait for the look-up from before.
		second := make(chan string, 1)
		go func() { second <- plan() }()
		<-c.entered
		close(c.release)
		<-done
		if got := <-second; got != "new" {
			t.Errorf("%s: %q to who asked after the change", what, got)
		}
		go func() { // if it is looked up once more
			select {
			case <-c.entered:
			case <-t.Context().Done():
			}
		}()
		if got := plan(); got != "new" {
			t.Errorf("%s: %q is remembered", what, got)
		}
	}
}

// Who may have invented a key is a stranger, and asked about before core is. A key
// that was good before is none, nor one that is signed, nor the operator's.
func TestStrangers(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	key := c.add(nil)
	refused := errors.New("no strangers")
	ask := func(what, credential string, want error) {
		t.Helper()
		asked := c.asked.Load()
		_, err := a.Authenticate(t.Context(), credential, func() error { return refused })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if want == refused && c.asked.Load() != asked { //nolint:errorlint // it is ours
			t.Errorf("%s: core was asked", what)
		}
	}
	ask("one that was never looked up", key.Text(), refused)
	if _, err := a.Authenticate(t.Context(), key.Text(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	ask("one that is remembered", key.Text(), nil)
	wrong := auth.Key{Env: "live", ID: key.ID, Secret: strings.Repeat("x", 27)}.Text()
	ask("another secret", wrong, auth.ErrUnauthenticated)
	ask("the operator key", operatorKey, nil)
	ask("nothing", "", auth.ErrUnauthenticated)
	c.pass(time.Hour)
	ask("another secret, of a key whose look-up is old", wrong, refused)
	ask("one whose look-up is old", key.Text(), nil)
	a.ForgetAll()
	ask("one that was forgotten", key.Text(), nil)
	c.set(func() { delete(c.keys, key.ID) })
	a.ForgetAll()
	ask("one that was revoked", key.Text(), auth.ErrUnauthenticated)
	c.pass(time.Minute)
	ask("one that is there no longer", key.Text(), refused)

	signed := auth.Mint("live").Signed(keySecret)
	ask("a signed one that core does not know", signed.Text(), auth.ErrUnauthenticated)
	forged := auth.Mint("live").Signed([]byte("somebody else's secret, of 32 bytes or more"))
	ask("one that somebody else has signed", forged.Text(), refused)
	moved := signed
	moved.ID = auth.Mint("live").ID
	ask("a signature of another key", moved.Text(), refused)
}
