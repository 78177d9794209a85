package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/e2e/contract"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Every filter of every list of the document is tried with each kind of key, in a tenant that has rows with all
// fields and rows with none: no answer is a 5xx, who may ask gets 200, and a filter by a field of the items finds
// those that the list without it has. A list or a filter that is new in the document is tried by itself.
func TestEveryFilterOfEveryList(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	document, err := contract.Load("gateway")
	if err != nil {
		t.Fatal(err)
	}
	l := newLists(t, c)
	tried := 0
	for path, item := range document.Paths.Map() {
		if item.Get == nil || !isList(item.Get) {
			continue
		}
		tried++
		for _, target := range l.targets(path, item.Get) {
			for kind, key := range l.keys {
				l.try(target, item.Get, kind, key)
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d lists are in the document", tried)
	}
}

// isList: what answers with items, or takes parameters; but streams.
func isList(get *openapi3.Operation) bool {
	if get.Responses.Status(http.StatusOK).Value.Content.Get("application/json") == nil {
		return false
	}
	return len(queryOf(get)) > 0
}

func queryOf(get *openapi3.Operation) (query []*openapi3.Parameter) {
	for _, one := range get.Parameters {
		if one.Value.In == openapi3.ParameterInQuery {
			query = append(query, one.Value)
		}
	}
	return query
}

const (
	operator   = "operator"
	platform   = "platform"
	unbound    = "tenant"
	userBound  = "user"
	otherBound = "user without rows"
)

// lists are the rows, and who asks for them.
type lists struct {
	*testing.T
	url  string
	keys map[string]string
	// ids are values of a path's {id}, by the path's second or third part.
	ids map[string][]string
}

func newLists(t *testing.T, c *stack.Cluster) *lists {
	t.Helper()
	tenant := c.NewTenant(t, t.Name())
	ctx, all, admin := t.Context(), c.Client(t, tenant.Key), c.Client(t, stack.Operator)
	l := &lists{
		T: t, url: c.Gateways[0].URL, keys: map[string]string{operator: stack.Operator, platform: c.NewPlatformKey(t), unbound: tenant.Key},
		ids: map[string][]string{"tenants": {tenant.ID}, "queues": {api.DefaultQueue, "mail"}},
	}
	no := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	post := func(path string, body any) (made struct{ ID string }) {
		t.Helper()
		text, err := json.Marshal(body)
		no(err)
		status, answer := stack.Call(t, http.MethodPost, l.url+path, tenant.Key, text)
		if status != http.StatusAccepted || json.Unmarshal(answer, &made) != nil {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
		return made
	}
	for kind, user := range map[string]string{userBound: "ada", otherBound: "nobody"} {
		key, err := admin.CreateKey(ctx, tenant.ID, api.KeyRequest{User: &user, Scopes: []string{api.ScopeSubmit, api.ScopeRead, api.ScopeManage}})
		no(err)
		l.keys[kind] = key.Secret
	}
	full := api.SubmitRequest{
		Type: "full", Queue: "mail", Payload: json.RawMessage(`{"a":1}`), User: new("ada"), Metadata: map[string]string{"k": "v"},
		Deadline: &api.Time{Time: time.Now().Add(time.Hour)}, TimeoutMS: new(int64(60000)),
	}
	for _, queue := range []string{api.DefaultQueue, "mail"} { // what runs runs until the end
		c.SetQueue(t, tenant, queue, map[string]any{"visibility_timeout_ms": time.Hour.Milliseconds()})
	}
	// Jobs in each state, with all fields and with none.
	for _, request := range []api.SubmitRequest{{Type: "bare"}, full} {
		queue := cmp.Or(request.Queue, api.DefaultQueue)
		cancelled := stack.Submit(t, all, request)
		_, err := all.Cancel(ctx, cancelled)
		no(err)
		for _, end := range []func(api.ClaimedJob) error{
			func(job api.ClaimedJob) error {
				_, err := all.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken})
				return err
			},
			func(job api.ClaimedJob) error {
				_, err := all.Fail(ctx, job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Permanent: true})
				return err
			},
			func(job api.ClaimedJob) error {
				_, err := all.Fail(ctx, job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Permanent: true, Error: &api.JobError{Type: "E", Message: "m", Stack: "s"}})
				return err
			},
			func(api.ClaimedJob) error { return nil }, // runs
		} {
			id := stack.Submit(t, all, request)
			no(end(stack.ClaimOne(t, all, "worker-of-"+queue, queue)))
			l.ids["jobs"] = append(l.ids["jobs"], id)
		}
		child := request
		child.After = []api.Dependency{{JobID: l.ids["jobs"][len(l.ids["jobs"])-1]}}
		if request.User != nil {
			child.Tags = []string{"gpu"} // of those that no worker takes
		}
		child.DedupeKey = new("order 17 " + request.Type)
		l.ids["jobs"] = append(l.ids["jobs"], stack.Submit(t, all, child))

		flow := post("/v1/workflows", map[string]any{"jobs": []any{map[string]any{"ref": "a", "type": request.Type, "user": request.User}}})
		l.ids["workflows"] = append(l.ids["workflows"], flow.ID)
		_, err = all.PutSchedule(ctx, "schedule-of-"+request.Type, api.ScheduleRequest{Cron: new("0 0 1 1 *"), Job: api.ScheduleJob{Type: request.Type, User: request.User}})
		no(err)
		_, err = all.TriggerSchedule(ctx, "schedule-of-"+request.Type)
		no(err)
		l.ids["schedules"] = append(l.ids["schedules"], "schedule-of-"+request.Type)
		_, err = all.PutType(ctx, request.Type, api.JobTypeRequest{})
		no(err)
		l.ids["types"] = append(l.ids["types"], request.Type)
		redrive := post("/v1/dead-letters/redrive", map[string]any{"filter": map[string]any{"queue": "absent-" + request.Type}})
		l.ids["redrives"] = append(l.ids["redrives"], redrive.ID)
	}
	_, err := all.PutBudget(ctx, "budget", api.BudgetRequest{Unit: "tokens", Amount: 10, Window: new(api.BudgetDay), By: new(api.BudgetByUser)})
	no(err)
	l.ids["budgets"] = append(l.ids["budgets"], "budget")
	_, err = all.PutWebhook(ctx, "hook", api.WebhookRequest{URL: "http://127.0.0.1:1/", Events: []string{"workflow.ended"}})
	no(err)
	return l
}

