package httpapi

import (
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// probes need no signature and take no body. HEAD is served as GET is.
func (s *Server) probes() map[string]handler {
	return map[string]handler{"/livez": s.livez, "/readyz": s.readyz}
}

// waitOf is how long a handler may wait on purpose, on top of defaultTimeout.
func waitOf(path string) time.Duration {
	if path == api.HopClaim {
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
		api.HopSubmit:    together(s.submitJobs),
		api.HopRerun:     together(s.rerunJobs),
		api.HopGet:       each(forTenant(s.getJob)),
		api.HopList:      each(forTenant(s.listJobs)),
		api.HopAttempts:  each(forTenant(s.listAttempts)),
		api.HopCancel:    each(forTenant(s.cancelJob)),
		api.HopJobDelete: each(forTenant(s.deleteJob)),
		api.HopWait:      atOnce(forTenant(s.waitForJob)),
		api.HopExplain:   each(forTenant(s.explainJob)),

		// Workflows
		api.HopParents:         each(forReaderOrWorker(s.listParents)),
		api.HopWorkflowGet:     each(forTenant(s.getWorkflow)),
		api.HopWorkflowList:    each(forTenant(s.listWorkflows)),
		api.HopWorkflowCancel:  each(forTenant(s.cancelWorkflow)),
		api.HopWorkflowRedrive: each(forTenant(s.redriveWorkflow)),

		// Workers
		api.HopClaim:     s.claimJobs,
		api.HopOutcome:   atOnce(forWorker(s.reportOutcomes)), // at once, so that they share a commit
		api.HopHeartbeat: each(forWorker(s.heartbeat)),
		api.HopRegister:  each(forWorker(s.registerWorker)),
		api.HopLeave:     atOnce(forWorker(s.leave)),
		api.HopWorkers:   each(forManagerOrPlatform(s.listWorkers)),

		// Queues
		api.HopQueues:      each(forManager(s.listQueues)),
		api.HopQueueGet:    each(forManager(s.getQueue)),
		api.HopQueuePut:    each(forManager(s.putQueue)),
		api.HopQueuePause:  each(forManager(s.pauseQueue)),
		api.HopQueueProbe:  each(forManager(s.probeQueue)),
		api.HopQueueDelete: each(forManager(s.deleteQueue)),
		api.HopStats:       each(forManager(s.readStats)),
		api.HopLimitStats:  each(forManager(s.readLimitStats)),
		api.HopLimitUses:   each(forManager(s.recordLimitUses)),
		api.HopUsage:       each(forManager(s.readUsage)),

		// Dead letters
		api.HopDeadLetters:       each(forTenant(s.listDeadLetters)),
		api.HopDeadLetterGroups:  each(forTenant(s.groupDeadLetters)),
		api.HopDeadLetterRedrive: each(forTenant(s.redriveDeadLetters)),
		api.HopDeadLetterDiscard: each(forTenant(s.discardDeadLetters)),
		api.HopRedrive:           each(forTenant(s.redriveJob)),
		api.HopRedriveGet:        each(forTenant(s.getRedrive)),
		api.HopRedriveList:       each(forTenant(s.listRedrives)),
		api.HopRedriveCancel:     each(forTenant(s.cancelRedrive)),

		// Job types
		api.HopTypePut:      each(forManager(s.putType)),
		api.HopTypeGet:      each(forTenant(s.getType)),
		api.HopTypeList:     each(forTenant(s.listTypes)),
		api.HopTypeVersions: each(forTenant(s.listTypeVersions)),
		api.HopTypeDelete:   each(forManager(s.deleteType)),
		api.HopTypeTexts:    each(forTenant(s.documentTypes)),
		api.HopTypes:        each(forTenant(s.readTypes)),

		// Schedules
		api.HopSchedulePut:     each(forTenant(s.putSchedule)),
		api.HopScheduleGet:     each(forTenant(s.getSchedule)),
		api.HopScheduleList:    each(forTenant(s.listSchedules)),
		api.HopScheduleDelete:  each(forTenant(s.deleteSchedule)),
		api.HopSchedulePause:   each(forTenant(s.pauseSchedule)),
		api.HopScheduleTrigger: together(s.triggerSchedules),
		api.HopScheduleRuns:    each(forTenant(s.listScheduleRuns)),

		// Webhooks
		api.HopWebhookPut:    each(forManager(s.putWebhook)),
		api.HopWebhookGet:    each(forManager(s.getWebhook)),
		api.HopWebhookList:   each(forManager(s.listWebhooks)),
		api.HopWebhookDelete: each(forManager(s.deleteWebhook)),
		api.HopWebhookRotate: each(forManager(s.rotateWebhookSecret)),
		api.HopWebhookProbe:  each(forManager(s.probeWebhook)),
		api.HopWebhookTest:   each(forManager(s.testWebhook)),

		// Tenants and keys
		api.HopTenantCreate: each(forOperator(s.createTenant)),
		api.HopTenantList:   each(forOperator(s.listTenants)),
		api.HopTenantStats:  each(forOperator(s.readTenantStats)),
		api.HopTenantPatch:  each(forOperator(s.patchTenant)),
		api.HopTenantGet:    each(forOperator(s.getTenant)),
		api.HopTenantDelete: each(forOperator(s.deleteTenant)),
		api.HopKeyLookup:    each(forAnybody(s.lookUpKey)),
		api.HopKeyCreate:    each(forAdminOrOperator(s.createKey)),
		api.HopKeyList:      each(forAdminOrOperator(s.listKeys)),
		api.HopKeyRevoke:    each(forAdminOrOperator(s.revokeKey)),
		api.HopSessionsEnd:  each(forTenant(s.endSessions)),
		api.HopPlanGet:      each(forOperator(s.getPlan)),
		api.HopPlanList:     each(forOperator(s.listPlans)),
		api.HopPlanPut:      each(forOperator(s.putPlan)),
		api.HopInstallation: each(forOperator(s.installation)),
		api.HopProcess:      each(forOperator(s.reportProcess)),
		api.HopCaps:         each(forTenant(s.listCaps)),
		api.HopAudit:        each(forManagerOrOperator(s.listAudit)),

		// Health
		api.HopReady: each(forAnybody(s.readiness)),
	}
}
