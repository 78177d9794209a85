package store_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

// Each database has an identity of its own, which all its cores read alike, by a role without any privilege.
func TestIdentity(t *testing.T) {
	t.Parallel()
	databaseURL := celltest.URL(t)
	identity := func(databaseURL string) string {
		t.Helper()
		id, err := celltest.OpenURL(t, databaseURL).Identity(t.Context())
		if err != nil || id == "" {
			t.Fatalf("%q, %v", id, err)
		}
		return id
	}
	one := identity(databaseURL)
	if again := identity(databaseURL); again != one {
		t.Errorf("%s and %s are of one database", one, again)
	}
	direct, role := celltest.Connect(t, databaseURL), "identity_"+strings.ToLower(rand.Text())
	if _, err := direct.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN PASSWORD 'plain'`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = direct.Exec(context.WithoutCancel(t.Context()), `DROP ROLE `+role) })
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "plain")
	if plain := identity(u.String()); plain != one {
		t.Errorf("%s and %s are of one database, by two roles", one, plain)
	}
	if other := identity(celltest.URL(t)); other == one {
		t.Errorf("two databases are both %s", one)
	}
}
