package main

import (
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	namePattern  = `^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`
	labelPattern = `^[ -~]{1,128}$`
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

// limit bounds a request's field.
type limit func(*openapi3.Schema)

func between(low, high float64) limit {
	return func(s *openapi3.Schema) { s.Min, s.Max = &low, &high }
}

func ms(low float64, high time.Duration) limit { return between(low, float64(high.Milliseconds())) }

func pattern(p string) limit { return func(s *openapi3.Schema) { s.Pattern = p } }

func items(low, high uint64, each ...limit) limit {
	return func(s *openapi3.Schema) {
		s.MinItems, s.MaxItems = low, &high
		for _, l := range each {
			l(s.Items.Value)
		}
	}
}

func otherwise(value any, also ...limit) limit {
	return func(s *openapi3.Schema) {
		s.Default = value
		for _, l := range also {
			l(s)
		}
	}
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

// requestLimits are by field, or by schema and field.
func requestLimits() map[string]limit {
	return map[string]limit{
		"type": pattern(namePattern), "queue": otherwise(api.DefaultQueue, pattern(namePattern)),
		"user": pattern(labelPattern), "worker_id": pattern(labelPattern), "dedupe_key": pattern(labelPattern),
		"priority":            otherwise(api.DefaultPriority, between(0, api.MaxPriority)),
		"delay_ms":            ms(0, api.MaxDelay),
		"expires_after_ms":    ms(1000, api.MaxAhead),
		"timeout_ms":          ms(1, api.MaxTimeout),
		"max_attempts":        otherwise(api.DefaultMaxAttempts, between(1, api.MaxAttempts)),
		"base_ms":             otherwise(api.DefaultRetryBase.Milliseconds(), ms(1, api.MaxBackoff)),
		"cap_ms":              otherwise(api.DefaultRetryCap.Milliseconds(), ms(1, api.MaxBackoff)),
		"jitter":              otherwise(api.DefaultRetryJitter, between(0, 1)),
		"curve":               otherwise(api.DefaultRetryCurve, curves),
		"retry_after_ms":      ms(0, api.MaxBackoff),
		"tags":                items(0, api.MaxTags, pattern(namePattern)),
		"metadata":            metadata,
		"jobs":                items(1, api.MaxBatchJobs),
		"SubmitRequest.after": items(0, api.MaxAfter),
		"RerunRequest.after":  items(0, api.MaxAfter), "RerunRequest.queue": pattern(namePattern),
		"RerunRequest.priority": between(0, api.MaxPriority), "RerunRequest.max_attempts": between(1, api.MaxAttempts),
		"ref":                  pattern(namePattern),
		"WorkflowRequest.name": otherwise("workflow", pattern(namePattern)), "WorkflowJobRequest.after": items(0, api.MaxWorkflowAfter),
		"on_failed":             otherwise(api.OnFailedCancel, policies),
		"outcomes":              items(0, api.MaxOutcomes),
		"leases":                items(0, api.MaxLeases),
		"ids":                   items(1, api.MaxBatchJobs),
		"max":                   otherwise(1, between(1, api.MaxClaim)),
		"wait_ms":               otherwise(0, ms(0, api.MaxWait)),
		"concurrency":           otherwise(1, between(1, api.MaxConcurrency)),
		"visibility_timeout_ms": otherwise(api.DefaultVisibilityTimeout.Milliseconds(), ms(1000, api.MaxVisibilityTimeout)),
		"weight":                between(1, 1000),
		"scopes":                items(1, uint64(len(api.Scopes())), words(api.Scopes()...)),
		"kind":                  words(api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease),

		"rate_per_second": between(0.001, api.MaxRedriveRate),
		"mode":            otherwise(api.ModePull, words(api.ModePull, api.ModePush)),
		"reason":          reasons,
		"fingerprint":     pattern(`^[0-9A-Fa-f]{1,64}$`),

		"cron":         length(256),
		"every_ms":     ms(1000, api.MaxAhead),
		"timezone":     otherwise(api.DefaultTimezone, length(64)),
		"overlap":      otherwise(api.OverlapAllow, words(api.OverlapAllow, api.OverlapSkip, api.OverlapCancel)),
		"catch_up":     otherwise(api.CatchUpNone, words(api.CatchUpNone, api.CatchUpLatest, api.CatchUpAll)),
		"catch_up_max": otherwise(api.DefaultCatchUpMax, between(1, api.MaxCatchUp)),

		"ScheduleJob.max_attempts": between(1, api.MaxAttempts),

		"CanaryRequest.count": between(1, api.MaxCanaryCount), "CanaryRequest.success": aboveZero(1),
		"CanaryRequest.timeout_seconds": otherwise(api.DefaultCanaryTimeout, between(1, api.MaxCanaryTimeout)),
		"QueueRequest.rate_per_second":  aboveZero(1e6), "HopQueuePutRequest.rate_per_second": aboveZero(1e6),
		"QueueRequest.max_active": between(0, 1e9), "HopQueuePutRequest.max_active": between(0, 1e9),
		"QueueRequest.max_running": between(0, 1e9), "HopQueuePutRequest.max_running": between(0, 1e9),
		"PushRequest.url": length(api.MaxPushURL), "PushRequest.secret": pattern(`^whsec_[A-Za-z0-9+/]+={0,2}$`),
		"WebhookRequest.url": length(api.MaxPushURL), "WebhookRequest.events": items(1, 4), "HopWebhookPutRequest.url": length(api.MaxPushURL), "HopWebhookPutRequest.events": items(1, 4),
		"PushRequest.timeout_ms":           otherwise(api.DefaultPushTimeout.Milliseconds(), ms(100, api.MaxPushTimeout)),
		"BreakerSettingsRequest.calls":     otherwise(api.DefaultBreakerCalls, between(1, 1000)),
		"BreakerSettingsRequest.half_open": otherwise(api.DefaultBreakerHalfOpen, between(1, 1000)),
		"BreakerSettingsRequest.open_ms":   otherwise(api.DefaultBreakerOpen.Milliseconds(), ms(100, time.Hour)),

		"BreakerSettingsRequest.failure_ratio": otherwise(api.DefaultBreakerFailureRatio, aboveZero(1)),

		"WorkerRequest.tags": items(0, 4*api.MaxTags, pattern(namePattern)), "ClaimRequest.tags": items(0, 4*api.MaxTags, pattern(namePattern)),
		"WorkerRequest.types": items(1, api.MaxTypesPerCall, pattern(namePattern)), "ClaimRequest.types": items(1, api.MaxTypesPerCall, pattern(namePattern)),
		"WorkerRequest.queues": items(0, api.MaxQueuesPerCall, pattern(namePattern)), "ClaimRequest.queues": items(1, api.MaxQueuesPerCall, pattern(namePattern)),
		"TenantRequest.name": length(128), "TenantPatch.name": length(128),
		"TenantRequest.weight": otherwise(1, between(1, 1000)), "TenantRequest.plan": otherwise("standard"),
		"Envelope.items": items(1, api.MaxHopItems),
		"Principal.kind": principals, "Principal.scopes": nothing, "HopKeyCreateRequest.kind": principals,
		"HopSubmitRequest.jobs": items(1, api.MaxBatchJobs), "HopWaitRequest.wait_ms": ms(0, api.MaxWait),
		"JobFilter.queue": pattern(namePattern), "DeadLetterFilter.queue": pattern(namePattern),
		"DeadLetterFilterBody.queue": pattern(namePattern), "AuditFilter.action": words(api.AuditActions()...),
		"Policy.kind": nothing, "Problem.type": nothing, "JobError.type": nothing,
		"Principal.user": nothing, "HopCapsRequest.user": nothing,
	}
}

func nothing(*openapi3.Schema) {}

func policies(s *openapi3.Schema) {
	words(api.OnFailedCancel, api.OnFailedRun, api.OnFailedHold)(s)
}

// aboveZero is for what may come near to zero, and not be it.
func aboveZero(high float64) limit {
	return func(s *openapi3.Schema) {
		between(0, high)(s)
		s.WithExclusiveMin(true)
	}
}

func curves(s *openapi3.Schema) {
	words(api.CurveExponential, api.CurveLinear, api.CurveConstant)(s)
}

func reasons(s *openapi3.Schema) {
	words(api.ReasonExhausted, api.ReasonPermanent, api.ReasonWorkerLost, api.ReasonDeadline)(s)
}

func principals(s *openapi3.Schema) {
	words(api.PrincipalTenant, api.PrincipalPlatform, api.PrincipalOperator)(s)
}

// length is for a text that may not be empty.
func length(most uint64) limit {
	return func(s *openapi3.Schema) { s.MinLength, s.MaxLength = 1, &most }
}

func metadata(s *openapi3.Schema) {
	most := uint64(api.MaxMetadata)
	s.MaxProps = &most
	if values := s.AdditionalProperties.Schema; values != nil {
		longest := uint64(api.MaxMetadataValue)
		values.Value.MaxLength = &longest
	}
}

// answerWords are the closed sets of answers.
func answerWords() map[string]limit {
	state := words(api.StateBlocked, api.StateScheduled, api.StateQueued, api.StateRunning, api.StateCompleted, api.StateDeadLetter, api.StateCancelled)
	return map[string]limit{
		"JobDependency.on_failed": policies, "Workflow.state": words(api.WorkflowStates()...), "WorkflowDetail.state": words(api.WorkflowStates()...), "WorkflowFilter.state": words(api.WorkflowStates()...),
		"state": state, "reason": reasons, "dead_reason": reasons, "curve": curves,
		"scopes":                   words(api.Scopes()...),
		"mode":                     words(api.ModePull, api.ModePush),
		"depth_capped":             words(api.StateBlocked, api.StateScheduled, api.StateQueued, api.StateRunning, api.StateDeadLetter),
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
		"Canary.reason":            length(1000),
		"Canary.state":             words(api.CanarySampling, api.CanaryWaiting, api.CanaryPassed, api.CanaryFailed),
		"Redrive.action":           words(api.ActionRedrive, api.ActionDiscard),
		"Redrive.waiting":          words(api.WaitingActiveCap),
		"Schedule.overlap":         words(api.OverlapAllow, api.OverlapSkip, api.OverlapCancel),
		"Schedule.catch_up":        words(api.CatchUpNone, api.CatchUpLatest, api.CatchUpAll),
		"ScheduleRun.skipped":      words(api.SkippedOverlap, api.SkippedPaused, api.SkippedCap),
		"ScheduleOutcome.skipped":  words(api.SkippedOverlap, api.SkippedPaused, api.SkippedCap),
		"TenantDeletion.state":     words(api.DeletionRunning, api.DeletionDone),
		"AuditActor.kind":          words(api.PrincipalTenant, api.PrincipalOperator),
		"AuditEntry.action":        words(api.AuditActions()...),
	}
}

// restrict says what a field may hold, and shows one.
func restrict(s *openapi3.Schema, base, member string, request bool) {
	rules := answerWords()
	if request {
		rules = requestLimits()
	}
	if rule, ok := rules[base+"."+member]; ok {
		rule(s)
	} else if rule, ok := rules[member]; ok {
		rule(s)
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
	exampleTime    = "2026-01-31T12:00:00.000000Z"
	exampleTrace   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// shown is a value that the page shows for a field of an answer; nil where its type
// says enough.
func shown(s *openapi3.Schema, base, member string) any {
	if s.Format == "date-time" {
		return exampleTime
	}
	text := map[string]string{
		"id": exampleJob, "job_id": exampleJob, "tenant": exampleTenant, "type": "hash.sha256", "queue": "default",
		"worker_id": "worker-1", "user": "ada", "dedupe_key": "welcome-ada", "correlation_id": "order-1042",
		"traceparent": exampleTrace, "plan": "standard", "key_id": "8y2k4m6n8p0q",
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
