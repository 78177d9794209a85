package console_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// visitor is a browser without scripts.
type visitor struct {
	testing.TB

	url    string
	client *http.Client
}

func visit(t testing.TB, server, key string) *visitor {
	t.Helper()
	v := nobody(t, server)
	if status, body := v.post("/console/sign-in", "key", key); status != http.StatusOK {
		t.Fatalf("sign-in: %d %s", status, body)
	}
	return v
}

// nobody is one who is not signed in.
func nobody(t testing.TB, server string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{} // the usual one is held to the document of the API
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t, server, &http.Client{Jar: jar, Transport: transport}}
}

func (v *visitor) send(request *http.Request, err error) (int, string) {
	v.Helper()
	if err != nil {
		v.Fatal(err)
	}
	response, err := v.client.Do(request)
	if err != nil {
		v.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		v.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (v *visitor) get(path string) (int, string) {
	v.Helper()
	return v.send(http.NewRequestWithContext(v.Context(), http.MethodGet, v.url+path, nil))
}

// post sends a form of the session's; fields are name, value.
func (v *visitor) post(path string, fields ...string) (int, string) {
	v.Helper()
	values := url.Values{}
	if path != "/console/sign-in" {
		_, page := v.get("/console/session")
		if found := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page); found != nil {
			values.Set("form", found[1])
		}
	}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	request, err := http.NewRequestWithContext(v.Context(), http.MethodPost, v.url+path, strings.NewReader(values.Encode()))
	if err == nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", v.url)
	}
	return v.send(request, err)
}

// Every page of one tenant's things is empty or not there for another, and no form of another changes them.
func TestTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	acme := fill(t, c, c.NewTenant(t, "acme"))
	server := c.Gateways[0].URL
	owner, other := visit(t, server, acme.tenant.Key), visit(t, server, c.NewTenant(t, "other").Key)
	for _, one := range acme.pages() {
		page := one.path
		status, text := owner.get(page)
		if status != http.StatusOK || !strings.Contains(text, "<h1") {
			t.Errorf("the owner's %s: %d %s", page, status, text)
		}
		status, text = other.get(page)
		asked := strings.NewReplacer(url.QueryEscape(marker), "", marker, "").Replace(page)
		if status != http.StatusOK && status != http.StatusNotFound {
			t.Errorf("another's %s: %d", page, status)
		}
		// What was asked for may be repeated in a filter; nothing else of it.
		if asked == page && strings.Contains(text, marker) || strings.Contains(text, "SMTPError") || strings.Contains(text, "message_id") {
			t.Errorf("another sees %s: %s", page, text)
		}
	}
	for path, actions := range map[string][]string{
		"/console/jobs/" + acme.waiting: {"cancel"}, "/console/jobs/" + acme.dead: {"redrive", "rerun", "discard"}, "/console/jobs/" + acme.completed: {"rerun", "forget"},
		"/console/workflows/" + acme.workflow: {"cancel", "redrive"}, "/console/schedules/" + schedule: {"pause", "resume", "trigger", "delete"},
		"/console/keys/" + acme.key: {"revoke"}, "/console/budgets/" + budget: {"settings", "delete"},
	} {
		for _, do := range actions {
			if status, text := other.post(path, "do", do); status != http.StatusNotFound {
				t.Errorf("another's %s of %s: %d %s", do, path, status, text)
			}
		}
	}
	if status, text := other.post("/console/jobs/"+acme.scheduled+"/change", "priority", "9"); status != http.StatusNotFound {
		t.Errorf("another's change: %d %s", status, text)
	}
	if status, text := other.post("/console/jobs/"+acme.asking, "do", "signal", "name", "approved"); status != http.StatusNotFound {
		t.Errorf("another's signal: %d %s", status, text)
	}
	spoken := "/console/jobs/" + acme.spoken(t, c)
	if status, text := owner.get(spoken + "/output"); status != http.StatusOK || text != "page 1 of 3\npage 2 is empty\n" {
		t.Errorf("the owner's output: %d %s", status, text)
	}
	for _, path := range []string{spoken, spoken + "/output", spoken + "/output?after=0.0", spoken + "/events"} {
		if status, text := other.get(path); status != http.StatusNotFound || strings.Contains(text, "of 3") {
			t.Errorf("another's %s: %d %s", path, status, text)
		}
	}
	for id, want := range map[string]string{acme.waiting: api.StateQueued, acme.asking: api.StateWaiting, acme.dead: api.StateDeadLetter, acme.completed: api.StateCompleted} {
		if job := stack.Get(t, acme.client, id); job.State != want {
			t.Errorf("the job %s is %s, and was %s", id, job.State, want)
		}
	}
	if status, text := other.post("/console/dead-letters", "do", "redrive", "fingerprint", acme.fingerprint); status != http.StatusOK || !strings.Contains(text, "0 of 0") {
		t.Errorf("a redrive of none: %d %s", status, text)
	}
	if job := stack.Get(t, acme.client, acme.dead); job.State != api.StateDeadLetter {
		t.Error("another has redriven it")
	}
}

