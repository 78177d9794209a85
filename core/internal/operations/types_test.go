package operations_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
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

func fields(p problem.Problem) string {
	var all []string
	for _, one := range p.Errors {
		all = append(all, one.Field)
	}
	return strings.Join(all, ",")
}

func TestVersionsOfAType(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	first := calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", needsTo))
	again := calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", "{ \"type\":\"object\", \"required\":[\"to\"] }"))
	if first.Version != 1 || again.Version != 1 || again.CreatedAt != first.CreatedAt || string(again.PayloadSchema) != needsTo {
		t.Errorf("a repeat: %+v after %+v", again, first)
	}
	for i := range api.MaxTypeVersions + 2 {
		calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", needsTo, func(r *hop.PutTypeRequest) { r.Value.Description = fmt.Sprint(i) }))
	}
	newest := calltest.One[hop.TypeVersion](f, hop.GetType.Path, f.Tenant, hop.TypeVersionRequest{Name: "mail.send"})
	if newest.Version != api.MaxTypeVersions+3 || newest.Description != fmt.Sprint(api.MaxTypeVersions+1) {
		t.Errorf("%+v", newest)
	}
	if old := calltest.One[hop.TypeVersion](f, hop.GetType.Path, f.Tenant, hop.TypeVersionRequest{Name: "mail.send", Version: 5}); old.Version != 5 || old.Description != "3" || old.Revision != 5 {
		t.Errorf("%+v", old)
	}
	if p := calltest.Refusal(f, hop.GetType.Path, f.Tenant, hop.TypeVersionRequest{Name: "mail.send", Version: 3}); p.Code != problem.NotFound {
		t.Errorf("one that is no longer kept: %+v", p)
	}
	page := calltest.One[api.Page[api.JobTypeSummary]](f, hop.ListTypeVersions.Path, f.Tenant, hop.PageFor{For: "mail.send", PageRequest: hop.PageRequest{PageSize: 15}})
	if len(page.Items) != 15 || page.Items[0].Version != api.MaxTypeVersions+3 || page.NextPageToken == nil {
		t.Fatalf("%+v", page)
	}
	page = calltest.One[api.Page[api.JobTypeSummary]](f, hop.ListTypeVersions.Path, f.Tenant, hop.PageFor{For: "mail.send", PageRequest: hop.PageRequest{PageSize: 15, PageToken: *page.NextPageToken}})
	if len(page.Items) != api.MaxTypeVersions-15 || page.NextPageToken != nil {
		t.Errorf("the second page: %+v", page)
	}
	set := calltest.One[hop.TypeSet](f, hop.GetTypeSet.Path, f.Tenant, struct{}{})
	if len(set.Types) != 1 || set.Version != newest.Revision || set.Types[0].Revision != newest.Revision || !set.Types[0].ChecksPayload {
		t.Errorf("%+v", set)
	}
	gone := calltest.One[hop.TypesChanged](f, hop.DeleteType.Path, f.Tenant, hop.Name{Name: "mail.send"})
	if gone.Version != newest.Revision+1 {
		t.Errorf("%+v", gone)
	}
	made := calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", needsTo))
	if made.Version != 1 || made.Revision != gone.Version+1 {
		t.Errorf("made again: %+v", made)
	}
}

func TestTypesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
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
		if p := calltest.Refusal(f, hop.PutType.Path, f.Tenant, request); p.Code != problem.InvalidRequest || fields(p) != want {
			t.Errorf("%s: %s %s", want, p.Code, fields(p))
		}
	}
	if p := calltest.Refusal(f, hop.PutType.Path, f.Tenant, typed("a b", needsTo)); p.Code != problem.NotFound {
		t.Errorf("a name that none can have: %+v", p)
	}
	if p := calltest.Refusal(f, hop.PutType.Path, calltest.UserOf(f.Tenant, "bob"), typed("t", needsTo)); p.Code != problem.Forbidden {
		t.Errorf("a user's key: %+v", p)
	}
}

func TestTypesAreBounded(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	f.Exec(`INSERT INTO job_types SELECT $1, 't' || n, 1, n, true, '', NULL, NULL, false, false, '[]', '{}', NULL, 0, now() FROM generate_series(1, $2) AS n`, f.Tenant.Tenant, api.MaxTypes)
	if p := calltest.Refusal(f, hop.PutType.Path, f.Tenant, typed("one.more", needsTo)); p.Code != problem.InvalidRequest || !strings.Contains(p.Detail, "500") {
		t.Errorf("%+v", p)
	}
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("t7", needsTo))
	f.Exec(`UPDATE job_types SET size = $2 WHERE tenant_id = $1 AND type = 't1'`, f.Tenant.Tenant, api.MaxTypeBytes-80)
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("t8", `{"a":1}`))
	if p := calltest.Refusal(f, hop.PutType.Path, f.Tenant, typed("t9", needsTo)); p.Code != problem.InvalidRequest || !strings.Contains(p.Detail, "16 MiB") {
		t.Errorf("%+v", p)
	}
	documents := calltest.One[hop.TypeDocuments](f, hop.GetTypeDocuments.Path, f.Tenant, struct{}{})
	if len(documents.Types) != 0 || documents.LeftOut != api.MaxTypes { // t1 is the first
		t.Errorf("%d documents, %d left out", len(documents.Types), documents.LeftOut)
	}
}

