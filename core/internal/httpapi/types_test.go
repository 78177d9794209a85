package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const needsTo = `{"type":"object","required":["to"]}`

func typed(name, payload string, change ...func(*hop.PutTypeRequest)) hop.PutTypeRequest {
	request := hop.PutTypeRequest{Name: name}
	if payload != "" {
		request.Value.PayloadSchema = json.RawMessage(payload)
	}
	for _, c := range change {
		c(&request)
	}
	return request
}

// refusal asks one item, and gives its problem.
func refusal[Req any](f *fixture, path string, p hop.Principal, request Req) problem.Problem {
	f.Helper()
	got := ask[json.RawMessage](f, path, item(p, request))[0]
	if got.Problem == nil {
		f.Fatalf("%s was accepted: %s", path, *got.Value)
	}
	return *got.Problem
}

func fields(p problem.Problem) string {
	var all []string
	for _, one := range p.Errors {
		all = append(all, one.Field)
	}
	return strings.Join(all, ",")
}

func TestVersionsOfAType(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("mail.send", needsTo))
	again := one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("mail.send", "{ \"type\":\"object\", \"required\":[\"to\"] }"))
	if first.Version != 1 || again.Version != 1 || again.CreatedAt != first.CreatedAt || string(again.PayloadSchema) != needsTo {
		t.Errorf("a repeat: %+v after %+v", again, first)
	}
	for i := range api.MaxTypeVersions + 2 {
		one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("mail.send", needsTo, func(r *hop.PutTypeRequest) { r.Value.Description = fmt.Sprint(i) }))
	}
	newest := one[hop.TypeVersion](f, hop.GetType.Path, f.tenant, hop.TypeVersionRequest{Name: "mail.send"})
	if newest.Version != api.MaxTypeVersions+3 || newest.Description != fmt.Sprint(api.MaxTypeVersions+1) {
		t.Errorf("%+v", newest)
	}
	if old := one[hop.TypeVersion](f, hop.GetType.Path, f.tenant, hop.TypeVersionRequest{Name: "mail.send", Version: 5}); old.Version != 5 || old.Description != "3" || old.Revision != 5 {
		t.Errorf("%+v", old)
	}
	if p := refusal(f, hop.GetType.Path, f.tenant, hop.TypeVersionRequest{Name: "mail.send", Version: 3}); p.Code != problem.NotFound {
		t.Errorf("one that is no longer kept: %+v", p)
	}
	page := one[api.Page[api.JobTypeSummary]](f, hop.ListTypeVersions.Path, f.tenant, hop.PageFor{For: "mail.send", PageRequest: hop.PageRequest{PageSize: 15}})
	if len(page.Items) != 15 || page.Items[0].Version != api.MaxTypeVersions+3 || page.NextPageToken == nil {
		t.Fatalf("%+v", page)
	}
	page = one[api.Page[api.JobTypeSummary]](f, hop.ListTypeVersions.Path, f.tenant, hop.PageFor{For: "mail.send", PageRequest: hop.PageRequest{PageSize: 15, PageToken: *page.NextPageToken}})
	if len(page.Items) != api.MaxTypeVersions-15 || page.NextPageToken != nil {
		t.Errorf("the second page: %+v", page)
	}
	set := one[hop.TypeSet](f, hop.GetTypeSet.Path, f.tenant, struct{}{})
	if len(set.Types) != 1 || set.Version != newest.Revision || set.Types[0].Revision != newest.Revision || !set.Types[0].ChecksPayload {
		t.Errorf("%+v", set)
	}
	gone := one[hop.TypesChanged](f, hop.DeleteType.Path, f.tenant, hop.Name{Name: "mail.send"})
	if gone.Version != newest.Revision+1 {
		t.Errorf("%+v", gone)
	}
	made := one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("mail.send", needsTo))
	if made.Version != 1 || made.Revision != gone.Version+1 {
		t.Errorf("made again: %+v", made)
	}
}

func TestTypesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	large := json.RawMessage(`{"description":"` + strings.Repeat("x", api.MaxSchema) + `"}`)
	for want, request := range map[string]hop.PutTypeRequest{
		"payload_schema/properties/a": typed("t", `{"properties":{"a":1}}`),
		"result_schema/type":          typed("t", "", func(r *hop.PutTypeRequest) { r.Value.ResultSchema = json.RawMessage(`{"type":"x"}`) }),
		"examples[1]/to":              typed("t", `{"properties":{"to":{"type":"string"}}}`, func(r *hop.PutTypeRequest) { r.Value.Examples = []json.RawMessage{[]byte(`{}`), []byte(`{"to":1}`)} }),
		"check_results":               typed("t", "", func(r *hop.PutTypeRequest) { r.Value.CheckResults = true }),
		"payload_schema":              typed("t", string(large)),
		"defaults.priority":           typed("t", "", func(r *hop.PutTypeRequest) { r.Value.Defaults = &api.JobTypeDefaults{Priority: new(10)} }),
		"defaults.retry.base_ms": typed("t", "", func(r *hop.PutTypeRequest) {
			r.Value.Defaults = &api.JobTypeDefaults{Retry: &api.RetryRequest{BaseMS: new(int64(-1))}}
		}),
	} {
		if p := refusal(f, hop.PutType.Path, f.tenant, request); p.Code != problem.InvalidRequest || fields(p) != want {
			t.Errorf("%s: %s %s", want, p.Code, fields(p))
		}
	}
	if p := refusal(f, hop.PutType.Path, f.tenant, typed("a b", needsTo)); p.Code != problem.NotFound {
		t.Errorf("a name that none can have: %+v", p)
	}
	if p := refusal(f, hop.PutType.Path, userOf(f.tenant, "bob"), typed("t", needsTo)); p.Code != problem.Forbidden {
		t.Errorf("a user's key: %+v", p)
	}
}

func TestTypesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO job_types SELECT $1, 't' || n, 1, n, true, '', NULL, NULL, false, '[]', '{}', 0, now() FROM generate_series(1, $2) AS n`, f.tenant.Tenant, api.MaxTypes)
	if p := refusal(f, hop.PutType.Path, f.tenant, typed("one.more", needsTo)); p.Code != problem.InvalidRequest || !strings.Contains(p.Detail, "500") {
		t.Errorf("%+v", p)
	}
	one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("t7", needsTo))
	f.exec(`UPDATE job_types SET size = $2 WHERE tenant_id = $1 AND type = 't1'`, f.tenant.Tenant, api.MaxTypeBytes-80)
	one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("t8", `{"a":1}`))
	if p := refusal(f, hop.PutType.Path, f.tenant, typed("t9", needsTo)); p.Code != problem.InvalidRequest || !strings.Contains(p.Detail, "16 MiB") {
		t.Errorf("%+v", p)
	}
	documents := one[hop.TypeDocuments](f, hop.GetTypeDocuments.Path, f.tenant, struct{}{})
	if len(documents.Types) != 0 || documents.LeftOut != api.MaxTypes { // t1 is the first
		t.Errorf("%d documents, %d left out", len(documents.Types), documents.LeftOut)
	}
}

// A tenant sees none of another's types.
func TestTypesAreTheTenantsOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newTenant()
	one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("mail.send", needsTo))
	for path, request := range map[string]any{
		hop.GetType.Path: hop.TypeVersionRequest{Name: "mail.send"}, hop.ListTypeVersions.Path: hop.PageFor{For: "mail.send"}, hop.DeleteType.Path: hop.Name{Name: "mail.send"},
	} {
		if p := refusal(f, path, other, request); p.Code != problem.NotFound {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if page := one[api.Page[api.JobTypeSummary]](f, hop.ListTypes.Path, other, hop.PageRequest{}); len(page.Items) != 0 {
		t.Errorf("%+v", page)
	}
	if set := one[hop.TypeSet](f, hop.GetTypeSet.Path, other, struct{}{}); len(set.Types) != 0 || set.Version != 0 {
		t.Errorf("%+v", set)
	}
	if all := one[hop.TypeDocuments](f, hop.GetTypeDocuments.Path, other, struct{}{}); len(all.Types) != 0 {
		t.Errorf("%+v", all)
	}
	one[hop.TypeVersion](f, hop.PutType.Path, other, typed("mail.send", `true`))
	if mine := one[hop.TypeVersion](f, hop.GetType.Path, f.tenant, hop.TypeVersionRequest{Name: "mail.send"}); string(mine.PayloadSchema) != needsTo || mine.Version != 1 {
		t.Errorf("%+v", mine)
	}
}

// A schema that refuses what waits needs force.
func TestASchemaThatRefusesWaitingJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.newTenant()
	for _, payload := range []string{`{"to":"x"}`, `{}`, `7`} {
		one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job(func(r *api.SubmitRequest) {
			r.Type, r.Payload, r.DelayMS = "mail.send", json.RawMessage(payload), new(int64(3_600_000))
		}))
	}
	one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job(func(r *api.SubmitRequest) { r.Type = "another" }))
	p := refusal(f, hop.PutType.Path, f.tenant, typed("mail.send", needsTo))
	if p.Code != problem.SchemaMismatch || p.Status != http.StatusUnprocessableEntity || len(p.Errors) != 2 || !strings.Contains(p.Detail, "Of 3 jobs") || !strings.Contains(p.Detail, "2 do not fit") {
		t.Errorf("%+v", p)
	}
	if p := refusal(f, hop.GetType.Path, f.tenant, hop.TypeVersionRequest{Name: "mail.send"}); p.Code != problem.NotFound {
		t.Errorf("it was stored: %+v", p)
	}
	one[hop.TypeVersion](f, hop.PutType.Path, other, typed("mail.send", needsTo)) // whose jobs are not looked at
	if made := one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("mail.send", needsTo, func(r *hop.PutTypeRequest) { r.Force = true })); made.Version != 1 {
		t.Errorf("%+v", made)
	}
	one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, typed("mail.send", `{"type":["object","integer"]}`))
}

// A result that does not fit is refused, and the lease stays: it is completed with another one, or failed.
func TestResultsAreChecked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	checked := func(schema string) hop.PutTypeRequest {
		return typed("hash", "", func(r *hop.PutTypeRequest) {
			r.Value.ResultSchema, r.Value.CheckResults = json.RawMessage(schema), true
		})
	}
	one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, checked(`{"required":["sha256"]}`))
	for _, who := range []hop.Principal{f.tenant, platform()} {
		one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job(func(r *api.SubmitRequest) { r.Type = "hash" }))
		claimed := one[api.ClaimResponse](f, hop.ClaimJobs.Path, who, claimOf(0)).Jobs[0]
		complete := api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken, Result: json.RawMessage(`{"md5":"x"}`)}
		o := f.outcome(who, complete)
		if o.Status != http.StatusUnprocessableEntity || o.Problem.Code != problem.SchemaMismatch || fields(*o.Problem) != "result" {
			t.Fatalf("%s: %+v", who.Kind, o)
		}
		// twice in one report: neither passes
		both := one[api.OutcomesResponse](f, hop.ReportOutcomes.Path, who, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete, complete}})
		if both.Results[0].Status != 422 || both.Results[1].Status != 422 {
			t.Errorf("%s: twice: %+v", who.Kind, both)
		}
		// to another tenant the job does not exist
		if o := f.outcome(f.newTenant(), complete); o.Problem == nil || o.Problem.Code != problem.NotFound {
			t.Errorf("another tenant's worker: %+v", o)
		}
		if got := f.get(claimed.ID); got.State != api.StateRunning {
			t.Errorf("the job is %s", got.State)
		}
		complete.Result = json.RawMessage(`{"sha256":"x"}`)
		for range 2 { // and the repeat
			if o := f.outcome(who, complete); o.Status != http.StatusOK {
				t.Errorf("%s: %+v", who.Kind, o)
			}
		}
	}
	id := decode[api.SubmitResponse](f, one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job(func(r *api.SubmitRequest) { r.Type = "hash" }))).ID
	lease := f.claim()
	if o := f.outcome(f.tenant, api.OutcomeRequest{JobID: id, Kind: api.KindFail, LeaseToken: lease.LeaseToken, Permanent: true}); o.Status != http.StatusOK {
		t.Errorf("fail: %+v", o)
	}
	// a new version applies at once in this core
	one[hop.TypeVersion](f, hop.PutType.Path, f.tenant, checked(`{"required":["md5"]}`))
	f.ended(api.KindComplete, func(r *api.SubmitRequest) { r.Type = "other" })
	one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job(func(r *api.SubmitRequest) { r.Type = "hash" }))
	lease = f.claim()
	if o := f.outcome(f.tenant, api.OutcomeRequest{JobID: lease.ID, Kind: api.KindComplete, LeaseToken: lease.LeaseToken, Result: json.RawMessage(`{"sha256":1}`)}); o.Status != 422 {
		t.Errorf("the new version: %+v", o)
	}
	one[hop.TypesChanged](f, hop.DeleteType.Path, f.tenant, hop.Name{Name: "hash"})
	if o := f.outcome(f.tenant, api.OutcomeRequest{JobID: lease.ID, Kind: api.KindComplete, LeaseToken: lease.LeaseToken, Result: json.RawMessage(`{"sha256":1}`)}); o.Status != 200 {
		t.Errorf("without the type: %+v", o)
	}
}

// A repeat of a submit that was accepted is answered from memory, also where the gateway refuses it by now.
func TestARepeatIsAnsweredThoughItWouldBeRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keyed := job(func(r *api.SubmitRequest) { r.Type = "t" })
	keyed.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: strings.Repeat("ab", 32)}
	first := one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, keyed)
	misfit := []*problem.Problem{problem.New(problem.SchemaMismatch, "does not fit")}
	keyed.Problems, keyed.IDs = misfit, []string{uuid.Must(uuid.NewV7()).String()}
	got := ask[json.RawMessage](f, hop.SubmitJobs.Path, item(f.tenant, keyed))[0]
	if got.Problem != nil || !got.Replayed || string(*got.Value) != string(first) {
		t.Errorf("the repeat: %+v", got)
	}
	keyed.Idempotency = &hop.Idempotency{Operation: "submit", Key: "l", Fingerprint: strings.Repeat("ab", 32)}
	for range 2 {
		if got := ask[json.RawMessage](f, hop.SubmitJobs.Path, item(f.tenant, keyed))[0]; got.Problem == nil || got.Problem.Code != problem.SchemaMismatch || got.Status != 422 {
			t.Errorf("one that was never accepted: %+v", got)
		}
	}
	flow := hop.SubmitJobsRequest{
		IDs: []string{uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "t"}, {Type: "t"}}, Problems: append([]*problem.Problem{nil}, misfit...),
		Batch: true, Atomic: true, Idempotency: &hop.Idempotency{Operation: "flow", Key: "k", Fingerprint: strings.Repeat("ab", 32)},
		Workflow: &hop.SubmittedWorkflow{ID: uuid.Must(uuid.NewV7()).String(), Name: "w", Refs: []string{"a", "b"}, After: [][]api.WorkflowDependency{nil, {{Ref: "a"}}}},
	}
	if got := ask[json.RawMessage](f, hop.SubmitJobs.Path, item(f.tenant, flow))[0]; got.Problem == nil || got.Problem.Code != problem.SchemaMismatch {
		t.Errorf("a workflow: %+v", got)
	}
	if list := one[api.Page[api.JobSummary]](f, hop.ListJobs.Path, f.tenant, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 10}}); len(list.Items) != 1 {
		t.Errorf("%d jobs are stored", len(list.Items))
	}
}
