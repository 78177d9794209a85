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

// routes are the operations, each a POST. A handler serves one item of a call: each takes them one
// after the other, atOnce side by side, together in one commit. owned, overseen and plain (principals.go) admit whom the
// operation's access names; of the others the handlers judge the principal.
func (s *Server) routes() []route { //nolint:funlen // one table
	return []route{
		together(hop.SubmitJobs, s.submitJobs),
		together(hop.RerunJob, s.rerunJobs),
		each(hop.GetJob, owned(s.getJob)),
		each(hop.ListJobs, owned(s.listJobs)),
		each(hop.ListAttempts, owned(s.listAttempts)),
		each(hop.CancelJob, owned(s.cancelJob)),
		each(hop.DeleteJob, owned(s.deleteJob)),
		atOnce(hop.WaitForJob, owned(s.waitForJob)),
		each(hop.ExplainJob, owned(s.explainJob)),

		each(hop.ListParents, owned(s.listParents)),
		each(hop.GetWorkflow, owned(s.getWorkflow)),
		each(hop.ListWorkflows, owned(s.listWorkflows)),
		each(hop.CancelWorkflow, owned(s.cancelWorkflow)),
		each(hop.RedriveWorkflow, owned(s.redriveWorkflow)),

		{hop.ClaimJobs.Operation, s.claimJobs},
		atOnce(hop.ReportOutcomes, owned(s.reportOutcomes)), // at once, so that they share a commit
		each(hop.Heartbeat, owned(s.heartbeat)),
		each(hop.RegisterWorker, owned(s.registerWorker)),
		atOnce(hop.Leave, owned(s.leave)),
		each(hop.ListWorkers, owned(s.listWorkers)),

		each(hop.ListQueues, owned(s.listQueues)),
		each(hop.GetQueue, owned(s.getQueue)),
		each(hop.PutQueue, owned(s.putQueue)),
		each(hop.PauseQueue, owned(s.pauseQueue)),
		each(hop.ProbeQueue, owned(s.probeQueue)),
		each(hop.DeleteQueue, owned(s.deleteQueue)),
		each(hop.GetStats, owned(s.readStats)),
		each(hop.GetLimitStats, owned(s.readLimitStats)),
		each(hop.RecordLimitUses, owned(s.recordLimitUses)),
		each(hop.GetUsage, owned(s.readUsage)),

		each(hop.ListDeadLetters, owned(s.listDeadLetters)),
		each(hop.GroupDeadLetters, owned(s.groupDeadLetters)),
		each(hop.RedriveDeadLetters, owned(s.redriveDeadLetters)),
		each(hop.DiscardDeadLetters, owned(s.discardDeadLetters)),
		each(hop.RedriveJob, owned(s.redriveJob)),
		each(hop.GetRedrive, owned(s.getRedrive)),
		each(hop.ListRedrives, owned(s.listRedrives)),
		each(hop.CancelRedrive, owned(s.cancelRedrive)),

		each(hop.PutType, owned(s.putType)),
		each(hop.GetType, owned(s.getType)),
		each(hop.ListTypes, owned(s.listTypes)),
		each(hop.ListTypeVersions, owned(s.listTypeVersions)),
		each(hop.DeleteType, owned(s.deleteType)),
		each(hop.GetTypeDocuments, owned(s.documentTypes)),
		each(hop.GetTypeSet, owned(s.readTypes)),

		each(hop.PutSchedule, owned(s.putSchedule)),
		each(hop.GetSchedule, owned(s.getSchedule)),
		each(hop.ListSchedules, owned(s.listSchedules)),
		each(hop.DeleteSchedule, owned(s.deleteSchedule)),
		each(hop.PauseSchedule, owned(s.pauseSchedule)),
		together(hop.TriggerSchedule, s.triggerSchedules),
		each(hop.ListScheduleRuns, owned(s.listScheduleRuns)),

		each(hop.PutWebhook, owned(s.putWebhook)),
		each(hop.GetWebhook, owned(s.getWebhook)),
		each(hop.ListWebhooks, owned(s.listWebhooks)),
		each(hop.DeleteWebhook, owned(s.deleteWebhook)),
		each(hop.RotateWebhookSecret, owned(s.rotateWebhookSecret)),
		each(hop.ProbeWebhook, owned(s.probeWebhook)),
		each(hop.TestWebhook, owned(s.testWebhook)),

		each(hop.CreateTenant, plain(s.createTenant)),
		each(hop.ListTenants, plain(s.listTenants)),
		each(hop.GetTenantStats, plain(s.readTenantStats)),
		each(hop.PatchTenant, plain(s.patchTenant)),
		each(hop.GetTenant, plain(s.getTenant)),
		each(hop.DeleteTenant, plain(s.deleteTenant)),
		each(hop.LookUpKey, plain(s.lookUpKey)),
		each(hop.CreateKey, overseen(s.createKey)),
		each(hop.ListKeys, overseen(s.listKeys)),
		each(hop.RevokeKey, overseen(s.revokeKey)),
		each(hop.EndSessions, owned(s.endSessions)),
		each(hop.GetPlan, plain(s.getPlan)),
		each(hop.ListPlans, plain(s.listPlans)),
		each(hop.PutPlan, plain(s.putPlan)),
		each(hop.GetInstallation, plain(s.installation)),
		atOnce(hop.ReadDirectory, plain(s.readDirectory)),
		each(hop.ReportProcess, plain(s.reportProcess)),
		each(hop.ListCaps, owned(s.listCaps)),
		each(hop.ListAudit, overseen(s.listAudit)),

		each(hop.GetReadiness, plain(s.readiness)),
	}
}
