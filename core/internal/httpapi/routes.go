package httpapi

import (
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/hop"
)

// probes need no signature and take no body. HEAD is served as GET is.
func (s *Server) probes() map[string]handler {
	return map[string]handler{"/livez": s.livez, "/readyz": s.readyz}
}

// waitOf is how long a handler may wait on purpose, on top of defaultTimeout.
func waitOf(path string) time.Duration {
	if path == hop.ClaimJobs {
		return api.MaxWait
	}
	return 0
}

// routes are the calls of gateways, each a POST. A handler serves one item of a call: each takes them one
// after the other, atOnce side by side, together in one commit. forTenant and its like (principals.go) say
// whose principal an item must have; the others judge it themselves.
//
// e2e/openapi reads this table: the comment over a block is its group in api-docs/core.json.
func (s *Server) routes() map[string]handler { //nolint:funlen // one table
	return map[string]handler{
		// Jobs
		hop.SubmitJobs:   together(s.submitJobs),
		hop.RerunJob:     together(s.rerunJobs),
		hop.GetJob:       each(forTenant(s.getJob)),
		hop.ListJobs:     each(forTenant(s.listJobs)),
		hop.ListAttempts: each(forTenant(s.listAttempts)),
		hop.CancelJob:    each(forTenant(s.cancelJob)),
		hop.DeleteJob:    each(forTenant(s.deleteJob)),
		hop.WaitForJob:   atOnce(forTenant(s.waitForJob)),
		hop.ExplainJob:   each(forTenant(s.explainJob)),

		// Workflows
		hop.ListParents:     each(forReaderOrWorker(s.listParents)),
		hop.GetWorkflow:     each(forTenant(s.getWorkflow)),
		hop.ListWorkflows:   each(forTenant(s.listWorkflows)),
		hop.CancelWorkflow:  each(forTenant(s.cancelWorkflow)),
		hop.RedriveWorkflow: each(forTenant(s.redriveWorkflow)),

		// Workers
		hop.ClaimJobs:      s.claimJobs,
		hop.ReportOutcomes: atOnce(forWorker(s.reportOutcomes)), // at once, so that they share a commit
		hop.Heartbeat:      each(forWorker(s.heartbeat)),
		hop.RegisterWorker: each(forWorker(s.registerWorker)),
		hop.Leave:          atOnce(forWorker(s.leave)),
		hop.ListWorkers:    each(forManagerOrPlatform(s.listWorkers)),

		// Queues
		hop.ListQueues:      each(forManager(s.listQueues)),
		hop.GetQueue:        each(forManager(s.getQueue)),
		hop.PutQueue:        each(forManager(s.putQueue)),
		hop.PauseQueue:      each(forManager(s.pauseQueue)),
		hop.ProbeQueue:      each(forManager(s.probeQueue)),
		hop.DeleteQueue:     each(forManager(s.deleteQueue)),
		hop.GetStats:        each(forManager(s.readStats)),
		hop.GetLimitStats:   each(forManager(s.readLimitStats)),
		hop.RecordLimitUses: each(forManager(s.recordLimitUses)),
		hop.GetUsage:        each(forManager(s.readUsage)),

		// Dead letters
		hop.ListDeadLetters:    each(forTenant(s.listDeadLetters)),
		hop.GroupDeadLetters:   each(forTenant(s.groupDeadLetters)),
		hop.RedriveDeadLetters: each(forTenant(s.redriveDeadLetters)),
		hop.DiscardDeadLetters: each(forTenant(s.discardDeadLetters)),
		hop.RedriveJob:         each(forTenant(s.redriveJob)),
		hop.GetRedrive:         each(forTenant(s.getRedrive)),
		hop.ListRedrives:       each(forTenant(s.listRedrives)),
		hop.CancelRedrive:      each(forTenant(s.cancelRedrive)),

		// Job types
		hop.PutType:          each(forManager(s.putType)),
		hop.GetType:          each(forTenant(s.getType)),
		hop.ListTypes:        each(forTenant(s.listTypes)),
		hop.ListTypeVersions: each(forTenant(s.listTypeVersions)),
		hop.DeleteType:       each(forManager(s.deleteType)),
		hop.GetTypeDocuments: each(forTenant(s.documentTypes)),
		hop.GetTypeSet:       each(forTenant(s.readTypes)),

		// Schedules
		hop.PutSchedule:      each(forTenant(s.putSchedule)),
		hop.GetSchedule:      each(forTenant(s.getSchedule)),
		hop.ListSchedules:    each(forTenant(s.listSchedules)),
		hop.DeleteSchedule:   each(forTenant(s.deleteSchedule)),
		hop.PauseSchedule:    each(forTenant(s.pauseSchedule)),
		hop.TriggerSchedule:  together(s.triggerSchedules),
		hop.ListScheduleRuns: each(forTenant(s.listScheduleRuns)),

		// Webhooks
		hop.PutWebhook:          each(forManager(s.putWebhook)),
		hop.GetWebhook:          each(forManager(s.getWebhook)),
		hop.ListWebhooks:        each(forManager(s.listWebhooks)),
		hop.DeleteWebhook:       each(forManager(s.deleteWebhook)),
		hop.RotateWebhookSecret: each(forManager(s.rotateWebhookSecret)),
		hop.ProbeWebhook:        each(forManager(s.probeWebhook)),
		hop.TestWebhook:         each(forManager(s.testWebhook)),

		// Tenants and keys
		hop.CreateTenant:    each(forOperator(s.createTenant)),
		hop.ListTenants:     each(forOperator(s.listTenants)),
		hop.GetTenantStats:  each(forOperator(s.readTenantStats)),
		hop.PatchTenant:     each(forOperator(s.patchTenant)),
		hop.GetTenant:       each(forOperator(s.getTenant)),
		hop.DeleteTenant:    each(forOperator(s.deleteTenant)),
		hop.LookUpKey:       each(forAnybody(s.lookUpKey)),
		hop.CreateKey:       each(forAdminOrOperator(s.createKey)),
		hop.ListKeys:        each(forAdminOrOperator(s.listKeys)),
		hop.RevokeKey:       each(forAdminOrOperator(s.revokeKey)),
		hop.EndSessions:     each(forTenant(s.endSessions)),
		hop.GetPlan:         each(forOperator(s.getPlan)),
		hop.ListPlans:       each(forOperator(s.listPlans)),
		hop.PutPlan:         each(forOperator(s.putPlan)),
		hop.GetInstallation: each(forOperator(s.installation)),
		hop.ReportProcess:   each(forOperator(s.reportProcess)),
		hop.ListCaps:        each(forTenant(s.listCaps)),
		hop.ListAudit:       each(forManagerOrOperator(s.listAudit)),

		// Health
		hop.GetReadiness: each(forAnybody(s.readiness)),
	}
}
