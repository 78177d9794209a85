package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// typesOf are the types that core has: of each tenant.
type typesOf struct {
	mu      sync.Mutex
	schemas map[string]map[string]string // by tenant and type
	version map[string]int64
	reads   atomic.Int32
}

// types makes core have types of jobs.
func (d *door) types() *typesOf {
	has := &typesOf{schemas: map[string]map[string]string{}, version: map[string]int64{}}
	d.core.On(hop.GetTypeSet.Path, func(item coretest.Item) coretest.Result {
		has.mu.Lock()
		defer has.mu.Unlock()
		has.reads.Add(1)
		set := hop.TypeSet{Version: has.version[item.Principal.Tenant], Types: []hop.CheckedType{}}
		for name := range has.schemas[item.Principal.Tenant] {
			set.Types = append(set.Types, hop.CheckedType{
				Type: name, Version: 1, Revision: set.Version, ChecksPayload: true,
				Defaults: api.JobTypeDefaults{Priority: new(2), Queue: new("of-type"), Retry: &api.RetryRequest{BaseMS: new(int64(7)), CapMS: new(int64(9))}},
			})
		}
		return coretest.Value(200, set)
	})
	d.core.On(hop.GetType.Path, func(item coretest.Item) coretest.Result {
		var request hop.TypeVersionRequest
		if err := json.Unmarshal(item.Request, &request); err != nil {
			d.t.Error(err)
		}
		has.mu.Lock()
		defer has.mu.Unlock()
		schema, ok := has.schemas[item.Principal.Tenant][request.Name]
		if !ok {
			return coretest.Refuse(problem.NotFound, "none")
		}
		return coretest.Value(200, hop.TypeVersion{Revision: has.version[item.Principal.Tenant], JobType: api.JobType{Type: request.Name, Version: 1, PayloadSchema: json.RawMessage(schema)}})
	})
	d.core.On(hop.PutType.Path, func(item coretest.Item) coretest.Result {
		var request hop.PutTypeRequest
		if err := json.Unmarshal(item.Request, &request); err != nil {
			d.t.Error(err)
		}
		return coretest.Value(200, hop.TypeVersion{Revision: has.set(item.Principal.Tenant, request.Name, string(request.Value.PayloadSchema)), JobType: api.JobType{Type: request.Name}})
	})
	return has
}

func (t *typesOf) set(tenant, name, schema string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.schemas[tenant] == nil {
		t.schemas[tenant] = map[string]string{}
	}
	t.schemas[tenant][name] = schema
	t.version[tenant]++
	return t.version[tenant]
}

// typedKey is a key of a tenant whose types have a version.
func (d *door) typedKey(tenant string, version int64) string {
	return d.keyWith(func(k *hop.KeyRecord) { k.Tenant, k.Scopes, k.TypesVersion = tenant, api.Scopes(), version })
}

func places(p problem.Problem) string {
	var all []string
	for _, one := range p.Errors {
		all = append(all, one.Field)
	}
	return strings.Join(all, " ")
}

const (
	otherTenant = "0190a000-0000-7000-8000-00000000000c"
	mailSchema  = `{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"n":{"type":"integer"}}}`
)

