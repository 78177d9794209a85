package main

import (
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// mustSend names request fields that are needed though Go has a pointer for them.
func mustSend(field string) bool { return field == "SnoozeRequest.delay_ms" }

// maySkip names request fields that are not needed though Go has no sign of it.
func maySkip(base, member string) bool {
	return base == "JobError" || base == "RerunRequest" && member == "type" || base == "PlanRequest" && member == "limits"
}

// descriptions are of schemas.
func descriptions() map[string]string {
	return map[string]string{
		"Job":                "A job: all of it.",
		"Workflow":           "Jobs that come after each other, and how many of them are in which state.",
		"WorkflowDetail":     "A workflow with its jobs.",
		"WorkflowJob":        "A job as its workflow shows it.",
		"WorkflowRequest":    "Jobs that come after each other.",
		"WorkflowJobRequest": "A job of a workflow: as in a submit, with a ref, refs in `after`, and no dedupe_key.",
		"WorkflowDependency": "A job of the same workflow that must have ended before: its ref, or an object with it and a policy.",
		"JobParent":          "A job that one came after, with its result.",
		"Dependency":         "A job that must have ended before: its id, or an object with it and a policy.",
		"JobDependency":      "A job that this one comes after.",
		"JobSummary":         "A job without payload, result and stack.",
		"RerunRequest":       "In what a job that runs again differs from the ended one. What is absent, or null, is as it was there.",
		"SubmitRequest":      "A job as its producer describes it. What is not said is as its queue has it, or the default.",
		"SubmitResponse":     "The job as it was taken in.",
		"Retry":              "The wait after failure n, by its curve: exponential is base·2^(n−1), linear base·n, constant base; at most cap, give or take jitter (a fraction of it), never below a second.",
		"Queue":              "A queue with its settings, depths, and who serves it.",
		"Problem":            "A refusal (RFC 9457).",
		"Outcome":            "What became of the job.",
		"LeaseStatus":        "ok; cancel: extended, but the job should stop; lost: stop at once.",
		"PolicyUse":          "One token bucket; reset_ms is the time until it is full again.",
		"Limits":             "Rates per second, bursts and caps; null is none. Those with user_ in front hold for each user.",
		"LimitsInput":        "Rates per second, bursts and caps; null is none. Those with user_ in front hold for each user.",
		"NewKey":             "A fresh key: the only answer that ever shows it.",
		"ClaimedJob":         "A leased job with its lease token.",
		"BatchResult":        "One job's answer: a job, or a problem.",
		"DeadLetter":         "A dead job with why and when.",
		"Redrive":            "A redrive, or a discard, of all dead letters that match a filter.",
		"CanaryRequest":      "A sample that is queued first; the others follow when it has passed.",
		"Canary":             "The sample of a redrive and what became of it.",
		"DeadLetterGroup":    "Dead letters of one fingerprint in one queue.",
		"DeadLetterGroups":   "The largest groups among the dead letters that match.",
		"Matched":            "How many it would be; capped: at least so many, for only the newest 100,000 were looked at.",
		"AuditEntry":         "Who did what, and when.",
		"Push":               "Where a queue in push mode sends its jobs.",
		"Schedule":           "A schedule as it stands.",
		"Explanation":        "Why a job waits, as the scheduler sees it now.",
		"JobType":            "A version of a type of jobs.",
		"JobTypeRequest":     "A type of jobs as its owner describes it.",
		"JobTypeSummary":     "A version of a type of jobs, without schemas and examples.",
		"JobTypeDefaults":    "What a submit of the type gets where it is silent.",
		"Budget":             "How much of something the tenant's jobs may use in a time.",
		"BudgetRequest":      "A budget as its owner describes it.",
		"BudgetUsage":        "What attempts that started on a day (UTC) have used of a budget.",
		"BudgetUsages":       "The days of a budget that have any usage, in order.",
		"Throttle":           "A refusal by what a budget is of, such as a provider's 429.",
		"Webhook":            "A subscription to the ends of jobs and workflows.",
		"WebhookRequest":     "A webhook as its owner describes it.",
		"WebhookFilter":      "Which jobs: each member that is set must be the job's.",
		"WebhookDeliveries":  "How many deliveries there are, and how the last call ended. Counts stop at 10,000.",
		"Stats":              "What a tenant's jobs did, by steps of time.",
		"Usage":              "Exact counts of a tenant's jobs, by day, type or user.",
		"UsageItem":          "The counts of a day, a type or a user.",
		"StatsItem":          "What jobs did in one step.",
		"LimitStats":         "What was used of limits, by steps of time, and who was refused.",
		"LimitHistory":       "The use of one limit.",
		"LimitStatsItem":     "The use of a limit in one step.",
		"LimitRefusals":      "What one limit refused.",
		"ScheduleOutcome":    "A run of a schedule, with how its job ended.",
		"ScheduleRequest":    "A schedule as its owner describes it: one job a tick.",
		"ScheduleRun":        "A tick, or a trigger: its job, or why there is none.",
		"HeartbeatResponse":  "How the worker and each of its leases stand, in the order sent.",
	}
}

// limit says what a field may hold.
type limit func(*openapi3.Schema)

// ruled is a limit by a rule of shared/api.
func ruled(r api.Rule) limit {
	return func(s *openapi3.Schema) {
		if r.Max > 0 {
			s.Min, s.Max = &r.Min, &r.Max
			if r.Above {
				s.WithExclusiveMin(true)
			}
		}
		if r.Pattern != "" {
			s.Pattern = r.Pattern
		}
		s.MinLength, s.MaxLength = uint64(r.MinLength), atMost(r.MaxLength)
		if r.Words != nil {
			words(r.Words...)(s)
		}
		each := s.Items
		if s.Type.Is("object") {
			s.MaxProps, each = atMost(r.MaxItems), s.AdditionalProperties.Schema
		} else {
			s.MinItems, s.MaxItems = uint64(r.MinItems), atMost(r.MaxItems)
		}
		if r.Each != nil && each != nil {
			ruled(*r.Each)(each.Value)
		}
	}
}

func patternOf(schema, member string) string { return api.Rules()[schema][member].Pattern }

// atMost is nil where there is no bound.
func atMost(n int) *uint64 {
	if n == 0 {
		return nil
	}
	return new(uint64(n))
}

func words(given ...string) limit {
	return func(s *openapi3.Schema) {
		if s.Items != nil {
			s = s.Items.Value
		}
		s.Enum = nil
		for _, word := range given {
			s.Enum = append(s.Enum, word)
		}
	}
}

// hopLimits bound what only core's requests have.
func hopLimits() map[string]limit {
	rules := api.Rules()
	submit := rules["SubmitRequest"]
	return map[string]limit{
		"type": ruled(submit["type"]), "queue": ruled(submit["queue"]), "user": ruled(submit["user"]), "dedupe_key": ruled(submit["dedupe_key"]),
		"metadata": ruled(submit["metadata"]), "worker_id": ruled(rules["WorkerRequest"]["worker_id"]), "leases": ruled(rules["HeartbeatRequest"]["leases"]),
		"scopes": ruled(rules["KeyRequest"]["scopes"]), "reason": ruled(rules["DeadLetterFilterBody"]["reason"]),
		"fingerprint":    ruled(rules["DeadLetterFilterBody"]["fingerprint"]),
		"Envelope.items": ruled(api.Rule{MinItems: 1, MaxItems: hop.MaxItems}),
		"Principal.kind": principals, "Principal.scopes": nothing, "CreateKeyRequest.kind": principals,
		"SubmitJobsRequest.jobs": ruled(rules["BatchRequest"]["jobs"]), "SubmitJobsRequest.ids": ruled(rules["BatchRequest"]["jobs"]), "WaitForJobRequest.wait_ms": ruled(rules["ClaimRequest"]["wait_ms"]),
		"JobFilter.queue": ruled(rules["DeadLetterFilterBody"]["queue"]), "DeadLetterFilter.queue": ruled(rules["DeadLetterFilterBody"]["queue"]),
		"AuditFilter.action": words(api.AuditActions()...),
		"Policy.kind":        nothing, "Problem.type": nothing, "JobError.type": nothing,
		"Principal.user": nothing, "CapsRequest.user": nothing,
	}
}

func nothing(*openapi3.Schema) {}

func principals(s *openapi3.Schema) {
	words(hop.PrincipalTenant, hop.PrincipalPlatform, hop.PrincipalOperator)(s)
}

// defaults are what stands in for an absent field of a request, by field, or by schema and field; nil is none.
func defaults() map[string]any {
	return map[string]any{
		"queue": api.DefaultQueue, "RerunRequest.queue": nil, "DeadLetterFilterBody.queue": nil, "JobFilter.queue": nil, "DeadLetterFilter.queue": nil, "WebhookFilter.queue": nil, "JobTypeDefaults.queue": nil,
		"priority": api.DefaultPriority, "RerunRequest.priority": nil, "JobTypeDefaults.priority": nil,
		"max_attempts": api.DefaultMaxAttempts, "RerunRequest.max_attempts": nil, "ScheduleJob.max_attempts": nil, "JobTypeDefaults.max_attempts": nil,
		"base_ms": api.DefaultRetryBase.Milliseconds(), "cap_ms": api.DefaultRetryCap.Milliseconds(),
		"jitter": api.DefaultRetryJitter, "curve": api.DefaultRetryCurve,
		"WorkflowRequest.name": "workflow", "on_failed": api.OnFailedCancel,
		"max": 1, "ClaimRequest.wait_ms": 0, "concurrency": 1,
		"visibility_timeout_ms": api.DefaultVisibilityTimeout.Milliseconds(), "mode": api.ModePull,
		"timezone": api.DefaultTimezone, "overlap": api.OverlapAllow, "catch_up": api.CatchUpNone, "catch_up_max": api.DefaultCatchUpMax,
		"CanaryRequest.timeout_seconds": api.DefaultCanaryTimeout, "PushRequest.timeout_ms": api.DefaultPushTimeout.Milliseconds(),
		"BreakerSettingsRequest.calls": api.DefaultBreakerCalls, "BreakerSettingsRequest.half_open": api.DefaultBreakerHalfOpen,
		"BreakerSettingsRequest.open_ms": api.DefaultBreakerOpen.Milliseconds(), "BreakerSettingsRequest.failure_ratio": api.DefaultBreakerFailureRatio,
		"TenantRequest.weight": 1, "TenantRequest.plan": "standard",
	}
}

// defaultWords say a default. The keyword is not used: some generators make a field that has it one that must be there.
func defaultWords(value any) string {
	if text, ok := value.(string); ok {
		return "Default: `" + text + "`."
	}
	return fmt.Sprintf("Default: %v.", value)
}

// answerWords are the closed sets of answers.
func answerWords() map[string]limit {
	state := words(api.StateBlocked, api.StateScheduled, api.StateWaiting, api.StateQueued, api.StateRunning, api.StateCompleted, api.StateDeadLetter, api.StateCancelled)
	rules := api.Rules()
	reasons := words(rules["DeadLetterFilterBody"]["reason"].Words...)
	return map[string]limit{
		"JobDependency.on_failed": words(rules["Dependency"]["on_failed"].Words...), "Workflow.state": words(api.WorkflowStates()...), "WorkflowDetail.state": words(api.WorkflowStates()...), "WorkflowFilter.state": words(api.WorkflowStates()...),
		"state": state, "reason": reasons, "dead_reason": reasons, "curve": words(rules["RetryRequest"]["curve"].Words...),
		"scopes":                   words(api.Scopes()...),
		"mode":                     words(api.ModePull, api.ModePush),
		"depth_capped":             words(api.StateBlocked, api.StateScheduled, api.StateWaiting, api.StateQueued, api.StateRunning, api.StateDeadLetter),
		"Worker.status":            words(api.WorkerActive, api.WorkerStale, api.WorkerDead),
		"HeartbeatResponse.status": words(api.WorkerActive, api.WorkerStale, api.WorkerDead),
		"LeaseStatus.status":       words(api.LeaseOK, api.LeaseCancel, api.LeaseLost),
		"Attempt.kind":             words("running", "completed", "failed", "lease_expired", "timeout", "cancelled"),
		"CapUse.scope":             words("tenant", "user", "queue"),
		"CapUse.kind":              words("active", "running"),
		"Process.state":            words(api.ProcessRunning, api.ProcessLost),
		"RedisState.mode":          words("standalone", "sentinel", "cluster"),
		"Replica.state":            func(*openapi3.Schema) {}, // PostgreSQL's words
		"Readiness.status":         words("ok", "degraded", "starting", "draining"),
		"Breaker.state":            words(api.BreakerClosed, api.BreakerOpen, api.BreakerHalfOpen),
		"Redrive.state":            words(api.RedriveRunning, api.RedriveDone, api.RedriveStopped, api.RedriveCancelled, api.RedriveFailed),
		"Bulk.state":               words(api.RedriveRunning, api.RedriveDone, api.RedriveCancelled, api.RedriveFailed),
		"Bulk.action":              words(rules["BulkRequest"]["action"].Words...),
		"Bulk.waiting":             words(api.WaitingActiveCap),
		"Canary.reason":            ruled(api.Rule{MinLength: 1, MaxLength: 1000}),
		"Canary.state":             words(api.CanarySampling, api.CanaryWaiting, api.CanaryPassed, api.CanaryFailed),
		"Redrive.action":           words(api.ActionRedrive, api.ActionDiscard),
		"Redrive.waiting":          words(api.WaitingActiveCap),
		"Schedule.overlap":         words(api.OverlapAllow, api.OverlapSkip, api.OverlapCancel),
		"Schedule.catch_up":        words(api.CatchUpNone, api.CatchUpLatest, api.CatchUpAll),
		"ScheduleRun.skipped":      words(api.SkippedOverlap, api.SkippedPaused, api.SkippedCap),
		"ScheduleOutcome.skipped":  words(api.SkippedOverlap, api.SkippedPaused, api.SkippedCap),
		"TenantDeletion.state":     words(api.DeletionRunning, api.DeletionDone),
		"AuditActor.kind":          words(hop.PrincipalTenant, hop.PrincipalOperator),
		"AuditEntry.action":        words(api.AuditActions()...),
	}
}

// by finds what is said of a schema's field, or else of every field of its name.
func by[T any](all map[string]T, base, member string) (T, bool) {
	if one, ok := all[base+"."+member]; ok {
		return one, true
	}
	one, ok := all[member]
	return one, ok
}

// restrict says what a field may hold, and shows one. The field is of the struct of this name.
func restrict(s *openapi3.Schema, base, member, of string, request bool) {
	if !request {
		if rule, ok := by(answerWords(), base, member); ok {
			rule(s)
		}
	} else if rule, ok := api.Rules()[of][member]; ok {
		ruled(rule)(s)
	} else if rule, ok := by(hopLimits(), base, member); ok {
		rule(s)
	}
	if value, ok := by(defaults(), base, member); ok && request {
		s.Description = strings.TrimSpace(s.Description + " " + defaultWords(value))
	}
	if s.Example == nil && len(s.Enum) == 0 {
		s.Example = shown(s, base, member)
	}
}

// Values of examples. A test that sends an example puts real ones in their places.
const (
	exampleJob     = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"
	exampleTenant  = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002"
	exampleRedrive = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"
	exampleTrace   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// shown is a value that the page shows for a field of an answer; nil where its type
// says enough.
func shown(s *openapi3.Schema, base, member string) any {
	text := map[string]string{
		"id": exampleJob, "job_id": exampleJob, "tenant": exampleTenant, "type": "hash.sha256", "queue": "default",
		"worker_id": "worker-1", "user": "ada", "dedupe_key": "welcome-ada", "correlation_id": "order-1042",
		"traceparent": exampleTrace, "plan": "standard", "key_id": "8y2k4m6n8p0q1r3s",
		"request_id": "2b1f8a5e-52a1-4f6e-9c1a-1d0b7c3e9a10", "instance": "/v1/jobs", "fingerprint": "5f3c1a9e0b7d4c62",
		"Tenant.id": exampleTenant, "Tenant.name": "Example Ltd", "Queue.name": "default", "Plan.name": "standard",
		"JobError.type": "timeout", "JobError.message": "the mail server did not answer", "JobError.stack": "",
		"ErrorBrief.type": "timeout", "ErrorBrief.message": "the mail server did not answer",
		"Problem.type": "/problems/invalid_request", "Landing.name": "ForgeQueue", "Landing.api": "/v1", "Landing.docs": "/docs", "Landing.health": "/readyz",
		"Schedule.name": "nightly", "Schedule.cron": "30 2 * * *", "Schedule.timezone": "Europe/Berlin",
		"Webhook.name": "billing", "Webhook.url": "https://example.com/hooks", "Webhook.queue": api.WebhookQueue("billing"),
		"Redrive.id": exampleRedrive, "Push.url": "https://example.com/jobs",
		"NewKey.key": "fq_live_8y2k4m6n8p0q_…",
	}
	if s.Type == nil || !s.Type.Is("string") || strings.HasSuffix(base, "Request") {
		return nil
	}
	if value, ok := text[base+"."+member]; ok {
		return value
	}
	if value, ok := text[member]; ok {
		return value
	}
	return nil
}
