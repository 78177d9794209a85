package httpapi

import (
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
)

// route is the rules that apply to a request before its handler runs.
type route struct {
	method string
	path   string // as in the contract: /v1/jobs/{id}
	access access
	body   request.Accept
	cost   admission.CostKind
	// query names the parameters that may be given, each once; a name that ends in
	// a dot stands for all that begin with it.
	query []string
	// operation names the request to idempotency; empty where an Idempotency-Key
	// is not taken.
	operation string
	serve     handler
}

// pattern is the route's path as gin writes it: /v1/jobs/:id.
func (r route) pattern() string {
	return strings.NewReplacer("{", ":", "}", "").Replace(r.path)
}

// Columns of the table.
var (
	noBody         = request.Accept{}
	body           = request.Accept{Max: api.MaxBody}
	bodyOrNone     = request.Accept{Max: api.MaxBody, Optional: true}
	longBody       = request.Accept{Max: api.MaxBatchBody}
	longBodyOrNone = request.Accept{Max: api.MaxBatchBody, Optional: true}

	deadLetterFilter = []string{"queue", "type", "reason", "fingerprint", "after", "before"}
	auditFilter      = []string{"action", "object", "key_id", "after", "before"}
)

const (
	perRequest = admission.CostRequest
	perJob     = admission.CostJobs
	perReport  = admission.CostReports
	free       = admission.CostNothing
)

// page are the parameters that every list takes, with those that filter it.
func page(filter ...string) []string {
	return slices.Concat(filter, []string{"page_size", "page_token"})
}

// routes is every route, except those of the operator.
func (s *Server) routes() []route { return slices.Concat(s.jobRoutes(), s.settingsRoutes()) }

