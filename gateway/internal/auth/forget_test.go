package auth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestForgetLimitsAndAll(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	on := func(tenant, plan string) string {
		return c.add(func(k *hop.KeyRecord) {
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
			if _, err := a.Authenticate(t.Context(), key); err != nil {
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
		whose hop.LimitsChanged
		want  int64
	}{
		"a tenant": {hop.LimitsChanged{Tenant: "t1"}, 2}, "a plan": {hop.LimitsChanged{Plan: "free"}, 3},
		"both": {hop.LimitsChanged{Tenant: "t3", Plan: "free"}, 4}, "unknown": {hop.LimitsChanged{Tenant: "x", Plan: "y"}, 0}, "nothing": {hop.LimitsChanged{}, 0},
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
		"limits": func(a *auth.Authenticator) { a.ForgetLimits(hop.LimitsChanged{Tenant: "t1"}) },
		"all":    (*auth.Authenticator).ForgetAll,
	} {
		c := newCore()
		c.entered, c.release = make(chan struct{}), make(chan struct{})
		a := c.authenticator()
		key := c.add(func(k *hop.KeyRecord) { k.Plan = &api.Plan{Name: "old"} })
		plan := func() string {
			caller, err := a.Authenticate(t.Context(), key.Text())
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

// Core is not asked for a key that no gateway with this key secret has made.
func TestInventedKeysAreNotLookedUp(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := c.authenticator()
	key := c.add(nil)
	refuse := func(what string, credential auth.Key, lookUps int64) {
		t.Helper()
		before := c.asked.Load()
		if _, err := a.Authenticate(t.Context(), credential.Text()); !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
		if asked := c.asked.Load() - before; asked != lookUps {
			t.Errorf("%s: %d look-ups, want %d", what, asked, lookUps)
		}
	}
	refuse("one that is not known", auth.Mint("live", keySecret), 1)
	refuse("one of another installation", auth.Mint("live", []byte("the key secret of another one, 32 bytes")), 0)
	moved := key
	moved.ID = auth.Mint("live", keySecret).ID
	refuse("a signature of another id", moved, 0)
	changed := key
	changed.Secret = strings.Repeat("x", 27) + key.Secret[27:]
	refuse("a signature of another secret", changed, 0)
	if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
		t.Error(err)
	}
}