// A tenant sees none of another's types.
func TestTypesAreTheTenantsOwn(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	other := f.NewTenant()
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", needsTo))
	for path, request := range map[string]any{
		hop.GetType.Path: hop.TypeVersionRequest{Name: "mail.send"}, hop.ListTypeVersions.Path: hop.PageFor{For: "mail.send"}, hop.DeleteType.Path: hop.Name{Name: "mail.send"},
	} {
		if p := calltest.Refusal(f, path, other, request); p.Code != problem.NotFound {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if page := calltest.One[api.Page[api.JobTypeSummary]](f, hop.ListTypes.Path, other, hop.PageRequest{}); len(page.Items) != 0 {
		t.Errorf("%+v", page)
	}
	if set := calltest.One[hop.TypeSet](f, hop.GetTypeSet.Path, other, struct{}{}); len(set.Types) != 0 || set.Version != 0 {
		t.Errorf("%+v", set)
	}
	if all := calltest.One[hop.TypeDocuments](f, hop.GetTypeDocuments.Path, other, struct{}{}); len(all.Types) != 0 {
		t.Errorf("%+v", all)
	}
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, other, typed("mail.send", `true`))
	if mine := calltest.One[hop.TypeVersion](f, hop.GetType.Path, f.Tenant, hop.TypeVersionRequest{Name: "mail.send"}); string(mine.PayloadSchema) != needsTo || mine.Version != 1 {
		t.Errorf("%+v", mine)
	}
}

// A schema that refuses what waits needs force.
func TestASchemaThatRefusesWaitingJobs(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	other := f.NewTenant()
	for _, payload := range []string{`{"to":"x"}`, `{}`, `7`} {
		calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(r *api.SubmitRequest) {
			r.Type, r.Payload, r.DelayMS = "mail.send", json.RawMessage(payload), new(int64(3_600_000))
		}))
	}
	calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(r *api.SubmitRequest) { r.Type = "another" }))
	p := calltest.Refusal(f, hop.PutType.Path, f.Tenant, typed("mail.send", needsTo))
	if p.Code != problem.SchemaMismatch || p.Status != http.StatusUnprocessableEntity || len(p.Errors) != 2 || !strings.Contains(p.Detail, "Of 3 jobs") || !strings.Contains(p.Detail, "2 do not fit") {
		t.Errorf("%+v", p)
	}
	if p := calltest.Refusal(f, hop.GetType.Path, f.Tenant, hop.TypeVersionRequest{Name: "mail.send"}); p.Code != problem.NotFound {
		t.Errorf("it was stored: %+v", p)
	}
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, other, typed("mail.send", needsTo)) // whose jobs are not looked at
	if made := calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", needsTo, func(r *hop.PutTypeRequest) { r.Force = true })); made.Version != 1 {
		t.Errorf("%+v", made)
	}
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", `{"type":["object","integer"]}`))
}

// Jobs that follow get the defaults of their types, and their payloads are checked; a repeat is the first answer, whatever the type is by
// then.
func TestFollowersAreChecked(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("mail.send", needsTo, func(r *hop.PutTypeRequest) {
		r.Value.Defaults = &api.JobTypeDefaults{Priority: new(9)}
	}))
	for _, who := range []hop.Principal{f.Tenant, calltest.Platform()} {
		calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(r *api.SubmitRequest) { r.Type = "parent" }))
		claimed := calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, who, calltest.ClaimOf(0)).Jobs[0]
		complete := api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken, Submit: []api.SubmitRequest{{Type: "free"}, {Type: "mail.send"}}}
		refused := f.Outcome(who, complete)
		if refused.Status != http.StatusUnprocessableEntity || refused.Problem.Code != problem.SchemaMismatch || fields(*refused.Problem) != "submit[1].payload" {
			t.Fatalf("%+v", refused)
		}
		complete.Submit[1].Payload, complete.Submit[1].DelayMS = json.RawMessage(`{"to":"ada"}`), new(int64(3_600_000))
		complete.Submit[0].DelayMS = new(int64(3_600_000))
		first := f.Outcome(who, complete)
		if first.Status != http.StatusOK || len(first.Outcome.Submitted) != 2 {
			t.Fatalf("%+v", first)
		}
		if mail := f.Get(first.Outcome.Submitted[1]); mail.Priority != 9 || mail.Type != "mail.send" {
			t.Errorf("%+v", mail)
		}
		calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("free", needsTo, func(r *hop.PutTypeRequest) { r.Force = true }))
		if again := f.Outcome(who, complete); again.Status != http.StatusOK || !slices.Equal(again.Outcome.Submitted, first.Outcome.Submitted) {
			t.Errorf("a repeat: %+v", again)
		}
		calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, typed("free", ""))
	}
}

