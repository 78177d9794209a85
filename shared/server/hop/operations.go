package hop

import (
	"github.com/forgequeue/forgequeue/shared/api"
)

// The table of operations. Gateway, core and the documents take from it all that they know of one, so that an operation
// is a line here and a handler in core. The name is that of its path. A comment over a block is its group in
// api-docs/core.json, which e2e/openapi reads from here.
var (
	// Jobs
	SubmitJobs   = keyed[SubmitJobsRequest, SubmitResponse]("submit-jobs", ForTenant)
	RerunJob     = keyed[RerunJobRequest, SubmitResponse]("rerun-job", ForTenant)
	GetJob       = read[ID, api.Job]("get-job", ForTenant)
	ListJobs     = list[Filtered[api.JobFilter], api.Page[api.JobSummary]]("list-jobs", ForTenant)
	ListAttempts = list[PageFor, api.Page[api.Attempt]]("list-attempts", ForTenant)
	CancelJob    = write[ID, CancelResponse]("cancel-job", ForTenant)
	PatchJob     = write[PatchJobRequest, api.Job]("patch-job", ForTenant)
	SignalJob    = repeatable[SignalJobRequest, api.Signal]("signal-job", ForTenant)
	ListSignals  = list[SignalsRequest, SignalList]("list-signals", ForTenant)
	ReadOutput   = list[ReadOutputRequest, api.OutputPage]("read-output", ForTenant)
	DeleteJob    = write[ID, struct{}]("delete-job", ForTenant)
	WaitForJob   = read[WaitForJobRequest, api.Job]("wait-for-job", ForTenant)
	ExplainJob   = read[ExplainJobRequest, api.Explanation]("explain-job", ForTenant)

	// Bulk actions
	CreateBulk = bulk("create-bulk", ForTenant)
	GetBulk    = read[ID, api.Bulk]("get-bulk", ForTenant)
	ListBulk   = list[PageRequest, api.Page[api.Bulk]]("list-bulk", ForTenant)
	CancelBulk = write[ID, api.Bulk]("cancel-bulk", ForTenant)

	// Workflows
	ListParents     = list[PageFor, api.Page[api.JobParent]]("list-parents", ForReaderOrWorker)
	GetWorkflow     = list[ID, api.WorkflowDetail]("get-workflow", ForTenant)
	ListWorkflows   = list[Filtered[api.WorkflowFilter], api.Page[api.Workflow]]("list-workflows", ForTenant)
	CancelWorkflow  = write[ID, api.Workflow]("cancel-workflow", ForTenant)
	RedriveWorkflow = write[ID, api.DeadLetterResponse]("redrive-workflow", ForTenant)

	// Workers
	ClaimJobs      = write[api.ClaimRequest, api.ClaimResponse]("claim-jobs", ForWorker).in(ClassClaim)
	ReportOutcomes = repeatable[api.OutcomesRequest, api.OutcomesResponse]("report-outcomes", ForWorker).in(ClassLease)
	AppendOutput   = repeatable[AppendOutputRequest, api.OutputAccepted]("append-output", ForWorker).in(ClassLease)
	Heartbeat      = repeatable[WorkerHeartbeat, api.HeartbeatResponse]("heartbeat", ForWorker).in(ClassLease)
	RegisterWorker = write[api.WorkerRequest, api.Worker]("register-worker", ForWorker).in(ClassClaim)
	Leave          = repeatable[ID, struct{}]("leave", ForWorker).in(ClassClaim)
	ListWorkers    = list[PageRequest, api.Page[api.Worker]]("list-workers", ForManagerOrPlatform)

	// Queues
	ListQueues      = list[ListQueuesRequest, api.Page[api.Queue]]("list-queues", ForManager)
	ListQueueKeys   = list[ListQueueKeysRequest, api.Page[api.QueueKey]]("list-queue-keys", ForManager)
	GetQueue        = read[Name, api.Queue]("get-queue", ForManager)
	ScaleQueue      = read[ScaleQueueRequest, api.Scale]("scale-queue", ForManager)
	PutQueue        = write[Put[api.QueueRequest], api.Queue]("put-queue", ForManager)
	PauseQueue      = write[Pause, api.Queue]("pause-queue", ForManager)
	ProbeQueue      = write[Name, api.Queue]("probe-queue", ForManager)
	DeleteQueue     = write[Name, struct{}]("delete-queue", ForManager)
	GetStats        = list[StatsRequest, api.Stats]("get-stats", ForManager)
	GetLimitStats   = list[StatsRequest, api.LimitStats]("get-limit-stats", ForManager)
	RecordLimitUses = write[LimitUsesRequest, struct{}]("record-limit-uses", ForManager)
	GetUsage        = list[UsageRequest, api.Usage]("get-usage", ForManager)

	// Dead letters
	ListDeadLetters    = list[Filtered[api.DeadLetterFilter], api.Page[api.DeadLetter]]("list-dead-letters", ForTenant)
	GroupDeadLetters   = list[Filtered[api.DeadLetterFilter], api.DeadLetterGroups]("group-dead-letters", ForTenant)
	RedriveDeadLetters = unlessDry("redrive-dead-letters", ForTenant)
	DiscardDeadLetters = unlessDry("discard-dead-letters", ForTenant)
	RedriveJob         = write[ID, api.JobSummary]("redrive-job", ForTenant)
	GetRedrive         = read[ID, api.Redrive]("get-redrive", ForTenant)
	ListRedrives       = list[PageRequest, api.Page[api.Redrive]]("list-redrives", ForTenant)
	CancelRedrive      = write[ID, api.Redrive]("cancel-redrive", ForTenant)

	// Job types
	PutType          = write[PutTypeRequest, TypeVersion]("put-type", ForManager)
	GetType          = read[TypeVersionRequest, TypeVersion]("get-type", ForTenant)
	ListTypes        = list[PageRequest, api.Page[api.JobTypeSummary]]("list-types", ForTenant)
	ListTypeVersions = list[PageFor, api.Page[api.JobTypeSummary]]("list-type-versions", ForTenant)
	DeleteType       = write[Name, TypesChanged]("delete-type", ForManager)
	GetTypeDocuments = list[struct{}, TypeDocuments]("get-type-documents", ForTenant)
	GetTypeSet       = read[struct{}, TypeSet]("get-type-set", ForTenant)

	// Schedules
	PutSchedule      = write[Put[api.ScheduleRequest], api.Schedule]("put-schedule", ForTenant)
	GetSchedule      = read[Name, api.Schedule]("get-schedule", ForTenant)
	ListSchedules    = list[PageRequest, api.Page[api.Schedule]]("list-schedules", ForTenant)
	DeleteSchedule   = write[Name, struct{}]("delete-schedule", ForTenant)
	PauseSchedule    = write[Pause, api.Schedule]("pause-schedule", ForTenant)
	TriggerSchedule  = keyed[OnceRequest, SubmitResponse]("trigger-schedule", ForTenant)
	ListScheduleRuns = list[PageFor, api.Page[api.ScheduleRun]]("list-schedule-runs", ForTenant)

	// Budgets
	PutBudget      = write[Put[api.BudgetRequest], api.Budget]("put-budget", ForManager)
	GetBudget      = read[GetBudgetRequest, api.Budget]("get-budget", ForManager)
	ListBudgets    = list[PageRequest, api.Page[api.Budget]]("list-budgets", ForManager)
	DeleteBudget   = write[Name, struct{}]("delete-budget", ForManager)
	GetBudgetUsage = list[BudgetUsageRequest, api.BudgetUsages]("get-budget-usage", ForManager)

	// Webhooks
	PutWebhook          = write[Put[api.WebhookRequest], api.Webhook]("put-webhook", ForManager)
	GetWebhook          = read[Name, api.Webhook]("get-webhook", ForManager)
	ListWebhooks        = list[PageRequest, api.Page[api.Webhook]]("list-webhooks", ForManager)
	DeleteWebhook       = write[Name, struct{}]("delete-webhook", ForManager)
	RotateWebhookSecret = keyed[OnceRequest, api.Webhook]("rotate-webhook-secret", ForManager)
	ProbeWebhook        = write[Name, api.Webhook]("probe-webhook", ForManager)
	TestWebhook         = keyed[OnceRequest, api.JobSummary]("test-webhook", ForManager)

	// Tenants and keys
	CreateTenant    = write[WithID[api.TenantRequest], api.Tenant]("create-tenant", ForOperator).directory()
	ListTenants     = list[PageRequest, api.Page[api.Tenant]]("list-tenants", ForOperator).directory()
	GetTenantStats  = list[StatsRequest, api.TenantStats]("get-tenant-stats", ForOperator)
	PatchTenant     = write[WithID[api.TenantPatch], api.Tenant]("patch-tenant", ForOperator).directory()
	GetTenant       = read[ID, api.Tenant]("get-tenant", ForOperator)
	DeleteTenant    = write[ID, api.Tenant]("delete-tenant", ForOperator).directory()
	LookUpKey       = read[ID, KeyRecord]("look-up-key", ForAnybody).in(ClassKey)
	LookUpTenant    = read[ID, KeyRecord]("look-up-tenant", ForAnybody).in(ClassKey)
	CreateKey       = write[CreateKeyRequest, api.Key]("create-key", ForAdminOrOperator).directory()
	ListKeys        = list[PageFor, api.Page[api.Key]]("list-keys", ForAdminOrOperator).directory()
	RevokeKey       = write[ID, struct{}]("revoke-key", ForAdminOrOperator).directory()
	EndSessions     = write[struct{}, struct{}]("end-sessions", ForTenant).directory()
	GetPlan         = read[Name, api.Plan]("get-plan", ForOperator).directory()
	ListPlans       = list[PageRequest, api.Page[api.Plan]]("list-plans", ForOperator).directory()
	PutPlan         = write[Put[api.PlanRequest], api.Plan]("put-plan", ForOperator).directory()
	GetInstallation = list[struct{}, api.Installation]("get-installation", ForOperator)
	ReadDirectory   = list[DirectoryRequest, DirectoryChanges]("read-directory", ForOperator).directory()
	ReportProcess   = write[ProcessReport, struct{}]("report-process", ForOperator).directory()
	ListCaps        = read[CapsRequest, CapsResponse]("list-caps", ForTenant)
	ListAudit       = list[Filtered[api.AuditFilter], api.Page[api.AuditEntry]]("list-audit", ForManagerOrOperator)

	// Health
	GetReadiness = read[struct{}, api.Readiness]("get-readiness", ForAnybody).in(ClassProbe)
)