// targets are the paths with their parameters filled in.
func (l *lists) targets(path string, get *openapi3.Operation) []string {
	l.Helper()
	begin := strings.IndexByte(path, '{')
	if begin < 0 {
		return []string{path}
	}
	_, rest, _ := strings.Cut(path[begin:], "}")
	of := strings.Split(strings.TrimSuffix(path[:begin], "/"), "/")
	values := l.ids[of[len(of)-1]]
	if len(values) == 0 {
		l.Fatalf("%s (%s): this test has no value for the parameter of the path; give it one", path, get.OperationID)
	}
	targets := make([]string, len(values))
	for i, value := range values {
		targets[i] = path[:begin] + value + rest
	}
	return targets
}

// values are what a parameter is tried with: each that its schema allows, or words of which some find something.
func (l *lists) values(one *openapi3.Parameter) []string {
	schema := one.Schema.Value
	switch {
	case len(schema.Enum) > 0:
		values := make([]string, len(schema.Enum))
		for i, value := range schema.Enum {
			values[i] = fmt.Sprint(value)
		}
		return values
	case schema.Type.Is(openapi3.TypeInteger):
		if schema.Max == nil {
			return []string{"1"}
		}
		return []string{"1", fmt.Sprint(*schema.Max)}
	case schema.Format == "date-time":
		return []string{time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	case schema.Format == "date":
		return []string{time.Now().UTC().Format(time.DateOnly)}
	case schema.Format == "uuid":
		return append(slices.Clone(l.ids["tenants"]), l.ids["jobs"][0])
	case one.Name == "state":
		return append(strings.Fields("blocked scheduled queued running completed dead_letter cancelled"), "queued,running")
	}
	return []string{"absent", "bare", "full", "default", "mail", "ada", "gpu", "order 17", "hook", l.ids["jobs"][0], strings.Repeat("0", 32)}
}

// mayAsk says whether a kind of key gets 200, as the document has it; if it is not sure, a path may also name what is
// another's.
func mayAsk(get *openapi3.Operation, kind string) (may, sure bool) {
	says := get.Description[strings.LastIndex(get.Description, "\n\n")+2:]
	switch {
	case strings.Contains(says, "operator key"):
		return kind == operator, true
	case kind == operator:
		return false, true
	case kind == platform:
		return strings.Contains(says, "platform key"), get.Parameters.GetByInAndName(openapi3.ParameterInPath, "id") == nil
	case kind == unbound:
		return true, true
	}
	return !strings.Contains(says, "bound to no user"), false
}

// try asks for a list without a filter, with each value of each one alone, and with all at once.
func (l *lists) try(target string, get *openapi3.Operation, kind, key string) {
	l.Helper()
	whole := l.ask(target, nil, get, kind, key)
	everything := url.Values{}
	for _, one := range queryOf(get) {
		if one.Name == "page_token" {
			continue // made by the server alone; below
		}
		for _, value := range l.values(one) {
			query := url.Values{one.Name: {value}}
			if one.Name == "metadata" {
				query = url.Values{"metadata.k": {value}}
			}
			found := l.ask(target, query, get, kind, key)
			l.compare(target, kind, one.Name, value, whole, found)
			maps.Copy(everything, query)
		}
	}
	l.ask(target, everything, get, kind, key)
}

// listed is an answer, if it is one with items.
type listed struct {
	status int
	Items  []map[string]any `json:"items"`
	Next   *string          `json:"next_page_token"`
}

func (l *lists) ask(target string, query url.Values, get *openapi3.Operation, kind, key string) (found listed) {
	l.Helper()
	at := target
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	status, text := stack.Call(l, http.MethodGet, l.url+at, key, nil)
	may, sure := mayAsk(get, kind)
	switch {
	case status >= http.StatusInternalServerError:
		l.Errorf("GET %s with the key %q: %d %s", at, kind, status, text)
	case status == http.StatusBadRequest && len(query) > 0: // such as two filters that do not go together
	case may && sure && status != http.StatusOK, !may && status == http.StatusOK:
		l.Errorf("GET %s with the key %q: %d %s", at, kind, status, text)
	}
	if status == http.StatusOK {
		if err := json.Unmarshal(text, &found); err != nil {
			l.Errorf("GET %s: %v: %s", at, err, text)
		}
	}
	found.status = status
	return found
}

// compare checks a filter by a field that the items have, in themselves or in their job.
func (l *lists) compare(target, kind, name, value string, whole, found listed) {
	l.Helper()
	if whole.status != http.StatusOK || found.status != http.StatusOK || whole.Next != nil || found.Next != nil {
		return
	}
	want, known := 0, false
	for _, item := range whole.Items {
		field, has := item[name]
		if job, ok := item["job"].(map[string]any); ok && !has {
			field, has = job[name]
		}
		if _, text := field.(string); has && (text || field == nil) {
			known = true
			if field != nil && slices.Contains(strings.Split(value, ","), fmt.Sprint(field)) {
				want++
			}
		}
	}
	if known && len(found.Items) != want {
		l.Errorf("GET %s?%s=%s with the key %q finds %d items; the whole list has %d such", target, name, value, kind, len(found.Items), want)
	}
}
