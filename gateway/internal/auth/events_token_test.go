package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// An events token opens the stream of its job as its key, for a minute, and nothing else.
func TestEventsToken(t *testing.T) {
	t.Parallel()
	const job, other = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002"
	c := newCore()
	a := c.authenticator()
	key := c.add(func(k *hop.KeyRecord) { k.User = "bob" })
	second := c.add(nil)
	token, expires := a.EventsToken(key.ID, job)
	if life := expires.Sub(c.clock()); life != time.Minute {
		t.Errorf("it lives for %v", life)
	}
	caller, err := a.AuthenticateEvents(t.Context(), token, job)
	if err != nil || caller.Principal.KeyID != key.ID || caller.Principal.User != "bob" || caller.Key == nil {
		t.Fatalf("%+v, %v", caller, err)
	}
	refused := func(what string, by *auth.Authenticator, token, job string) {
		t.Helper()
		if _, err := by.AuthenticateEvents(t.Context(), token, job); !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
	parts := strings.Split(token, ".")
	refused("for another job", a, token, other)
	refused("for another key", a, strings.Join([]string{second.ID, parts[1], parts[2]}, "."), job)
	refused("for longer", a, strings.Join([]string{parts[0], parts[1] + "0", parts[2]}, "."), job)
	refused("with another secret", auth.New(auth.Options{KeySecret: []byte(strings.Repeat("x", 32)), Lookup: c.lookUp, Now: c.clock}), token, job)
	for _, malformed := range []string{"", ".", "..", "a.b.c", token + "A", parts[0] + "." + parts[1], key.Text()} {
		refused("malformed: "+malformed, a, malformed, job)
	}
	if _, err := a.Authenticate(t.Context(), token); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("as an API key: %v", err)
	}
	c.pass(time.Minute - time.Millisecond)
	if _, err := a.AuthenticateEvents(t.Context(), token, job); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	c.pass(time.Millisecond)
	refused("expired", a, token, job)
	token, _ = a.EventsToken(key.ID, job)
	c.set(func() { delete(c.keys, key.ID) })
	a.Forget(key.ID)
	refused("of a revoked key", a, token, job)
	c.set(func() { c.err = errors.New("core is away") })
	a.Forget(key.ID)
	if _, err := a.AuthenticateEvents(t.Context(), token, job); err == nil || errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("while core is away: %v", err)
	}
}
