package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

var updatePage = flag.Bool("update", false, "write the session in api-docs/mcp.md")

// The session that the page shows takes place: an agent looks for the cause of a job that waits, and of those that have failed.
func TestSessionOfThePage(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	c := cluster.Client(t, cluster.NewTenant(t, "page").Key)
	ctx := t.Context()
	for range 3 {
		id := stack.Submit(t, c, api.SubmitRequest{Type: "charge", Queue: "billing"})
		lease := stack.ClaimOne(t, c, "worker-1", "billing").LeaseToken
		if _, err := c.Fail(ctx, id, api.FailRequest{LeaseToken: lease, Permanent: true, Error: &api.JobError{Type: "CardExpired", Message: "the card has expired"}}); err != nil {
			t.Fatal(err)
		}
	}
	waits := stack.Submit(t, c, api.SubmitRequest{Type: "charge", Queue: "billing"})
	if _, err := c.PauseQueue(ctx, "billing"); err != nil {
		t.Fatal(err)
	}
	made, err := c.CreateOwnKey(ctx, api.KeyRequest{Scopes: []string{api.ScopeRead, api.ScopeManage}})
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, cluster.Gateways[0].URL, made.Secret)
	stack.Eventually(t, time.Minute, "the queue is paused", func() bool { return len(a.because(waits)) == 1 && a.because(waits)[0] == api.WhyPaused })

	var b strings.Builder
	b.WriteString("```text\n")
	show := func(tool string, arguments map[string]any, parts ...string) {
		t.Helper()
		var answer map[string]json.RawMessage
		a.use(tool, arguments, &answer)
		if len(parts) > 0 {
			for name := range answer {
				if name != parts[0] {
					delete(answer, name)
				}
			}
			var items []map[string]json.RawMessage
			if err := json.Unmarshal(answer[parts[0]], &items); err != nil {
				t.Fatal(err)
			}
			for i := range items {
				part := map[string]json.RawMessage{}
				for _, name := range parts[1:] {
					part[name] = items[i][name]
				}
				items[i] = part
			}
			answer[parts[0]], _ = json.Marshal(items)
		}
		asked, _ := json.Marshal(arguments)
		told, _ := json.Marshal(answer)
		fmt.Fprintf(&b, "> %s %s\n  %s\n", tool, asked, told)
	}
	show("list_jobs", map[string]any{"queue": "billing", "state": "queued"}, "items", "id", "type", "state")
	show("explain_job", map[string]any{"id": waits}, "because", "code", "detail", "frees")
	show("list_dead_letter_groups", map[string]any{"queue": "billing"}, "items", "queue", "type", "reason", "count", "fingerprint")
	show("count_redrive", map[string]any{"filter": map[string]any{"queue": "billing"}})
	b.WriteString("```\n")
	session := strings.ReplaceAll(b.String(), waits, "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001")

	path := stack.Repository("api-docs", "mcp.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- session: go test ./e2e -run TestSessionOfThePage -update -->\n", "<!-- end of session -->"
	before, rest, found := strings.Cut(string(page), from)
	written, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatal("api-docs/mcp.md has no place for the session")
	}
	if *updatePage {
		if err := os.WriteFile(path, []byte(before+from+session+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if written != session {
		t.Errorf("api-docs/mcp.md has another session than\n%s\nrun the test with -update", session)
	}
}