func TestPayloadsAreChecked(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	has := d.types()
	key := d.typedKey(tenantID, has.set(tenantID, "mail", mailSchema))
	got := d.do("POST", "/v1/jobs", key, `{"type":"mail","payload":{"n":1.5}}`)
	p := got.refused(t, 422, problem.SchemaMismatch)
	if places(p) != "payload payload/n" || !strings.Contains(p.Errors[0].Message, "required") || p.Instance != "/v1/jobs" {
		t.Errorf("%+v", p)
	}
	if len(d.core.Requests(hop.SubmitJobs.Path)) != 0 {
		t.Error("it was sent")
	}
	d.do("POST", "/v1/jobs", key, `{"type":"mail"}`).refused(t, 422, problem.SchemaMismatch) // nothing is null
	for body, want := range map[string]api.SubmitRequest{
		`{"type":"mail","payload":{"to":"x"}}`:                                                {Queue: "of-type", Priority: new(2), Retry: &api.RetryRequest{BaseMS: new(int64(7)), CapMS: new(int64(9))}},
		`{"type":"mail","payload":{"to":"x"},"queue":"q","priority":9,"retry":{"base_ms":3}}`: {Queue: "q", Priority: new(9), Retry: &api.RetryRequest{BaseMS: new(int64(3)), CapMS: new(int64(9))}},
		`{"type":"another","payload":7}`:                                                      {},
	} {
		if got := d.do("POST", "/v1/jobs", key, body); got.status != 202 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
		sent := d.submitted().Jobs[0]
		sent.Type, sent.Payload = "", nil
		if fmt.Sprint(asJSON(t, sent)) != fmt.Sprint(asJSON(t, want)) {
			t.Errorf("%s: core got %s", body, asJSON(t, sent))
		}
	}
	if n := has.reads.Load(); n != 1 {
		t.Errorf("the types were read %d times", n)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A tenant without types asks core nothing, and other tenants' types are not its own.
func TestTypesAreOfTheirTenant(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	has := d.types()
	version := has.set(tenantID, "mail", mailSchema)
	untyped := d.typedKey(otherTenant, 0)
	if got := d.do("POST", "/v1/jobs", untyped, `{"type":"mail","payload":7}`); got.status != 202 || has.reads.Load() != 0 {
		t.Errorf("%d %s, %d reads", got.status, got.body, has.reads.Load())
	}
	d.do("POST", "/v1/jobs", d.typedKey(tenantID, version), `{"type":"mail","payload":7}`).refused(t, 422, problem.SchemaMismatch)
	typed := d.typedKey(otherTenant, has.set(otherTenant, "other", `true`))
	if got := d.do("POST", "/v1/jobs", typed, `{"type":"mail","payload":7}`); got.status != 202 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestBatchesWorkflowsAndSchedulesAreChecked(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	has := d.types()
	key := d.typedKey(tenantID, has.set(tenantID, "mail", mailSchema))
	d.core.On(hop.SubmitJobs.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, map[string]any{"results": []any{}, "accepted": 1, "rejected": 1})
	})
	good, bad := `{"type":"mail","payload":{"to":"x"}}`, `{"type":"mail","payload":{"to":7}}`
	if got := d.do("POST", "/v1/jobs/batch", key, `{"jobs":[`+good+`,`+bad+`,{"type":"mail","priority":11}]}`); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	sent := d.submitted()
	if sent.Problems[0] != nil || sent.Problems[1].Code != problem.SchemaMismatch || places(*sent.Problems[1]) != "jobs[1].payload/to" || sent.Jobs[1].Type != "" ||
		sent.Problems[2].Code != problem.InvalidRequest || *sent.Jobs[0].Priority != 2 {
		t.Errorf("core got %s", asJSON(t, sent))
	}
	before := len(d.core.Requests(hop.SubmitJobs.Path))
	if p := d.do("POST", "/v1/jobs/batch", key, `{"atomic":true,"jobs":[`+good+`,`+bad+`]}`).refused(t, 422, problem.SchemaMismatch); places(p) != "jobs[1].payload/to" {
		t.Errorf("%+v", p)
	}
	if got := d.do("POST", "/v1/jobs/batch", key, `{"jobs":[`+bad+`,`+bad+`]}`); got.status != 200 || !strings.Contains(string(got.body), `"rejected":2`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	flow := `{"jobs":[{"ref":"a","type":"other"},{"ref":"b","type":"mail","payload":{"to":7}}]}`
	if p := d.do("POST", "/v1/workflows", key, flow).refused(t, 422, problem.SchemaMismatch); places(p) != "jobs[1].payload/to" {
		t.Errorf("%+v", p)
	}
	if p := d.do("PUT", "/v1/schedules/s", key, `{"every_ms":60000,"job":`+bad+`}`).refused(t, 422, problem.SchemaMismatch); places(p) != "job.payload/to" {
		t.Errorf("%+v", p)
	}
	if n := len(d.core.Requests(hop.SubmitJobs.Path)); n != before {
		t.Errorf("core got %d more submits", n-before)
	}
	// With a key they may be repeats of what was accepted: core says.
	for path, body := range map[string]string{"/v1/jobs": bad, "/v1/jobs/batch": `{"atomic":true,"jobs":[` + good + `,` + bad + `]}`, "/v1/workflows": flow} {
		d.do("POST", path, key, body, "Idempotency-Key", "k")
		sent := d.submitted()
		if last := sent.Problems[len(sent.Problems)-1]; last == nil || last.Code != problem.SchemaMismatch || last.Instance != path {
			t.Errorf("%s: core got %s", path, asJSON(t, sent))
		}
	}
	d.core.On(hop.PutSchedule.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Schedule{Name: "s"}) })
	d.do("PUT", "/v1/schedules/s", key, `{"every_ms":60000,"job":`+good+`}`)
	if made := last[hop.Put[api.ScheduleRequest]](d, hop.PutSchedule.Path); made.Value.Job.Queue != "of-type" || *made.Value.Job.Priority != 2 {
		t.Errorf("core got %+v", made.Value.Job)
	}
}