// jobRoutes are those of jobs, workflows and workers, and of the gateway itself.
func (s *Server) jobRoutes() []route {
	h := s.handlers
	read, submit, manage := scoped(api.ScopeRead), scoped(api.ScopeSubmit), scoped(api.ScopeManage)
	readTenant := unbound(read)
	work, readWorkers := allowPlatform(scoped(api.ScopeWork)), allowPlatform(readTenant)
	return []route{
		// method, path, access, body, cost, query, operation, handler
		{"GET", "/", public, noBody, perRequest, nil, "", handle(s.root)},
		{"GET", "/livez", public, noBody, perRequest, nil, "", handle(s.livez)},
		{"GET", "/readyz", public, noBody, perRequest, nil, "", handle(s.readyz)},
		{"GET", "/docs", public, noBody, perRequest, nil, "", docsPage},
		{"GET", "/docs/", public, noBody, perRequest, nil, "", docsSlash},
		{"GET", "/docs/{file}", public, noBody, perRequest, nil, "", docsFile},
		{"GET", "/problems/{code}", public, noBody, perRequest, nil, "", problemPage},

		{"POST", "/v1/jobs", submit, body, perJob, nil, "submit", priced(h.SubmitJob, h.Submit)},
		{"POST", "/v1/jobs/batch", submit, longBody, perJob, nil, "submit_batch", priced(h.SubmitBatch, h.Submit)},
		{"GET", "/v1/jobs", read, noBody, perRequest, page("queue", "type", "state", "tag", "user", "dedupe_key", "key", request.MetadataPrefix, "created_after", "created_before"), "", handle(h.ListJobs)},
		{"GET", "/v1/jobs/{id}", read, noBody, perRequest, nil, "", handle(h.GetJob)},
		{"PATCH", "/v1/jobs/{id}", submit, body, perRequest, nil, "", handle(h.PatchJob)},
		{"DELETE", "/v1/jobs/{id}", manage, noBody, perRequest, nil, "", handle(h.DeleteJob)},
		{"GET", "/v1/jobs/{id}/explain", read, noBody, perRequest, []string{"details"}, "", handle(h.ExplainJob)},
		{"GET", "/v1/jobs/{id}/events", allowEventsToken(read), noBody, perRequest, []string{"token"}, "", jobEvents},
		{"POST", "/v1/jobs/{id}/events-token", ofKey(read), bodyOrNone, perRequest, nil, "", handle(h.CreateEventsToken)},
		{"GET", "/v1/jobs/{id}/output", read, noBody, perRequest, []string{"after"}, "", jobOutput},
		{"GET", "/v1/jobs/{id}/attempts", read, noBody, perRequest, page(), "", handle(h.ListAttempts)},
		{"GET", "/v1/jobs/{id}/parents", allowPlatform(allowScope(read, api.ScopeWork)), noBody, perRequest, page(), "", handle(h.ListParents)},
		{"GET", "/v1/users/{user}/export", read, noBody, perRequest, nil, "", exportUser},
		{"POST", "/v1/jobs/{id}/rerun", submit, bodyOrNone, perJob, nil, "rerun", priced(h.RerunJob, h.Rerun)},
		{"POST", "/v1/jobs/{id}/signals", submit, body, perRequest, nil, "", handle(h.SignalJob)},
		{"POST", "/v1/jobs/{id}/signal-links", ofKey(submit), body, perRequest, nil, "", handle(h.CreateSignalLink)},
		{"GET", "/v1/signal-links/{token}", signalLink, noBody, perRequest, nil, "", handle(h.GetSignalLink)},
		{"POST", "/v1/signal-links/{token}", signalLink, bodyOrNone, perRequest, nil, "", handle(h.UseSignalLink)},
		{"POST", "/v1/jobs/{id}/cancel", submit, bodyOrNone, perRequest, nil, "", handle(h.CancelJob)},

		{"POST", "/v1/bulk", manage, body, perRequest, nil, "", handle(h.CreateBulk)},
		{"GET", "/v1/bulk", read, noBody, perRequest, page(), "", handle(h.ListBulk)},
		{"GET", "/v1/bulk/{id}", read, noBody, perRequest, nil, "", handle(h.GetBulk)},
		{"POST", "/v1/bulk/{id}/cancel", manage, bodyOrNone, perRequest, nil, "", handle(h.CancelBulk)},

		{"POST", "/v1/workflows", submit, longBody, perJob, nil, "submit_workflow", priced(h.SubmitWorkflow, h.Submit)},
		{"GET", "/v1/workflows", read, noBody, perRequest, page("state", "name"), "", handle(h.ListWorkflows)},
		{"GET", "/v1/workflows/{id}", read, noBody, perRequest, nil, "", handle(h.GetWorkflow)},
		{"POST", "/v1/workflows/{id}/jobs", submit, longBody, perJob, nil, "add_to_workflow", priced(h.AddToWorkflow, h.Submit)},
		{"POST", "/v1/workflows/{id}/cancel", submit, bodyOrNone, perRequest, nil, "", handle(h.CancelWorkflow)},
		{"POST", "/v1/workflows/{id}/redrive", manage, bodyOrNone, perRequest, nil, "", handle(h.RedriveWorkflow)},

		{"POST", "/v1/claims", work, body, perRequest, nil, "", handle(h.Claim)},
		{"POST", "/v1/jobs/{id}/complete", work, longBody, perReport, nil, "", priced(h.CompleteJob, h.Report)},
		{"POST", "/v1/jobs/{id}/fail", work, body, perReport, nil, "", priced(h.FailJob, h.Report)},
		{"POST", "/v1/jobs/{id}/snooze", work, body, perReport, nil, "", priced(h.SnoozeJob, h.Report)},
		{"POST", "/v1/jobs/{id}/wait", work, longBody, perReport, nil, "", priced(h.WaitJob, h.Report)},
		{"POST", "/v1/jobs/{id}/output", work, longBody, perReport, nil, "", priced(h.AppendOutput, h.StoreOutput)},
		{"POST", "/v1/jobs/{id}/release", work, body, perReport, nil, "", priced(h.ReleaseJob, h.Report)},
		{"POST", "/v1/outcomes", work, longBody, perReport, nil, "", priced(h.ReportOutcomes, h.ReportAll)},
		{"POST", "/v1/workers", work, body, perRequest, nil, "", handle(h.RegisterWorker)},
		{"POST", "/v1/workers/{worker_id}/heartbeat", work, longBodyOrNone, perReport, nil, "", priced(h.Heartbeat, h.Extend)},
		{"DELETE", "/v1/workers/{worker_id}", work, noBody, perRequest, nil, "", handle(h.RemoveWorker)},
		{"GET", "/v1/workers", readWorkers, noBody, perRequest, page(), "", handle(h.ListWorkers)},
	}
}

