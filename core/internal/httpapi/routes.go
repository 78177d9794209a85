package httpapi

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// probes need no signature and take no body. HEAD is served as GET is.
func (s *Server) probes() map[string]handler {
	return map[string]handler{"/livez": s.livez, "/readyz": s.readyz}
}

// waitOf is how long a handler may wait on purpose, on top of defaultTimeout.
func waitOf(path string) time.Duration {
	switch path {
	case hop.ClaimJobs.Path:
		return api.MaxWait
	case hop.ReadDirectory.Path:
		return directory.MaxWait
	}
	return 0
}

// route is an operation with its handler.
type route struct {
	op    hop.Operation
	serve handler
}

// Operations are the paths of all operations.
func Operations() (paths []string) {
	for _, r := range (&Server{}).routes() {
		paths = append(paths, r.op.Path)
	}
	return paths
}

// routes are the operations, each a POST. A handler serves one item of a call: each takes them one after the other, atOnce side
// by side. together has a handler for all items, and so has untilSent, whose handler also gives what undoes it. owned, overseen
// and plain (admit.go) admit whom the operation's access names; of the others the handlers judge the principal.
func (s *Server) routes() []route { //nolint:funlen // one table
	o, a := s.Operations, s.Administration
	return []route{
		together(hop.SubmitJobs, o.SubmitJobs),
		together(hop.RerunJob, o.RerunJobs),
		each(hop.GetJob, owned(o.GetJob)),
		each(hop.ListJobs, owned(o.ListJobs)),
		each(hop.ListAttempts, owned(o.ListAttempts)),
		each(hop.CancelJob, owned(o.CancelJob)),
		each(hop.PatchJob, owned(o.PatchJob)),
		each(hop.SignalJob, owned(o.SignalJob)),
		each(hop.ListSignals, owned(o.ListSignals)),
		each(hop.ReadOutput, owned(o.ReadOutput)),
		each(hop.DeleteJob, owned(o.DeleteJob)),
		atOnce(hop.WaitForJob, owned(o.WaitForJob)),
		each(hop.ExplainJob, owned(o.ExplainJob)),

		each(hop.CreateBulk, owned(o.CreateBulk)),
		each(hop.GetBulk, owned(o.GetBulk)),
		each(hop.ListBulk, owned(o.ListBulk)),
		each(hop.CancelBulk, owned(o.CancelBulk)),

		each(hop.ListParents, owned(o.ListParents)),
		each(hop.GetWorkflow, owned(o.GetWorkflow)),
		each(hop.ListWorkflows, owned(o.ListWorkflows)),
		each(hop.CancelWorkflow, owned(o.CancelWorkflow)),
		each(hop.RedriveWorkflow, owned(o.RedriveWorkflow)),

		untilSent(hop.ClaimJobs, o.ClaimJobs),
		atOnce(hop.ReportOutcomes, owned(o.ReportOutcomes)), // at once, so that they share a commit
		each(hop.AppendOutput, owned(o.AppendOutput)),
		each(hop.Heartbeat, owned(o.Heartbeat)),
		each(hop.RegisterWorker, owned(o.RegisterWorker)),
		atOnce(hop.Leave, owned(o.Leave)),
		each(hop.ListWorkers, owned(o.ListWorkers)),

		each(hop.ListQueues, owned(o.ListQueues)),
		each(hop.ListQueueKeys, owned(o.ListQueueKeys)),
		each(hop.GetQueue, owned(o.GetQueue)),
		each(hop.ScaleQueue, owned(o.ScaleQueue)),
		each(hop.PutQueue, owned(o.PutQueue)),
		each(hop.PauseQueue, owned(o.PauseQueue)),
		each(hop.ProbeQueue, owned(o.ProbeQueue)),
		each(hop.DeleteQueue, owned(o.DeleteQueue)),
		each(hop.GetStats, owned(a.ReadStats)),
		each(hop.GetLimitStats, owned(a.ReadLimitStats)),
		each(hop.RecordLimitUses, owned(a.RecordLimitUses)),
		each(hop.GetUsage, owned(a.ReadUsage)),

		each(hop.ListDeadLetters, owned(o.ListDeadLetters)),
		each(hop.GroupDeadLetters, owned(o.GroupDeadLetters)),
		each(hop.RedriveDeadLetters, owned(o.RedriveDeadLetters)),
		each(hop.DiscardDeadLetters, owned(o.DiscardDeadLetters)),
		each(hop.RedriveJob, owned(o.RedriveJob)),
		each(hop.GetRedrive, owned(o.GetRedrive)),
		each(hop.ListRedrives, owned(o.ListRedrives)),
		each(hop.CancelRedrive, owned(o.CancelRedrive)),

		each(hop.PutType, owned(o.PutType)),
		each(hop.GetType, owned(o.GetType)),
		each(hop.ListTypes, owned(o.ListTypes)),
		each(hop.ListTypeVersions, owned(o.ListTypeVersions)),
		each(hop.DeleteType, owned(o.DeleteType)),
		each(hop.GetTypeDocuments, owned(o.DocumentTypes)),
		each(hop.GetTypeSet, owned(o.ReadTypes)),

		each(hop.PutSchedule, owned(o.PutSchedule)),
		each(hop.GetSchedule, owned(o.GetSchedule)),
		each(hop.ListSchedules, owned(o.ListSchedules)),
		each(hop.DeleteSchedule, owned(o.DeleteSchedule)),
		each(hop.PauseSchedule, owned(o.PauseSchedule)),
		together(hop.TriggerSchedule, o.TriggerSchedules),
		each(hop.ListScheduleRuns, owned(o.ListScheduleRuns)),

		each(hop.PutBudget, owned(o.PutBudget)),
		each(hop.GetBudget, owned(o.GetBudget)),
		each(hop.ListBudgets, owned(o.ListBudgets)),
		each(hop.DeleteBudget, owned(o.DeleteBudget)),
		each(hop.GetBudgetUsage, owned(o.ReadBudgetUsage)),

		each(hop.PutWebhook, owned(o.PutWebhook)),
		each(hop.GetWebhook, owned(o.GetWebhook)),
		each(hop.ListWebhooks, owned(o.ListWebhooks)),
		each(hop.DeleteWebhook, owned(o.DeleteWebhook)),
		each(hop.RotateWebhookSecret, owned(o.RotateWebhookSecret)),
		each(hop.ProbeWebhook, owned(o.ProbeWebhook)),
		each(hop.TestWebhook, owned(o.TestWebhook)),

		each(hop.CreateTenant, plain(a.CreateTenant)),
		each(hop.ListTenants, plain(a.ListTenants)),
		each(hop.GetTenantStats, plain(a.ReadTenantStats)),
		each(hop.PatchTenant, plain(a.PatchTenant)),
		each(hop.GetTenant, plain(a.GetTenant)),
		each(hop.DeleteTenant, plain(a.DeleteTenant)),
		each(hop.LookUpKey, plain(a.LookUpKey)),
		each(hop.LookUpTenant, plain(a.LookUpTenant)),
		each(hop.CreateKey, overseen(a.CreateKey)),
		each(hop.ListKeys, overseen(a.ListKeys)),
		each(hop.RevokeKey, overseen(a.RevokeKey)),
		each(hop.EndSessions, owned(a.EndSessions)),
		each(hop.GetPlan, plain(a.GetPlan)),
		each(hop.ListPlans, plain(a.ListPlans)),
		each(hop.PutPlan, plain(a.PutPlan)),
		each(hop.GetInstallation, plain(a.ReadInstallation)),
		atOnce(hop.ReadDirectory, plain(a.ReadDirectory)),
		each(hop.ReportProcess, plain(a.ReportProcess)),
		each(hop.ListCaps, owned(a.ListCaps)),
		each(hop.ListAudit, overseen(a.ListAudit)),

		each(hop.GetReadiness, plain(s.readiness)),
	}
}
