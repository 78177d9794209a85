package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// who may call what; a route that is not here fails TestEveryRouteIsInTheTable.
var table = map[string]struct {
	scope    string // a tenant key needs it; "-" is none, "" keeps tenant keys out
	or       string // does as well
	platform bool
	operator bool
	public   bool
	unbound  bool // keeps user-bound keys out
	linked   bool // takes the token of a signal's link, see TestSignalLinks
}{
	"GET /":                                  {public: true},
	"GET /docs":                              {public: true},
	"GET /docs/":                             {public: true},
	"GET /docs/{file}":                       {public: true},
	"GET /problems/{code}":                   {public: true},
	"GET /livez":                             {public: true},
	"GET /readyz":                            {public: true},
	"POST /v1/jobs":                          {scope: "submit"},
	"POST /v1/jobs/batch":                    {scope: "submit"},
	"GET /v1/jobs":                           {scope: "read"},
	"GET /v1/jobs/{id}":                      {scope: "read"},
	"DELETE /v1/jobs/{id}":                   {scope: "manage"},
	"GET /v1/jobs/{id}/attempts":             {scope: "read"},
	"GET /v1/jobs/{id}/output":               {scope: "read"},
	"GET /v1/jobs/{id}/explain":              {scope: "read"},
	"GET /v1/jobs/{id}/events":               {scope: "read"},
	"POST /v1/jobs/{id}/events-token":        {scope: "read"},
	"GET /v1/users/{user}/export":            {scope: "read"},
	"GET /v1/jobs/{id}/parents":              {scope: "read", or: "work", platform: true},
	"POST /v1/workflows":                     {scope: "submit"},
	"GET /v1/workflows":                      {scope: "read"},
	"GET /v1/workflows/{id}":                 {scope: "read"},
	"POST /v1/workflows/{id}/jobs":           {scope: "submit"},
	"POST /v1/workflows/{id}/cancel":         {scope: "submit"},
	"POST /v1/workflows/{id}/redrive":        {scope: "manage"},
	"POST /v1/jobs/{id}/cancel":              {scope: "submit"},
	"POST /v1/jobs/{id}/signals":             {scope: "submit"},
	"POST /v1/jobs/{id}/signal-links":        {scope: "submit"},
	"GET /v1/signal-links/{token}":           {linked: true},
	"POST /v1/signal-links/{token}":          {linked: true},
	"PATCH /v1/jobs/{id}":                    {scope: "submit"},
	"POST /v1/jobs/{id}/rerun":               {scope: "submit"},
	"POST /v1/jobs/{id}/redrive":             {scope: "manage"},
	"POST /v1/jobs/{id}/complete":            {scope: "work", platform: true},
	"POST /v1/jobs/{id}/fail":                {scope: "work", platform: true},
	"POST /v1/jobs/{id}/snooze":              {scope: "work", platform: true},
	"POST /v1/jobs/{id}/wait":                {scope: "work", platform: true},
	"POST /v1/jobs/{id}/output":              {scope: "work", platform: true},
	"POST /v1/jobs/{id}/release":             {scope: "work", platform: true},
	"POST /v1/outcomes":                      {scope: "work", platform: true},
	"POST /v1/workers":                       {scope: "work", platform: true},
	"POST /v1/workers/{worker_id}/heartbeat": {scope: "work", platform: true},
	"DELETE /v1/workers/{worker_id}":         {scope: "work", platform: true},
	"GET /v1/workers":                        {scope: "read", platform: true, unbound: true},
	"POST /v1/claims":                        {scope: "work", platform: true},
	"GET /v1/queues":                         {scope: "read", unbound: true},
	"GET /v1/queues/{name}/keys":             {scope: "read", unbound: true},
	"GET /v1/queues/{name}":                  {scope: "read", unbound: true},
	"GET /v1/queues/{name}/scale":            {scope: "read", unbound: true},
	"PUT /v1/queues/{name}":                  {scope: "manage", unbound: true},
	"DELETE /v1/queues/{name}":               {scope: "manage", unbound: true},
	"POST /v1/queues/{name}/pause":           {scope: "manage", unbound: true},
	"POST /v1/queues/{name}/resume":          {scope: "manage", unbound: true},
	"POST /v1/queues/{name}/probe":           {scope: "manage", unbound: true},
	"GET /v1/stats":                          {scope: "read", unbound: true},
	"GET /v1/limits/stats":                   {scope: "read", unbound: true},
	"GET /v1/usage":                          {scope: "read", unbound: true},
	"GET /v1/dead-letters":                   {scope: "read"},
	"GET /v1/dead-letters/groups":            {scope: "read"},
	"POST /v1/bulk":                          {scope: "manage"},
	"GET /v1/bulk":                           {scope: "read"},
	"GET /v1/bulk/{id}":                      {scope: "read"},
	"POST /v1/bulk/{id}/cancel":              {scope: "manage"},
	"GET /v1/redrives":                       {scope: "read"},
	"GET /v1/redrives/{id}":                  {scope: "read"},
	"POST /v1/redrives/{id}/cancel":          {scope: "manage"},
	"GET /v1/schedules":                      {scope: "read"},
	"GET /v1/schedules/{name}":               {scope: "read"},
	"PUT /v1/schedules/{name}":               {scope: "manage"},
	"DELETE /v1/schedules/{name}":            {scope: "manage"},
	"POST /v1/schedules/{name}/pause":        {scope: "manage"},
	"POST /v1/schedules/{name}/resume":       {scope: "manage"},
	"POST /v1/schedules/{name}/trigger":      {scope: "manage"},
	"GET /v1/schedules/{name}/runs":          {scope: "read"},
	"GET /v1/types":                          {scope: "read"},
	"GET /v1/types/{type}":                   {scope: "read"},
	"GET /v1/types/{type}/versions":          {scope: "read"},
	"PUT /v1/types/{type}":                   {scope: "manage", unbound: true},
	"DELETE /v1/types/{type}":                {scope: "manage", unbound: true},
	"GET /v1/openapi":                        {scope: "read"},
	"GET /v1/budgets":                        {scope: "read", unbound: true},
	"GET /v1/budgets/{name}":                 {scope: "read", unbound: true},
	"PUT /v1/budgets/{name}":                 {scope: "manage", unbound: true},
	"DELETE /v1/budgets/{name}":              {scope: "manage", unbound: true},
	"GET /v1/budgets/{name}/usage":           {scope: "read", unbound: true},
	"GET /v1/webhooks":                       {scope: "read", unbound: true},
	"GET /v1/webhooks/{name}":                {scope: "read", unbound: true},
	"PUT /v1/webhooks/{name}":                {scope: "manage", unbound: true},
	"DELETE /v1/webhooks/{name}":             {scope: "manage", unbound: true},
	"POST /v1/webhooks/{name}/rotate-secret": {scope: "manage", unbound: true},
	"POST /v1/webhooks/{name}/probe":         {scope: "manage", unbound: true},
	"POST /v1/webhooks/{name}/test":          {scope: "manage", unbound: true},
	"GET /v1/audit":                          {scope: "manage", unbound: true},
	"GET /v1/keys":                           {scope: "admin", unbound: true},
	"POST /v1/keys":                          {scope: "admin", unbound: true},
	"DELETE /v1/keys/{key_id}":               {scope: "admin", unbound: true},
	"GET /v1/admin/audit":                    {operator: true},
	"POST /v1/dead-letters/redrive":          {scope: "manage"},
	"POST /v1/dead-letters/discard":          {scope: "manage"},
	"GET /v1/whoami":                         {scope: "-", platform: true},
	"GET /v1/limits":                         {scope: "-"},
	"DELETE /v1/sessions":                    {scope: "-"},
	"POST /v1/admin/tenants":                 {operator: true},
	"GET /v1/admin/tenants":                  {operator: true},
	"GET /v1/admin/tenants/stats":            {operator: true},
	"GET /v1/admin/tenants/{id}":             {operator: true},
	"DELETE /v1/admin/tenants/{id}":          {operator: true},
	"PATCH /v1/admin/tenants/{id}":           {operator: true},
	"POST /v1/admin/tenants/{id}/keys":       {operator: true},
	"GET /v1/admin/tenants/{id}/keys":        {operator: true},
	"POST /v1/admin/platform-keys":           {operator: true},
	"DELETE /v1/admin/keys/{key_id}":         {operator: true},
	"GET /v1/admin/plans":                    {operator: true},
	"GET /v1/admin/plans/{name}":             {operator: true},
	"PUT /v1/admin/plans/{name}":             {operator: true},
	"GET /v1/admin/installation":             {operator: true},
}