// settingsRoutes are those of what a tenant sets, counts and keeps: queues, dead letters, schedules, types, budgets, webhooks, keys.
func (s *Server) settingsRoutes() []route {
	h := s.handlers
	read, manage := scoped(api.ScopeRead), scoped(api.ScopeManage)
	readTenant, manageTenant := unbound(read), unbound(manage)
	return []route{
		{"GET", "/v1/queues", readTenant, noBody, perRequest, page("depth_budget"), "", handle(h.ListQueues)},
		{"GET", "/v1/queues/{name}", readTenant, noBody, perRequest, nil, "", handle(h.GetQueue)},
		{"GET", "/v1/queues/{name}/keys", readTenant, noBody, perRequest, page("min_waiting"), "", handle(h.ListQueueKeys)},
		{"GET", "/v1/queues/{name}/scale", readTenant, noBody, perRequest, []string{"target_wait_ms", "cold_start_ms"}, "", handle(h.ScaleQueue)},
		{"PUT", "/v1/queues/{name}", manageTenant, body, perRequest, nil, "", handle(h.PutQueue)},
		{"DELETE", "/v1/queues/{name}", manageTenant, noBody, perRequest, nil, "", handle(h.DeleteQueue)},
		{"POST", "/v1/queues/{name}/pause", manageTenant, bodyOrNone, perRequest, nil, "", handle(h.PauseQueue)},
		{"POST", "/v1/queues/{name}/resume", manageTenant, bodyOrNone, perRequest, nil, "", handle(h.ResumeQueue)},
		{"POST", "/v1/queues/{name}/probe", manageTenant, bodyOrNone, perRequest, nil, "", handle(h.ProbeQueue)},
		{"GET", "/v1/stats", readTenant, noBody, perRequest, []string{"queue", "from", "to", "step"}, "", handle(h.Stats)},
		{"GET", "/v1/limits/stats", readTenant, noBody, perRequest, []string{"queue", "from", "to", "step"}, "", handle(h.LimitStats)},
		{"GET", "/v1/usage", readTenant, noBody, perRequest, page("from", "to", "by"), "", handle(h.Usage)},

		{"GET", "/v1/dead-letters", read, noBody, perRequest, page(deadLetterFilter...), "", handle(h.ListDeadLetters)},
		{"GET", "/v1/dead-letters/groups", read, noBody, perRequest, append([]string{"page_size"}, deadLetterFilter...), "", handle(h.GroupDeadLetters)},
		{"POST", "/v1/dead-letters/redrive", manage, body, perRequest, nil, "", handle(h.RedriveDeadLetters)},
		{"POST", "/v1/dead-letters/discard", manage, body, perRequest, nil, "", handle(h.DiscardDeadLetters)},
		{"POST", "/v1/jobs/{id}/redrive", manage, bodyOrNone, perRequest, nil, "", handle(h.RedriveJob)},
		{"GET", "/v1/redrives", read, noBody, perRequest, page(), "", handle(h.ListRedrives)},
		{"GET", "/v1/redrives/{id}", read, noBody, perRequest, nil, "", handle(h.GetRedrive)},
		{"POST", "/v1/redrives/{id}/cancel", manage, bodyOrNone, perRequest, nil, "", handle(h.CancelRedrive)},

		{"GET", "/v1/schedules", read, noBody, perRequest, page(), "", handle(h.ListSchedules)},
		{"GET", "/v1/schedules/{name}", read, noBody, perRequest, nil, "", handle(h.GetSchedule)},
		{"PUT", "/v1/schedules/{name}", manage, body, perRequest, nil, "", handle(h.PutSchedule)},
		{"DELETE", "/v1/schedules/{name}", manage, noBody, perRequest, nil, "", handle(h.DeleteSchedule)},
		{"POST", "/v1/schedules/{name}/pause", manage, bodyOrNone, perRequest, nil, "", handle(h.PauseSchedule)},
		{"POST", "/v1/schedules/{name}/resume", manage, bodyOrNone, perRequest, nil, "", handle(h.ResumeSchedule)},
		{"POST", "/v1/schedules/{name}/trigger", manage, bodyOrNone, perJob, nil, "schedule_trigger", priced(h.TriggerSchedule, h.Trigger)},
		{"GET", "/v1/schedules/{name}/runs", read, noBody, perRequest, page(), "", handle(h.ListScheduleRuns)},

		{"GET", "/v1/audit", manageTenant, noBody, perRequest, page(auditFilter...), "", handle(h.ListAudit)},
		{"GET", "/v1/whoami", anyKey, noBody, free, nil, "", handle(h.Whoami)},
		{"DELETE", "/v1/sessions", ofKey(anyTenantKey), noBody, perRequest, nil, "", handle(h.EndSessions)},
		{"GET", "/v1/limits", anyTenantKey, noBody, free, []string{"user"}, "", handle(h.Limits)},
	}
}

// webhookRoutes are those of webhooks.
func (s *Server) webhookRoutes() []route {
	h := s.handlers
	readTenant, manageTenant := unbound(scoped(api.ScopeRead)), unbound(scoped(api.ScopeManage))
	return []route{
		{"GET", "/v1/budgets", readTenant, noBody, perRequest, page(), "", handle(h.ListBudgets)},
		{"GET", "/v1/budgets/{name}", readTenant, noBody, perRequest, []string{"subject"}, "", handle(h.GetBudget)},
		{"PUT", "/v1/budgets/{name}", manageTenant, body, perRequest, nil, "", handle(h.PutBudget)},
		{"DELETE", "/v1/budgets/{name}", manageTenant, noBody, perRequest, nil, "", handle(h.DeleteBudget)},
		{"GET", "/v1/budgets/{name}/usage", readTenant, noBody, perRequest, []string{"from", "to"}, "", handle(h.BudgetUsage)},

		{"GET", "/v1/webhooks", readTenant, noBody, perRequest, page(), "", handle(h.ListWebhooks)},
		{"GET", "/v1/webhooks/{name}", readTenant, noBody, perRequest, nil, "", handle(h.GetWebhook)},
		{"PUT", "/v1/webhooks/{name}", manageTenant, body, perRequest, nil, "", handle(h.PutWebhook)},
		{"DELETE", "/v1/webhooks/{name}", manageTenant, noBody, perRequest, nil, "", handle(h.DeleteWebhook)},
		{"POST", "/v1/webhooks/{name}/rotate-secret", manageTenant, bodyOrNone, perRequest, nil, "webhook_rotate", handle(h.RotateWebhookSecret)},
		{"POST", "/v1/webhooks/{name}/probe", manageTenant, bodyOrNone, perRequest, nil, "", handle(h.ProbeWebhook)},
		{"POST", "/v1/webhooks/{name}/test", manageTenant, bodyOrNone, perRequest, nil, "webhook_test", handle(h.TestWebhook)},
	}
}

