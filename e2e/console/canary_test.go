package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// A redrive begins with a sample where the form has one, and its page says how far it is.
func TestARedriveWithASample(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	acme := fill(t, c, c.NewTenant(t, "acme"))
	owner := visit(t, c.Gateways[0].URL, acme.tenant.Key)
	if _, text := owner.get("/console/dead-letters/confirm?do=redrive&fingerprint=" + acme.fingerprint); !strings.Contains(text, `name="canary_count"`) {
		t.Errorf("the form has no sample: %s", text)
	}
	if _, text := owner.get("/console/dead-letters/confirm?do=discard&fingerprint=" + acme.fingerprint); strings.Contains(text, `name="canary_count"`) {
		t.Errorf("a discard has a sample: %s", text)
	}
	if _, text := owner.get("/console/dead-letters/confirm?do=discard&fingerprint=" + acme.fingerprint); !strings.Contains(text, "fingerprint "+acme.fingerprint) {
		t.Errorf("the question does not say which dead letters: %s", text)
	}
	if _, text := owner.get("/console/"); !strings.Contains(text, "have given up") || strings.Contains(text, "Nothing needs attention") {
		t.Errorf("the overview does not count dead letters: %s", text)
	}
	begin := func(count, percent string) (int, string) {
		t.Helper()
		return owner.post("/console/dead-letters", "do", "redrive", "fingerprint", acme.fingerprint, "canary_count", count, "canary_percent", percent)
	}
	for _, bad := range [][2]string{{"0", "90"}, {"5", "0"}, {"5", "101"}, {"5", ""}, {"many", "90"}} {
		if status, text := begin(bad[0], bad[1]); status == http.StatusOK && strings.Contains(text, "Sample of") {
			t.Errorf("%v: %d %s", bad, status, text)
		}
	}
	status, text := begin("5", "90")
	if status != http.StatusOK || !strings.Contains(text, "Sample of 5") || !strings.Contains(text, "90 % must complete") {
		t.Fatalf("%d %s", status, text)
	}
	redrives, err := acme.client.Redrives(t.Context(), client.PageRequest{})
	if err != nil || len(redrives.Items) != 1 {
		t.Fatalf("%+v, %v", redrives, err)
	}
	path := "/console/redrives/" + redrives.Items[0].ID
	stack.Eventually(t, time.Minute, "the page to show what is waited for", func() bool {
		_, text = owner.get(path)
		return strings.Contains(text, "1 have not ended")
	})
	for stack.Get(t, acme.client, acme.dead).State != api.StateDeadLetter {
		job := stack.ClaimOne(t, acme.client, marker+"-worker", queue)
		if _, err := acme.client.Fail(t.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Permanent: true, Error: &api.JobError{Message: "<still closed>"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, text := owner.get("/console/jobs/" + acme.dead); !strings.Contains(text, "<span>Dead</span>") || !strings.Contains(text, "<span>Redrive 1, attempt 1 failed</span>") {
		t.Errorf("the timeline of the redriven job: %s", text)
	}
	stack.Eventually(t, time.Minute, "the page to show why it stopped", func() bool {
		_, text = owner.get(path)
		return strings.Contains(text, "stopped") && strings.Contains(text, "it did not pass") && strings.Contains(text, "&lt;still closed&gt;")
	})
}
