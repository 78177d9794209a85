package httpapi

import (
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// route is one line of the table.
type route struct {
	method string
	path   string
	// body is how many bytes the signed body may have.
	body int64
	// wait is how long the handler may wait on purpose, on top of defaultTimeout.
	wait  time.Duration
	serve handler
}

// probes need no signature and take no body. HEAD is served as GET is.
func (s *Server) probes() []route {
	return []route{
		{"GET", "/livez", 0, 0, s.livez},
		{"GET", "/readyz", 0, 0, s.readyz},
	}
}

// routes are the calls of gateways. A handler serves one item of a call: each takes them one
// after the other, atOnce side by side, together in one commit. forTenant, forManager, forWorker
// and forOperator say whose principal an item must have; the others judge it themselves.
func (s *Server) routes() []route {
	const body = api.MaxHopBody
	return []route{
		// method, path, body, wait, handler
		{"POST", api.HopSubmit, body, 0, together(s.submitJobs)},
		{"POST", api.HopRerun, body, 0, together(s.rerunJobs)},
		{"POST", api.HopGet, body, 0, each(forTenant(s.getJob))},
		{"POST", api.HopList, body, 0, each(forTenant(s.listJobs))},
		{"POST", api.HopAttempts, body, 0, each(forTenant(s.listAttempts))},
		{"POST", api.HopCancel, body, 0, each(forTenant(s.cancelJob))},
		{"POST", api.HopJobDelete, body, 0, each(forTenant(s.deleteJob))},
		{"POST", api.HopWait, body, 0, atOnce(forTenant(s.waitForJob))},
		{"POST", api.HopExplain, body, 0, each(forTenant(s.explainJob))},
		{"POST", api.HopParents, body, 0, each(s.listParents)},

		{"POST", api.HopWorkflowGet, body, 0, each(forTenant(s.getWorkflow))},
		{"POST", api.HopWorkflowList, body, 0, each(forTenant(s.listWorkflows))},
		{"POST", api.HopWorkflowCancel, body, 0, each(forTenant(s.cancelWorkflow))},
		{"POST", api.HopWorkflowRedrive, body, 0, each(forTenant(s.redriveWorkflow))},

		{"POST", api.HopClaim, body, api.MaxWait, s.claimJobs},
		{"POST", api.HopOutcome, body, 0, atOnce(forWorker(s.reportOutcomes))}, // at once, so that they share a commit
		{"POST", api.HopHeartbeat, body, 0, each(forWorker(s.heartbeat))},
		{"POST", api.HopRegister, body, 0, each(forWorker(s.registerWorker))},
		{"POST", api.HopLeave, body, 0, atOnce(forWorker(s.leave))},
		{"POST", api.HopWorkers, body, 0, each(s.listWorkers)},

		{"POST", api.HopQueues, body, 0, each(forManager(s.listQueues))},
		{"POST", api.HopQueueGet, body, 0, each(forManager(s.getQueue))},
		{"POST", api.HopQueuePut, body, 0, each(forManager(s.putQueue))},
		{"POST", api.HopQueuePause, body, 0, each(forManager(s.pauseQueue))},
		{"POST", api.HopQueueProbe, body, 0, each(forManager(s.probeQueue))},
		{"POST", api.HopQueueDelete, body, 0, each(forManager(s.deleteQueue))},
		{"POST", api.HopStats, body, 0, each(forManager(s.readStats))},
		{"POST", api.HopLimitStats, body, 0, each(forManager(s.readLimitStats))},
		{"POST", api.HopLimitUses, body, 0, each(forManager(s.recordLimitUses))},
		{"POST", api.HopUsage, body, 0, each(forManager(s.readUsage))},

		{"POST", api.HopDeadLetters, body, 0, each(forTenant(s.listDeadLetters))},
		{"POST", api.HopDeadLetterGroups, body, 0, each(forTenant(s.groupDeadLetters))},
		{"POST", api.HopDeadLetterRedrive, body, 0, each(forTenant(s.redriveDeadLetters))},
		{"POST", api.HopDeadLetterDiscard, body, 0, each(forTenant(s.discardDeadLetters))},
		{"POST", api.HopRedrive, body, 0, each(forTenant(s.redriveJob))},
		{"POST", api.HopRedriveGet, body, 0, each(forTenant(s.getRedrive))},
		{"POST", api.HopRedriveList, body, 0, each(forTenant(s.listRedrives))},
		{"POST", api.HopRedriveCancel, body, 0, each(forTenant(s.cancelRedrive))},

		{"POST", api.HopSchedulePut, body, 0, each(forTenant(s.putSchedule))},
		{"POST", api.HopScheduleGet, body, 0, each(forTenant(s.getSchedule))},
		{"POST", api.HopScheduleList, body, 0, each(forTenant(s.listSchedules))},
		{"POST", api.HopScheduleDelete, body, 0, each(forTenant(s.deleteSchedule))},
		{"POST", api.HopSchedulePause, body, 0, each(forTenant(s.pauseSchedule))},
		{"POST", api.HopScheduleTrigger, body, 0, together(s.triggerSchedules)},
		{"POST", api.HopScheduleRuns, body, 0, each(forTenant(s.listScheduleRuns))},

		{"POST", api.HopWebhookPut, body, 0, each(forManager(s.putWebhook))},
		{"POST", api.HopWebhookGet, body, 0, each(forManager(s.getWebhook))},
		{"POST", api.HopWebhookList, body, 0, each(forManager(s.listWebhooks))},
		{"POST", api.HopWebhookDelete, body, 0, each(forManager(s.deleteWebhook))},
		{"POST", api.HopWebhookRotate, body, 0, each(forManager(s.rotateWebhookSecret))},
		{"POST", api.HopWebhookProbe, body, 0, each(forManager(s.probeWebhook))},
		{"POST", api.HopWebhookTest, body, 0, each(forManager(s.testWebhook))},

		{"POST", api.HopTenantCreate, body, 0, each(forOperator(s.createTenant))},
		{"POST", api.HopTenantList, body, 0, each(forOperator(s.listTenants))},
		{"POST", api.HopTenantStats, body, 0, each(forOperator(s.readTenantStats))},
		{"POST", api.HopTenantPatch, body, 0, each(forOperator(s.patchTenant))},
		{"POST", api.HopTenantGet, body, 0, each(forOperator(s.getTenant))},
		{"POST", api.HopTenantDelete, body, 0, each(forOperator(s.deleteTenant))},
		{"POST", api.HopKeyLookup, body, 0, each(s.lookUpKey)},
		{"POST", api.HopKeyCreate, body, 0, each(s.createKey)},
		{"POST", api.HopKeyList, body, 0, each(s.listKeys)},
		{"POST", api.HopKeyRevoke, body, 0, each(s.revokeKey)},
		{"POST", api.HopSessionsEnd, body, 0, each(forTenant(s.endSessions))},
		{"POST", api.HopPlanGet, body, 0, each(forOperator(s.getPlan))},
		{"POST", api.HopPlanList, body, 0, each(forOperator(s.listPlans))},
		{"POST", api.HopPlanPut, body, 0, each(forOperator(s.putPlan))},
		{"POST", api.HopInstallation, body, 0, each(forOperator(s.installation))},
		{"POST", api.HopProcess, body, 0, each(forOperator(s.reportProcess))},
		{"POST", api.HopCaps, body, 0, each(forTenant(s.listCaps))},
		{"POST", api.HopAudit, body, 0, each(s.listAudit)},
		{"POST", api.HopReady, body, 0, each(s.readiness)},
	}
}

// allRoutes are all routes but the probes.
func (s *Server) allRoutes() []route { return slices.Concat(s.routes(), s.typeRoutes()) }

// typeRoutes are those of types of jobs.
func (s *Server) typeRoutes() []route {
	const body = api.MaxHopBody
	return []route{
		{"POST", api.HopTypePut, body, 0, each(forManager(s.putType))},
		{"POST", api.HopTypeGet, body, 0, each(forTenant(s.getType))},
		{"POST", api.HopTypeList, body, 0, each(forTenant(s.listTypes))},
		{"POST", api.HopTypeVersions, body, 0, each(forTenant(s.listTypeVersions))},
		{"POST", api.HopTypeDelete, body, 0, each(forManager(s.deleteType))},
		{"POST", api.HopTypeTexts, body, 0, each(forTenant(s.documentTypes))},
		{"POST", api.HopTypes, body, 0, each(forTenant(s.readTypes))},
	}
}
