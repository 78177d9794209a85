package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]client.Options{
		"no URL":         {APIKey: "k"},
		"no scheme":      {URL: "127.0.0.1:8080", APIKey: "k"},
		"another scheme": {URL: "ftp://a", APIKey: "k"},
		"a query":        {URL: "http://a?b=c", APIKey: "k"},
		"no key":         {URL: "http://a"},
		"a key's line":   {URL: "http://a", APIKey: "k\n"},
	} {
		if _, err := client.New(options); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c, err := client.New(client.Options{URL: "https://example.com/forgequeue/", APIKey: "fq_secret"})
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%v %+v %#v %s", c, c, c, c); strings.Contains(shown, "fq_secret") {
		t.Errorf("the key is shown: %s", shown)
	}
}

// An https URL of a server that speaks http: the error says what to change.
func TestAServerWithoutTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c, err := client.New(client.Options{URL: strings.Replace(server.URL, "http:", "https:", 1), APIKey: "fq_secret"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Whoami(t.Context()); err == nil || !strings.Contains(err.Error(), "use http:// in the URL") {
		t.Errorf("error %v", err)
	}
}

func TestEveryCallGoesToItsRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			answer(w, http.StatusOK, map[string]any{})
		})
		c, ctx, delay := s.client, t.Context(), int64(1000)
		noon := api.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("CET", 3600)))
		later := api.At(time.Date(2026, 11, 20, 12, 0, 0, 1000, time.UTC))
		for _, test := range []struct {
			want string
			call func() error
		}{
			{`GET /v1/jobs/j1  `, func() error { _, err := c.Get(ctx, "j1"); return err }},
			{`GET /v1/jobs/j1/explain details=true `, func() error { _, err := c.ExplainDetails(ctx, "j1"); return err }},
			{`GET /v1/jobs/j1/explain  `, func() error { _, err := c.Explain(ctx, "j1"); return err }},
			{`GET /v1/jobs/a%2Fb%3Fc  `, func() error { _, err := c.Get(ctx, "a/b?c"); return err }},
			{`POST /console/links  `, func() error { _, err := c.ConsoleLink(ctx); return err }},
			{`GET /v1/whoami  `, func() error { _, err := c.Whoami(ctx); return err }},
			{`POST /v1/workers  {"worker_id":"w"}`, func() error { _, err := c.Register(ctx, api.WorkerRequest{WorkerID: "w"}); return err }},
			{`DELETE /v1/workers/w%201  `, func() error { return c.RemoveWorker(ctx, "w 1") }},
			{`POST /v1/workers/w%201/heartbeat  {"leases":[{"job_id":"j","lease_token":"t"}]}`, func() error {
				_, err := c.Heartbeat(ctx, "w 1", []api.Lease{{JobID: "j", LeaseToken: "t"}})
				return err
			}},
			{`POST /v1/claims  {"worker_id":"w","queues":["q"]}`, func() error {
				_, err := c.Claim(ctx, api.ClaimRequest{WorkerID: "w", Queues: []string{"q"}})
				return err
			}},
			{`POST /v1/jobs/j/complete  {"lease_token":"t","result":{"html":"<b>"}}`, func() error {
				_, err := c.Complete(ctx, "j", api.CompleteRequest{LeaseToken: "t", Result: json.RawMessage(`{"html": "<b>"}`)})
				return err
			}},
			{`POST /v1/jobs/j/fail  {"lease_token":"t","permanent":true}`, func() error {
				_, err := c.Fail(ctx, "j", api.FailRequest{LeaseToken: "t", Permanent: true})
				return err
			}},
			{`POST /v1/jobs/j/snooze  {"lease_token":"t","delay_ms":1000}`, func() error {
				_, err := c.Snooze(ctx, "j", api.SnoozeRequest{LeaseToken: "t", DelayMS: &delay})
				return err
			}},
			{`POST /v1/jobs/j/wait  {"lease_token":"t","for":["approved"],"timeout_ms":1000}`, func() error {
				_, err := c.ReportWait(ctx, "j", api.WaitRequest{LeaseToken: "t", For: []string{"approved"}, TimeoutMS: &delay})
				return err
			}},
			{`POST /v1/jobs/a%2Fb/signals  {"name":"approved","data":{"by":"ada"}}`, func() error {
				_, err := c.Signal(ctx, "a/b", api.SignalRequest{Name: "approved", Data: json.RawMessage(`{"by":"ada"}`)})
				return err
			}},
			{`PATCH /v1/jobs/a%2Fb  {"priority":9,"tags":[]}`, func() error {
				_, err := c.PatchJob(ctx, "a/b", api.JobPatch{Priority: new(9), Tags: []string{}})
				return err
			}},
			{`POST /v1/jobs/j/signal-links  {"name":"approved","title":"Refund?","expires_ms":1000}`, func() error {
				_, err := c.CreateSignalLink(ctx, "j", api.SignalLinkRequest{Name: "approved", Title: "Refund?", ExpiresMS: &delay})
				return err
			}},
			{`POST /v1/jobs/j/release  {"lease_token":"t"}`, func() error {
				_, err := c.Release(ctx, "j", api.ReleaseRequest{LeaseToken: "t"})
				return err
			}},
			{`POST /v1/outcomes  {"outcomes":[{"job_id":"j","kind":"release","lease_token":"t"}]}`, func() error {
				_, err := c.Outcomes(ctx, []api.OutcomeRequest{{JobID: "j", Kind: api.KindRelease, LeaseToken: "t"}})
				return err
			}},
			{`GET /v1/jobs  `, func() error { _, err := c.List(ctx, api.JobFilter{}, client.PageRequest{}); return err }},
			{`GET /v1/jobs created_after=2026-11-20T11%3A00%3A00Z&created_before=2026-11-20T12%3A00%3A00.000001Z&metadata.a=%26&metadata.b=&page_size=2&page_token=t&queue=q&state=queued%2Crunning&tag=g&type=y&user=u `, func() error {
				_, err := c.List(ctx, api.JobFilter{
					Queue: "q", Type: "y", States: []string{"queued", "running"}, Tag: "g", User: "u",
					Metadata:     map[string]string{"a": "&", "b": ""},
					CreatedAfter: &noon, CreatedBefore: &later,
				}, client.PageRequest{Size: 2, Token: "t"})
				return err
			}},
			{`GET /v1/jobs/j/attempts page_token=t `, func() error { _, err := c.Attempts(ctx, "j", client.PageRequest{Token: "t"}); return err }},
			{`POST /v1/jobs/j/cancel  `, func() error { _, err := c.Cancel(ctx, "j"); return err }},
			{`POST /v1/jobs/j/redrive  `, func() error { _, err := c.Redrive(ctx, "j"); return err }},
			{`GET /v1/dead-letters after=2026-11-20T11%3A00%3A00Z&before=2026-11-20T12%3A00%3A00.000001Z&fingerprint=0f&queue=q&reason=deadline&type=y `, func() error {
				_, err := c.DeadLetters(ctx, api.DeadLetterFilter{
					Queue: "q", Type: "y", Reason: api.ReasonDeadline, Fingerprint: "0f", After: &noon, Before: &later,
				}, client.PageRequest{})
				return err
			}},
			{`GET /v1/workers page_size=1 `, func() error { _, err := c.Workers(ctx, client.PageRequest{Size: 1}); return err }},
			{`GET /v1/queues depth_budget=7&page_size=1 `, func() error { _, err := c.QueuesWithin(ctx, 7, client.PageRequest{Size: 1}); return err }},
			{`GET /v1/queues/q/keys min_waiting=2&page_size=1 `, func() error { _, err := c.QueueKeys(ctx, "q", 2, client.PageRequest{Size: 1}); return err }},
			{`GET /v1/queues page_size=1 `, func() error { _, err := c.Queues(ctx, client.PageRequest{Size: 1}); return err }},
			{`GET /v1/queues/q:1  `, func() error { _, err := c.Queue(ctx, "q:1"); return err }},
			{`PUT /v1/queues/q  {}`, func() error { _, err := c.PutQueue(ctx, "q", api.QueueRequest{}); return err }},
			{`PUT /v1/queues/q  {"visibility_timeout_ms":1000}`, func() error {
				_, err := c.PutQueue(ctx, "q", api.QueueRequest{VisibilityTimeoutMS: &delay})
				return err
			}},
			{`POST /v1/queues/q/pause  `, func() error { _, err := c.PauseQueue(ctx, "q"); return err }},
			{`POST /v1/queues/q/probe  `, func() error { _, err := c.ProbeQueue(ctx, "q"); return err }},
			{`POST /v1/webhooks/w/probe  `, func() error { _, err := c.ProbeWebhook(ctx, "w"); return err }},
			{`GET /v1/types  `, func() error { _, err := c.Types(ctx, client.PageRequest{}); return err }},
			{`GET /v1/types/t  `, func() error { _, err := c.Type(ctx, "t"); return err }},
			{`GET /v1/types/t version=3 `, func() error { _, err := c.TypeVersion(ctx, "t", 3); return err }},
			{`GET /v1/types/t/versions  `, func() error { _, err := c.TypeVersions(ctx, "t", client.PageRequest{}); return err }},
			{`PUT /v1/types/t  {"description":"d"}`, func() error { _, err := c.PutType(ctx, "t", api.JobTypeRequest{Description: "d"}); return err }},
			{`PUT /v1/types/t force=true {}`, func() error { _, err := c.ForceType(ctx, "t", api.JobTypeRequest{}); return err }},
			{`DELETE /v1/types/t  `, func() error { return c.DeleteType(ctx, "t") }},
			{`POST /v1/queues/q/resume  `, func() error { _, err := c.ResumeQueue(ctx, "q"); return err }},
			{`POST /v1/admin/tenants  {"name":"a"}`, func() error { _, err := c.CreateTenant(ctx, api.TenantRequest{Name: "a"}); return err }},
			{`GET /v1/admin/tenants page_size=7&page_token=x%3D `, func() error {
				_, err := c.ListTenants(ctx, client.PageRequest{Size: 7, Token: "x="})
				return err
			}},
			{`POST /v1/admin/tenants/t1/keys  {"scopes":["read"]}`, func() error {
				_, err := c.CreateKey(ctx, "t1", api.KeyRequest{Scopes: []string{"read"}})
				return err
			}},
			{`POST /v1/admin/platform-keys  {}`, func() error { _, err := c.CreatePlatformKey(ctx, api.PlatformKeyRequest{}); return err }},
			{`PATCH /v1/admin/tenants/t1  {"weight":3}`, func() error {
				weight := 3
				_, err := c.PatchTenant(ctx, "t1", api.TenantPatch{Weight: &weight})
				return err
			}},
			{`GET /v1/admin/tenants/t1/keys page_size=7 `, func() error {
				_, err := c.ListKeys(ctx, "t1", client.PageRequest{Size: 7})
				return err
			}},
			{`POST /v1/keys  {"scopes":["read"]}`, func() error { _, err := c.CreateOwnKey(ctx, api.KeyRequest{Scopes: []string{"read"}}); return err }},
			{`GET /v1/keys page_size=7 `, func() error { _, err := c.OwnKeys(ctx, client.PageRequest{Size: 7}); return err }},
			{`DELETE /v1/keys/k1  `, func() error { return c.RevokeOwnKey(ctx, "k1") }},
			{`GET /v1/admin/plans/p  `, func() error { _, err := c.GetPlan(ctx, "p"); return err }},
			{`PUT /v1/admin/plans/p  {"limits":` + noLimits + `,"visibility_timeout_ms_max":1000}`, func() error {
				_, err := c.PutPlan(ctx, "p", api.PlanRequest{VisibilityTimeoutMSMax: &delay})
				return err
			}},
			{`DELETE /v1/sessions  `, func() error { return c.EndSessions(ctx) }},
			{`GET /v1/limits  `, func() error { _, err := c.Limits(ctx); return err }},
			{`GET /readyz  `, func() error { _, err := c.Ready(ctx); return err }},
			{`POST /v1/dead-letters/redrive  {"ids":["a","b"]}`, func() error {
				_, err := c.RedriveDeadLetters(ctx, []string{"a", "b"})
				return err
			}},
			{`POST /v1/dead-letters/redrive  {"ids":["a"],"dry_run":true}`, func() error { _, err := c.RedriveDryRun(ctx, []string{"a"}); return err }},
			{`POST /v1/dead-letters/discard  {"ids":["a"]}`, func() error { _, err := c.DiscardDeadLetters(ctx, []string{"a"}); return err }},
			{`POST /v1/dead-letters/discard  {"ids":["a"],"dry_run":true}`, func() error { _, err := c.DiscardDryRun(ctx, []string{"a"}); return err }},
			{`GET /v1/dead-letters/groups page_size=3&queue=q `, func() error {
				_, err := c.DeadLetterGroups(ctx, api.DeadLetterFilter{Queue: "q"}, 3)
				return err
			}},
			{`POST /v1/dead-letters/redrive  {"filter":{"queue":"q","before":"2026-11-20T11:00:00.000000Z"},"rate_per_second":2.5}`, func() error {
				_, err := c.RedriveMatching(ctx, api.DeadLetterFilter{Queue: "q", Before: &noon}, 2.5)
				return err
			}},
			{`POST /v1/dead-letters/discard  {"filter":{}}`, func() error { _, err := c.DiscardMatching(ctx, api.DeadLetterFilter{}, 0); return err }},
			{`POST /v1/dead-letters/redrive  {"filter":{"reason":"deadline"},"dry_run":true}`, func() error {
				_, err := c.CountMatching(ctx, api.DeadLetterFilter{Reason: api.ReasonDeadline})
				return err
			}},
			{`POST /v1/dead-letters/redrive  {"filter":{"queue":"q"},"rate_per_second":2,"canary":{"count":20,"success":0.9}}`, func() error {
				_, err := c.RedriveWithCanary(ctx, api.DeadLetterFilter{Queue: "q"}, 2, api.CanaryRequest{Count: 20, Success: 0.9})
				return err
			}},
			{`GET /v1/redrives/r  `, func() error { _, err := c.GetRedrive(ctx, "r"); return err }},
			{`GET /v1/redrives page_size=2 `, func() error { _, err := c.Redrives(ctx, client.PageRequest{Size: 2}); return err }},
			{`POST /v1/redrives/r/cancel  `, func() error { _, err := c.CancelRedrive(ctx, "r"); return err }},
			{`GET /v1/audit action=queue.put&key_id=k&object=q `, func() error {
				_, err := c.Audit(ctx, api.AuditFilter{Action: api.AuditQueuePut, Object: "q", KeyID: "k"}, client.PageRequest{})
				return err
			}},
			{`GET /v1/admin/audit after=2026-11-20T11%3A00%3A00Z&tenant=t `, func() error {
				_, err := c.AdminAudit(ctx, api.AuditFilter{Tenant: "t", After: &noon}, client.PageRequest{})
				return err
			}},
			{`DELETE /v1/admin/keys/k1  `, func() error { return c.RevokeKey(ctx, "k1") }},
		} {
			before := len(s.all())
			if err := test.call(); err != nil {
				t.Errorf("%s: %v", test.want, err)
				continue
			}
			got := s.all()[before]
			if line := got.Method + " " + got.Path + " " + got.Query + " " + got.Body; line != test.want {
				t.Errorf("sent %s\nwant %s", line, test.want)
			}
			if got.Header.Get("Authorization") != "Bearer fq_test_key" {
				t.Errorf("%s: Authorization is %q", test.want, got.Header.Get("Authorization"))
			}
			if typed := got.Header.Get("Content-Type") != ""; typed != (got.Body != "") {
				t.Errorf("%s: Content-Type is %q", test.want, got.Header.Get("Content-Type"))
			}
		}
		for _, id := range []string{"", ".", ".."} {
			if _, err := c.Get(ctx, id); err == nil {
				t.Errorf("%q passed for an id", id)
			}
		}
	})
}