// example fills a route's parameters in.
func example(route string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	return method, strings.NewReplacer("{id}", jobID, "{worker_id}", "w1", "{user}", "bob", "{key_id}", "abcdefghijkl", "{name}", "p", "{file}", "core.json").Replace(path)
}

func TestEveryRouteIsInTheTable(t *testing.T) {
	t.Parallel()
	routes := newDoor(t).server.Routes()
	seen := map[string]bool{}
	for _, route := range routes {
		seen[route] = true
		if _, ok := table[route]; !ok {
			t.Errorf("%s is not in the table", route)
		}
	}
	for route := range table {
		if !seen[route] {
			t.Errorf("%s is not in the router", route)
		}
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	callers := map[string]struct {
		key    string
		scopes string
		kind   string
	}{
		"submit":   {d.key("submit"), "submit", "tenant"},
		"read":     {d.key("read"), "read", "tenant"},
		"work":     {d.key("work"), "work", "tenant"},
		"manage":   {d.key("manage"), "manage", "tenant"},
		"admin":    {d.key("admin"), "admin", "tenant"},
		"platform": {d.platformKey(), "", "platform"},
		"operator": {operatorKey, "", "operator"},
	}
	for route, rule := range table {
		if rule.linked {
			continue
		}
		method, path := example(route)
		for name, caller := range callers {
			allowed := rule.public
			switch caller.kind {
			case "tenant":
				allowed = allowed || rule.scope == "-" || rule.scope == caller.scopes || rule.or == caller.scopes
			case "platform":
				allowed = allowed || rule.platform
			case "operator":
				allowed = allowed || rule.operator
			}
			got := d.do(method, path, caller.key, "")
			if forbidden := got.status == http.StatusForbidden; forbidden == allowed {
				t.Errorf("%s with the %s key: status %d", route, name, got.status)
			}
			if got.status != http.StatusForbidden {
				continue
			}
			p := got.refused(t, 403, problem.Forbidden)
			if caller.kind == "tenant" && rule.scope != "" && !strings.Contains(p.Detail, rule.scope) {
				t.Errorf("%s with the %s key does not name the scope: %s", route, name, p.Detail)
			}
		}
	}
}

// A user-bound key may do what its scopes say, but for what is the tenant's.
func TestAccessOfUserBoundKeys(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.keyWith(func(k *hop.KeyRecord) { k.Scopes, k.User = api.Scopes(), "bob" })
	for route, rule := range table {
		if rule.public || rule.operator || rule.linked {
			continue
		}
		method, path := example(route)
		if got := d.do(method, path, key, ""); (got.status == http.StatusForbidden) != rule.unbound {
			t.Errorf("%s: status %d %s", route, got.status, got.body)
		}
	}
}

func TestUnauthenticatedAnswersAreEqual(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	past := api.At(time.Now().Add(-time.Minute))
	good := d.key("submit", "read", "work")
	parsed, err := auth.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	revoked := auth.Mint("test", []byte(keySecret))
	credentials := map[string][]string{
		"none":           nil,
		"empty":          {"Bearer "},
		"no scheme":      {good},
		"other scheme":   {"Basic Zm9vOmJhcg=="},
		"unknown":        {"Bearer " + auth.Mint("test", []byte(keySecret)).Text()},
		"revoked":        {"Bearer " + revoked.Text()},
		"expired":        {"Bearer " + d.keyWith(func(k *hop.KeyRecord) { k.ExpiresAt, k.ExpiresInMS = &past, new(int64(-1)) })},
		"too short":      {"Bearer fq_test_a_b"},
		"wrong checksum": {"Bearer " + good[:len(good)-1]},
		"wrong secret":   {"Bearer " + auth.Key{Env: "test", ID: parsed.ID, Secret: strings.Repeat("z", 27)}.Text()},
		"two headers":    {"Bearer " + good, "Bearer " + good},
		"two keys":       {"Bearer " + good + ", Bearer " + good},
		"operator, cut":  {"Bearer " + operatorKey[1:]},
	}
	for route, rule := range table {
		if rule.public || rule.linked {
			continue
		}
		method, path := example(route)
		want := ""
		for name, values := range credentials {
			var headers []string
			for _, value := range values {
				headers = append(headers, "Authorization", value)
			}
			got := d.do(method, path, "", "", headers...)
			p := got.refused(t, 401, problem.Unauthenticated)
			if got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s, %s: WWW-Authenticate %q", route, name, got.header.Get("WWW-Authenticate"))
			}
			body := strings.ReplaceAll(string(got.body), p.RequestID, "ID")
			if want == "" {
				want = body
			}
			if body != want {
				t.Errorf("%s, %s: %s\nothers: %s", route, name, body, want)
			}
		}
	}
}