// typeRoutes are those of types of jobs.
func (s *Server) typeRoutes() []route {
	h := s.handlers
	read, manageTenant := scoped(api.ScopeRead), unbound(scoped(api.ScopeManage))
	return []route{
		{"GET", "/v1/types", read, noBody, perRequest, page(), "", handle(h.ListTypes)},
		{"GET", "/v1/types/{type}", read, noBody, perRequest, []string{"version"}, "", handle(h.GetType)},
		{"GET", "/v1/types/{type}/versions", read, noBody, perRequest, page(), "", handle(h.ListTypeVersions)},
		{"PUT", "/v1/types/{type}", manageTenant, body, perRequest, []string{"force"}, "", handle(h.PutType)},
		{"DELETE", "/v1/types/{type}", manageTenant, noBody, perRequest, nil, "", handle(h.DeleteType)},
		{"GET", "/v1/openapi", read, noBody, perRequest, nil, "", handle(h.GetOpenAPI)},
	}
}

// keyRoutes are those of a tenant's own keys.
func (s *Server) keyRoutes() []route {
	h := s.handlers
	admin := unbound(scoped(api.ScopeAdmin))
	return []route{
		{"GET", "/v1/keys", admin, noBody, perRequest, page(), "", handle(h.ListOwnKeys)},
		{"POST", "/v1/keys", admin, body, perRequest, nil, "", handle(h.CreateOwnKey)},
		{"DELETE", "/v1/keys/{key_id}", admin, noBody, perRequest, nil, "", handle(h.RevokeOwnKey)},
	}
}

// adminRoutes exist only if there is an operator key.
func (s *Server) adminRoutes() []route {
	h := s.handlers
	return []route{
		{"POST", "/v1/admin/tenants", operatorOnly, body, perRequest, nil, "", handle(h.CreateTenant)},
		{"GET", "/v1/admin/tenants", operatorOnly, noBody, perRequest, page(), "", handle(h.ListTenants)},
		{"GET", "/v1/admin/tenants/stats", operatorOnly, noBody, perRequest, []string{"from", "to", "step"}, "", handle(h.TenantStats)},
		{"GET", "/v1/admin/tenants/{id}", operatorOnly, noBody, perRequest, nil, "", handle(h.GetTenant)},
		{"DELETE", "/v1/admin/tenants/{id}", operatorOnly, noBody, perRequest, nil, "", handle(h.DeleteTenant)},
		{"PATCH", "/v1/admin/tenants/{id}", operatorOnly, body, perRequest, nil, "", handle(h.PatchTenant)},
		{"POST", "/v1/admin/tenants/{id}/keys", operatorOnly, body, perRequest, nil, "", handle(h.CreateKey)},
		{"GET", "/v1/admin/tenants/{id}/keys", operatorOnly, noBody, perRequest, page(), "", handle(h.ListKeys)},
		{"POST", "/v1/admin/platform-keys", operatorOnly, bodyOrNone, perRequest, nil, "", handle(h.CreatePlatformKey)},
		{"DELETE", "/v1/admin/keys/{key_id}", operatorOnly, noBody, perRequest, nil, "", handle(h.RevokeKey)},
		{"GET", "/v1/admin/plans", operatorOnly, noBody, perRequest, page(), "", handle(h.ListPlans)},
		{"GET", "/v1/admin/plans/{name}", operatorOnly, noBody, perRequest, nil, "", handle(h.GetPlan)},
		{"PUT", "/v1/admin/plans/{name}", operatorOnly, body, perRequest, nil, "", handle(h.PutPlan)},
		{"GET", "/v1/admin/installation", operatorOnly, noBody, perRequest, nil, "", handle(s.installation)},
		{"GET", "/v1/admin/audit", operatorOnly, noBody, perRequest, page(append([]string{"tenant"}, auditFilter...)...), "", handle(h.ListAllAudit)},
	}
}