// A key that only reads may open all that it sees, and change nothing.
func TestAReaderChangesNothing(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	acme := fill(t, c, c.NewTenant(t, "acme"))
	operator := c.Client(t, stack.Operator)
	key, err := operator.CreateKey(t.Context(), acme.tenant.ID, api.KeyRequest{Scopes: []string{api.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	reader := visit(t, c.Gateways[0].URL, key.Secret)
	for _, one := range acme.pages() {
		page := one.path
		status, text := reader.get(page)
		if strings.HasPrefix(page, "/console/audit") || strings.HasPrefix(page, "/console/keys") || strings.HasPrefix(page, "/console/dead-letters/confirm") || strings.HasPrefix(page, "/console/bulk/confirm") || strings.HasSuffix(page, "/change") {
			if status != http.StatusForbidden {
				t.Errorf("%s: %d", page, status)
			}
			continue
		}
		if status != http.StatusOK || strings.Contains(text, `name="do"`) || strings.Contains(text, `do=redrive`) {
			t.Errorf("%s: %d %s", page, status, text)
		}
	}
	for path, actions := range map[string][]string{
		"/console/queues/" + queue:      {"pause", "resume", "settings", "probe", "delete"},
		"/console/jobs/" + acme.waiting: {"cancel"}, "/console/jobs/" + acme.asking: {"signal"}, "/console/jobs/" + acme.dead: {"redrive", "rerun", "discard"}, "/console/jobs/" + acme.completed: {"forget"},
		"/console/jobs/" + acme.scheduled + "/change": {""}, "/console/workflows/" + acme.workflow: {"cancel", "redrive"}, "/console/schedules/" + schedule: {"pause", "resume", "trigger", "delete"},
		"/console/dead-letters": {"redrive", "discard"}, "/console/bulk": {"cancel", "run_now", "rerun", "delete"}, "/console/keys": {""}, "/console/budgets/" + budget: {"settings", "delete"}, "/console/keys/" + acme.key: {"revoke"},
	} {
		for _, do := range actions {
			if status, text := reader.post(path, "do", do); status != http.StatusForbidden || !strings.Contains(text, "The key lacks the scope") {
				t.Errorf("%s of %s: %d %s", do, path, status, text)
			}
		}
	}
	if keys, err := acme.client.OwnKeys(t.Context(), client.PageRequest{}); err != nil || len(keys.Items) != 3 {
		t.Errorf("its keys are %+v, %v", keys.Items, err)
	}
	for _, path := range []string{"/console/admin/tenants", "/console/admin/installation"} {
		if status, _ := reader.get(path); status != http.StatusForbidden {
			t.Errorf("the operator's page %s: %d", path, status)
		}
	}
}

// The operator makes a tenant and a key here, which signs in; and revokes it, which ends its session.
func TestTheOperatorsPages(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	server := c.Gateways[0].URL
	operator := visit(t, server, stack.Operator)
	status, page := operator.post("/console/admin/tenants", "name", "made-here", "plan", "unlimited", "weight", "2")
	made := regexp.MustCompile(`/console/admin/tenants/([0-9a-f-]{36})/keys`).FindStringSubmatch(page)
	if status != http.StatusOK || made == nil || !strings.Contains(page, "made-here") {
		t.Fatalf("%d %s", status, page)
	}
	at := "/console/admin/tenants/" + made[1]
	status, page = operator.post(at+"/keys", "scope", "read", "days", "3")
	key := regexp.MustCompile(`fq_live_[0-9A-Za-z]+_[0-9A-Za-z]+`).FindString(page)
	if status != http.StatusOK || key == "" {
		t.Fatalf("%d %s", status, page)
	}
	if _, page = operator.get(at); strings.Contains(page, key) {
		t.Error("the key is shown again")
	}
	owner := visit(t, server, key)
	if status, _ = owner.get("/console/queues"); status != http.StatusOK {
		t.Error(status)
	}
	if status, page = operator.post(at, "do", "revoke", "key_id", strings.Split(key, "_")[2]); status != http.StatusOK {
		t.Fatalf("%d %s", status, page)
	}
	stack.Eventually(t, time.Minute, "the end of the session", func() bool {
		_, page := owner.get("/console/queues")
		return strings.Contains(page, "Your key is no longer valid")
	})
	if status, page = operator.post("/console/admin/plans", "name", "small-made-here", "max_active", "100", "jobs_per_second", "2.5", "visibility_timeout_max", "90"); status != http.StatusOK ||
		!strings.Contains(page, "small-made-here") || !strings.Contains(page, "2.5 a second") || !strings.Contains(page, "1\u00a0min 30\u00a0s") {
		t.Errorf("%d %s", status, page)
	}
	if status, page = operator.post("/console/admin/plans", "name", "small-made-here", "max_active", "1"); status != http.StatusBadRequest || !strings.Contains(page, "a plan has this name") {
		t.Errorf("a plan is replaced by a slip: %d %s", status, page)
	}
	if status, page = operator.post("/console/admin/plans/small-made-here", "max_active", "many"); status != http.StatusBadRequest || !strings.Contains(page, "is not a whole number") {
		t.Errorf("%d %s", status, page)
	}
	if status, page = operator.post("/console/admin/plans/small-made-here", "max_active", "4711"); status != http.StatusOK || !strings.Contains(page, "4\u202f711") || strings.Contains(page, "2.5 a second") {
		t.Errorf("%d %s", status, page)
	}
	if status, page = operator.post(at, "do", "limits", "max_running", "37"); status != http.StatusOK || !strings.Contains(page, "In place of the plan") || !strings.Contains(page, `value="37"`) {
		t.Errorf("%d %s", status, page)
	}
	if status, page = operator.get("/console/admin/installation"); status != http.StatusOK || !strings.Contains(page, "PostgreSQL 1") || !strings.Contains(page, "core: ok") || !strings.Contains(page, "has not run") {
		t.Errorf("%d %s", status, page)
	}
	for _, path := range []string{"/console/admin/tenants", at, "/console/admin/plans", "/console/admin/audit", "/console/session"} {
		if status, page := operator.get(path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, page)
		}
	}
	if status, _ := operator.get("/console/queues"); status != http.StatusForbidden {
		t.Errorf("a tenant's page: %d", status)
	}
}

// Signing out everywhere ends the sessions of other browsers at other gateways, and leaves the key valid.
func TestSignOutEverywhere(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	tenant := c.NewTenant(t, "acme")
	here, there := visit(t, c.Gateways[0].URL, tenant.Key), visit(t, c.Gateways[1].URL, tenant.Key)
	if status, page := here.post("/console/sign-out-everywhere"); status != http.StatusOK || !strings.Contains(page, "You are signed out") {
		t.Fatalf("%d %s", status, page)
	}
	stack.Eventually(t, time.Minute, "the end of the other browser's session", func() bool {
		_, page := there.get("/console/queues")
		return strings.Contains(page, "Your key has signed out everywhere")
	})
	if status, page := visit(t, c.Gateways[1].URL, tenant.Key).get("/console/queues"); status != http.StatusOK || !strings.Contains(page, "<h1>Queues") {
		t.Errorf("a session of now: %d %s", status, page)
	}
	log, err := c.Client(t, tenant.Key).Audit(t.Context(), api.AuditFilter{Action: api.AuditSessionsEnd}, client.PageRequest{})
	if err != nil || len(log.Items) != 1 || *log.Items[0].Actor.KeyID != *log.Items[0].Object {
		t.Errorf("the audit log: %+v %v", log.Items, err)
	}
}