// A result that does not fit is refused, and the lease stays: it is completed with another one, or failed.
func TestResultsAreChecked(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	checked := func(schema string) hop.PutTypeRequest {
		return typed("hash", "", func(r *hop.PutTypeRequest) {
			r.Value.ResultSchema, r.Value.CheckResults = json.RawMessage(schema), true
		})
	}
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, checked(`{"required":["sha256"]}`))
	for _, who := range []hop.Principal{f.Tenant, calltest.Platform()} {
		calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(r *api.SubmitRequest) { r.Type = "hash" }))
		claimed := calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, who, calltest.ClaimOf(0)).Jobs[0]
		complete := api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken, Result: json.RawMessage(`{"md5":"x"}`)}
		o := f.Outcome(who, complete)
		if o.Status != http.StatusUnprocessableEntity || o.Problem.Code != problem.SchemaMismatch || fields(*o.Problem) != "result" {
			t.Fatalf("%s: %+v", who.Kind, o)
		}
		// twice in one report: neither passes
		both := calltest.One[api.OutcomesResponse](f, hop.ReportOutcomes.Path, who, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{complete, complete}})
		if both.Results[0].Status != 422 || both.Results[1].Status != 422 {
			t.Errorf("%s: twice: %+v", who.Kind, both)
		}
		// to another tenant the job does not exist
		if o := f.Outcome(f.NewTenant(), complete); o.Problem == nil || o.Problem.Code != problem.NotFound {
			t.Errorf("another tenant's worker: %+v", o)
		}
		if got := f.Get(claimed.ID); got.State != api.StateRunning {
			t.Errorf("the job is %s", got.State)
		}
		complete.Result = json.RawMessage(`{"sha256":"x"}`)
		for range 2 { // and the repeat
			if o := f.Outcome(who, complete); o.Status != http.StatusOK {
				t.Errorf("%s: %+v", who.Kind, o)
			}
		}
	}
	id := calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(r *api.SubmitRequest) { r.Type = "hash" }))).ID
	lease := f.Claim()
	if o := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: id, Kind: api.KindFail, LeaseToken: lease.LeaseToken, Permanent: true}); o.Status != http.StatusOK {
		t.Errorf("fail: %+v", o)
	}
	// a new version applies at once in this core
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, f.Tenant, checked(`{"required":["md5"]}`))
	ended(f, api.KindComplete, func(r *api.SubmitRequest) { r.Type = "other" })
	calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(r *api.SubmitRequest) { r.Type = "hash" }))
	lease = f.Claim()
	if o := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: lease.ID, Kind: api.KindComplete, LeaseToken: lease.LeaseToken, Result: json.RawMessage(`{"sha256":1}`)}); o.Status != 422 {
		t.Errorf("the new version: %+v", o)
	}
	calltest.One[hop.TypesChanged](f, hop.DeleteType.Path, f.Tenant, hop.Name{Name: "hash"})
	if o := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: lease.ID, Kind: api.KindComplete, LeaseToken: lease.LeaseToken, Result: json.RawMessage(`{"sha256":1}`)}); o.Status != 200 {
		t.Errorf("without the type: %+v", o)
	}
}

// A repeat of a submit that was accepted is answered from memory, also where the gateway refuses it by now.
func TestARepeatIsAnsweredThoughItWouldBeRefused(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	keyed := calltest.Job(func(r *api.SubmitRequest) { r.Type = "t" })
	keyed.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: strings.Repeat("ab", 32)}
	first := calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, keyed)
	misfit := []*problem.Problem{problem.New(problem.SchemaMismatch, "does not fit")}
	keyed.Problems, keyed.IDs = misfit, []string{uuid.Must(uuid.NewV7()).String()}
	got := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, calltest.Item(f.Tenant, keyed))[0]
	if got.Problem != nil || !got.Replayed || string(*got.Value) != string(first) {
		t.Errorf("the repeat: %+v", got)
	}
	keyed.Idempotency = &hop.Idempotency{Operation: "submit", Key: "l", Fingerprint: strings.Repeat("ab", 32)}
	for range 2 {
		if got := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, calltest.Item(f.Tenant, keyed))[0]; got.Problem == nil || got.Problem.Code != problem.SchemaMismatch || got.Status != 422 {
			t.Errorf("one that was never accepted: %+v", got)
		}
	}
	flow := hop.SubmitJobsRequest{
		IDs: []string{uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "t"}, {Type: "t"}}, Problems: append([]*problem.Problem{nil}, misfit...),
		Batch: true, Atomic: true, Idempotency: &hop.Idempotency{Operation: "flow", Key: "k", Fingerprint: strings.Repeat("ab", 32)},
		Workflow: &hop.SubmittedWorkflow{ID: uuid.Must(uuid.NewV7()).String(), Name: "w", Refs: []string{"a", "b"}, After: [][]api.WorkflowDependency{nil, {{Ref: "a"}}}},
	}
	if got := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, calltest.Item(f.Tenant, flow))[0]; got.Problem == nil || got.Problem.Code != problem.SchemaMismatch {
		t.Errorf("a workflow: %+v", got)
	}
	if list := calltest.One[api.Page[api.JobSummary]](f, hop.ListJobs.Path, f.Tenant, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 10}}); len(list.Items) != 1 {
		t.Errorf("%d jobs are stored", len(list.Items))
	}
}