func TestWithoutOperatorKeyAdminDoesNotExist(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *httpapi.Options) { o.Admin = false })
	for route, rule := range table {
		if !rule.operator {
			continue
		}
		method, path := example(route)
		for _, key := range []string{"", operatorKey, d.key("manage")} {
			got := d.do(method, path, key, "")
			missing := d.do(method, "/v1/no-such-thing", key, "")
			p, q := got.refused(t, 404, problem.NotFound), missing.refused(t, 404, problem.NotFound)
			if p.Detail != q.Detail {
				t.Errorf("%s tells that it could exist: %s", route, p.Detail)
			}
		}
	}
}

func TestCoreAwayWhileAKeyIsLookedUp(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *httpapi.Options) {
		o.Auth = auth.New(auth.Options{KeySecret: []byte(keySecret), Lookup: away})
	})
	d.do("GET", "/v1/whoami", auth.Mint("test", []byte(keySecret)).Text(), "").refused(t, 503, problem.CoreUnavailable)
}

// Revocation through this gateway takes effect at once.
func TestRevokedKeyStopsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	parsed, err := auth.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.do("GET", "/v1/whoami", key, ""); got.status != 200 {
		t.Fatalf("status %d", got.status)
	}
	d.revoking()
	for range 2 {
		got := d.do("DELETE", "/v1/admin/keys/"+parsed.ID, operatorKey, "")
		if got.status != 204 || len(got.body) != 0 {
			t.Fatalf("status %d %s", got.status, got.body)
		}
	}
	d.do("GET", "/v1/whoami", key, "").refused(t, 401, problem.Unauthenticated)
	d.do("DELETE", "/v1/admin/keys/bad", operatorKey, "").refused(t, 404, problem.NotFound)
}

// away is a core that cannot be reached.
func away(context.Context, string) (hop.KeyRecord, bool, error) {
	return hop.KeyRecord{}, false, fmt.Errorf("%w: connection refused", cellclient.ErrUnavailable)
}

// revoking makes core take revocations.
func (d *door) revoking() {
	d.core.On(hop.RevokeKey.Path, func(item coretest.Item) coretest.Result {
		var request hop.ID
		if err := json.Unmarshal(item.Request, &request); err != nil {
			return coretest.Refuse(problem.InvalidJSON, err.Error())
		}
		d.core.RevokeKey(request.ID)
		return coretest.Result{Status: http.StatusNoContent}
	})
}
