package celltest

import (
	"context"
	"net/url"
	"testing"
)

// citusEnv names the connection string of a Citus coordinator, whose database has schema-based sharding on:
// each test then has a distributed schema of its own there.
const citusEnv = "FORGEQUEUE_TEST_CITUS"

func distributed(tb testing.TB, coordinator string) string {
	tb.Helper()
	schema := unique("t")
	u, err := url.Parse(coordinator)
	if err != nil {
		tb.Fatalf("celltest: %s: %v", citusEnv, err)
	}
	given := u.Query()
	given.Set("search_path", schema)
	u.RawQuery = given.Encode()
	store := OpenURL(tb, u.String())
	tb.Cleanup(func() {
		if err := execute(context.WithoutCancel(tb.Context()), coordinator, "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			tb.Errorf("celltest: drop: %v", err)
		}
	})
	if _, err := store.Migrate(tb.Context()); err != nil {
		tb.Fatalf("celltest: migrate: %v", err)
	}
	return u.String()
}