// noLimits is a Limits without any.
const noLimits = `{"requests_per_second":null,"request_burst":null,"jobs_per_second":null,"job_burst":null,"max_active":null,"max_running":null,` +
	`"user_requests_per_second":null,"user_request_burst":null,"user_jobs_per_second":null,"user_job_burst":null,"user_max_active":null,"user_max_running":null}`

func TestAProblemComesWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			problem.Invalid(problem.FieldError{Field: "priority", Message: "must be between 0 and 9"}).Write(w)
		})
		_, err := s.client.Submit(t.Context(), aJob)
		var p *problem.Problem
		if !errors.As(err, &p) || p.Code != problem.InvalidRequest || len(p.Errors) != 1 {
			t.Fatalf("the error is %v", err)
		}
		if want := "POST /v1/jobs: invalid_request: priority: must be between 0 and 9"; err.Error() != want {
			t.Errorf("the error reads %q, want %q", err, want)
		}
		if client.Status(err) != 400 || len(s.all()) != 1 {
			t.Errorf("status %d after %d tries", client.Status(err), len(s.all()))
		}
	})
}

func TestAnAnswerThatIsNoProblemIsShown(t *testing.T) {
	t.Parallel()
	long := "<html>" + strings.Repeat("é", 500)
	for name, test := range map[string]struct {
		handle func(w http.ResponseWriter)
		status int
	}{
		"a page": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(long))
		}, 403},
		"a page with 200": {func(w http.ResponseWriter) { _, _ = w.Write([]byte(long)) }, 200},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusMultipleChoices)
			_, _ = w.Write([]byte(long))
		}, 300},
		"a problem without a code": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", problem.ContentType)
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(`{"title":"<html>"}`))
		}, 418},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { test.handle(w) })
				_, err := s.client.Get(t.Context(), "j1")
				var odd *client.StatusError
				if !errors.As(err, &odd) || odd.Status != test.status {
					t.Fatalf("the error is %v", err)
				}
				if !strings.Contains(odd.Body, "<html>") || len(odd.Body) > 205 {
					t.Errorf("the body is shown as %q (%d bytes)", odd.Body, len(odd.Body))
				}
			})
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				if _, err := w.Write(chunk); err != nil {
					return // the client has hung up, as it should
				}
			}
		})
		_, err := s.client.Get(t.Context(), "j1")
		if err == nil || !strings.Contains(err.Error(), "too large") || len(s.all()) != 1 {
			t.Errorf("%d tries, error %v", len(s.all()), err)
		}
		// The largest claim is smaller, however many jobs are asked for.
		_, err = s.client.Claim(t.Context(), api.ClaimRequest{WorkerID: "w", Queues: []string{"q"}, Max: new(api.MaxClaim)})
		if err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("a claim: %v", err)
		}
	})
}