// A change holds at once in the gateway that made it, and by a hint in others, also for keys that are cached.
func TestAChangeOfTypesHolds(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	has := d.types()
	key := d.typedKey(tenantID, 0)
	job := `{"type":"mail","payload":7}`
	if got := d.do("POST", "/v1/jobs", key, job); got.status != 202 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := d.do("PUT", "/v1/types/mail", key, `{"payload_schema":`+mailSchema+`}`); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	d.do("POST", "/v1/jobs", key, job).refused(t, 422, problem.SchemaMismatch)
	d.do("POST", "/v1/jobs", key, job).refused(t, 422, problem.SchemaMismatch)
	if n := has.reads.Load(); n != 1 {
		t.Errorf("the types were read %d times", n)
	}
	// another gateway's change
	d.typesChecker.Changed(hop.TypesChanged{Tenant: tenantID, Version: has.set(tenantID, "mail", `{"type":"integer"}`)})
	if got := d.do("POST", "/v1/jobs", key, job); got.status != 202 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// What cannot be checked is not accepted.
func TestWithoutTypesNothingIsAccepted(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.typedKey(tenantID, 1)
	d.core.On(hop.GetTypeSet.Path, func(coretest.Item) coretest.Result {
		return coretest.Refuse(problem.CoreUnavailable, "core's database is away")
	})
	d.do("POST", "/v1/jobs", key, `{"type":"mail"}`).refused(t, 503, problem.CoreUnavailable)
	has := d.types()
	has.set(tenantID, "mail", `true`)
	if got := d.do("POST", "/v1/jobs", key, `{"type":"mail"}`); got.status != 202 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestTypesOverHTTP(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.types()
	key := d.typedKey(tenantID, 0)
	for _, test := range []struct {
		method, path, body, field string
		status                    int
	}{
		{"PUT", "/v1/types/mail?force=yes", `{}`, "force", 400},
		{"PUT", "/v1/types/mail", `{"payload_schema":"` + strings.Repeat("x", api.MaxSchema) + `"}`, "payload_schema", 400},
		{"PUT", "/v1/types/mail", `{"check_results":true}`, "check_results", 400},
		{"PUT", "/v1/types/mail", `{"defaults":{"queue":"a b"}}`, "defaults.queue", 400},
		{"PUT", "/v1/types/mail", `{"schema":{}}`, "schema", 400},
		{"PUT", "/v1/types/a%20b", `{}`, "", 400},
		{"GET", "/v1/types/mail?version=0", "", "version", 400},
		{"GET", "/v1/types/mail?version=x", "", "version", 400},
		{"GET", "/v1/types/none", "", "", 404},
	} {
		got := d.do(test.method, test.path, key, test.body)
		if p := got.problem(t); got.status != test.status || test.field != "" && (len(p.Errors) != 1 || p.Errors[0].Field != test.field) {
			t.Errorf("%s %s: %d %s", test.method, test.path, got.status, got.body)
		}
	}
	d.core.On(hop.DeleteType.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, hop.TypesChanged{Version: 3}) })
	if got := d.do("DELETE", "/v1/types/mail", key, ""); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := d.do("PUT", "/v1/types/mail?force=true", key, `{"payload_schema":null}`); got.status != 200 || !last[hop.PutTypeRequest](d, hop.PutType.Path).Force {
		t.Errorf("%d %s", got.status, got.body)
	}
	d.core.On(hop.GetTypeDocuments.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, hop.TypeDocuments{LeftOut: 2, Types: []api.JobType{
			{Type: "a:b", Version: 3, Description: "Sends.", PayloadSchema: json.RawMessage(`{"properties":{"c":{"$ref":"#/$defs/c"},"$ref":{"type":"string"}},"$defs":{"c":{"$ref":"#"}}}`), Examples: []json.RawMessage{[]byte(`{"c":1}`)}},
			{Type: "plain", Version: 1, PayloadSchema: json.RawMessage(`null`), Examples: []json.RawMessage{}},
		}})
	})
	got := d.do("GET", "/v1/openapi", key, "")
	for _, want := range []string{
		`"/v1/jobs#a:b"`, `"/v1/jobs#plain"`, `"$ref":"#/components/schemas/payload.0.a.b/$defs/c"`, `"$ref":"#/components/schemas/payload.0.a.b"`, `{"type":"a:b","payload":{"c":1}}`, "2 types are left out", "Sends.",
	} {
		if got.status != 200 || !strings.Contains(string(got.body), want) {
			t.Errorf("%d, no %s: %s", got.status, want, got.body)
		}
	}
}
