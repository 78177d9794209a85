package e2e_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A PgBouncer that does not keep sessions is refused, with words. One that keeps them is refused until the role has the
// settings that core names, and then serves.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	database := stack.NewDatabase(t)
	if code, words := stack.Core(t, database, "migrate"); code != 0 {
		t.Fatal(words)
	}
	for _, mode := range []string{"transaction", "statement"} {
		code, words := stack.Core(t, stack.PgBouncer(t, database, mode), "verify")
		if code == 0 || !strings.Contains(words, "pool_mode=session") {
			t.Errorf("pool_mode = %s: exit code %d\n%s", mode, code, words)
		}
	}
	code, words := stack.Core(t, stack.PgBouncer(t, database, "session"), "verify")
	if code == 0 || !strings.Contains(words, "SET enable_seqscan = 'off'") {
		t.Fatalf("without the settings: exit code %d\n%s", code, words)
	}
	stack.PrepareForPgBouncer(t, database, words)
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: database, Through: func(database string) string {
		return stack.PgBouncer(t, database, "session") // a server's sessions that the first has keep what they have
	}})
	tenant := c.Client(t, c.NewTenant(t, "bounced").Key)
	id := stack.Submit(t, tenant, api.SubmitRequest{Type: "x"})
	job := stack.ClaimOne(t, tenant, "w", api.DefaultQueue)
	if _, err := tenant.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil || job.ID != id {
		t.Errorf("%s, %v", job.ID, err)
	}
}
