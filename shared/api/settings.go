package api

import "cmp"

// A PUT replaces all settings of an object: what is absent is the default again. The methods Request give the request that
// sets an object as it stands, to change one setting of it; the methods WithDefaults say what a request without some of
// them means.

// Request is the request that sets the schedule as it stands.
func (s *Schedule) Request() ScheduleRequest {
	return ScheduleRequest{
		Cron: s.Cron, EveryMS: s.EveryMS, Timezone: s.Timezone, Job: ScheduleJob(s.Job), Overlap: s.Overlap, CatchUp: s.CatchUp,
		CatchUpMax: &s.CatchUpMax, StartsAt: s.StartsAt, EndsAt: s.EndsAt, Windows: s.Windows, Paused: s.Paused, Label: s.Label,
	}
}

// Request is the request that sets the webhook as it stands. It has no secret: that stays.
func (w *Webhook) Request() WebhookRequest {
	return WebhookRequest{URL: w.URL, Events: w.Events, Filter: &w.Filter, Thresholds: &w.Thresholds, Paused: w.Paused, Label: w.Label}
}

// Request is the request that stores the type as it stands.
func (t *JobType) Request() JobTypeRequest {
	return JobTypeRequest{
		Description: t.Description, PayloadSchema: t.PayloadSchema, ResultSchema: t.ResultSchema, CheckResults: t.CheckResults,
		Examples: t.Examples, Defaults: &t.Defaults, Label: t.Label,
	}
}

// Request is the request that sets the budget as it stands.
func (b *Budget) Request() BudgetRequest {
	request := BudgetRequest{Unit: b.Unit, Amount: b.Amount, PerMS: b.PerMS, Window: b.Window, Burst: b.Burst, By: b.By, Label: b.Label}
	if b.Window != nil {
		request.Timezone = b.Timezone
	}
	return request
}

// Request is the request that sets the plan as it stands.
func (p *Plan) Request() PlanRequest {
	return PlanRequest{Limits: p.Limits, VisibilityTimeoutMSMax: p.VisibilityTimeoutMSMax, Label: p.Label}
}

// WithDefaults is the request with the defaults in the place of what is absent.
func (q *QueueRequest) WithDefaults() QueueRequest {
	made := *q
	made.Mode, made.VisibilityTimeoutMS = orDefault(made.Mode, ModePull), orDefault(made.VisibilityTimeoutMS, DefaultVisibilityTimeout.Milliseconds())
	made.MaxAttempts = orDefault(made.MaxAttempts, DefaultMaxAttempts)
	retry := *orDefault(made.Retry, RetryRequest{})
	retry.BaseMS, retry.CapMS = orDefault(retry.BaseMS, DefaultRetryBase.Milliseconds()), orDefault(retry.CapMS, DefaultRetryCap.Milliseconds())
	retry.Jitter, retry.Curve = orDefault(retry.Jitter, DefaultRetryJitter), orDefault(retry.Curve, DefaultRetryCurve)
	keys := made.Keys.Settings().InForce()
	made.Retry, made.Keys, made.Types, made.Costs = &retry, keys.Request(), made.Types.Known(), made.Costs.known()
	made.Windows = knownWindows(made.Windows)
	if made.Push != nil {
		push := *made.Push
		breaker := *orDefault(push.Breaker, BreakerSettingsRequest{})
		breaker.Calls, breaker.HalfOpen = orDefault(breaker.Calls, DefaultBreakerCalls), orDefault(breaker.HalfOpen, DefaultBreakerHalfOpen)
		breaker.OpenMS, breaker.FailureRatio = orDefault(breaker.OpenMS, DefaultBreakerOpen.Milliseconds()), orDefault(breaker.FailureRatio, DefaultBreakerFailureRatio)
		push.TimeoutMS, push.Breaker = orDefault(push.TimeoutMS, DefaultPushTimeout.Milliseconds()), &breaker
		if IsBrokerURL(push.URL) {
			push.Settle = orDefault(push.Settle, SettleConfirm)
		}
		made.Push = &push
	}
	return made
}

// WithDefaults is the request with the defaults in the place of what is absent.
func (s *ScheduleRequest) WithDefaults() ScheduleRequest {
	made := *s
	made.Timezone, made.Overlap, made.CatchUp = cmp.Or(made.Timezone, DefaultTimezone), cmp.Or(made.Overlap, OverlapAllow), cmp.Or(made.CatchUp, CatchUpNone)
	made.CatchUpMax = orDefault(made.CatchUpMax, DefaultCatchUpMax)
	made.Windows = knownWindows(made.Windows)
	made.Job = ScheduleJob(made.Job.Template())
	made.Job.Costs = made.Job.Costs.known()
	return made
}

// WithDefaults is the request with the defaults in the place of what is absent.
func (w *WebhookRequest) WithDefaults() WebhookRequest {
	made := *w
	made.Filter = orDefault(made.Filter, WebhookFilter{})
	thresholds := made.Thresholds.InForce()
	made.Thresholds = &thresholds
	return made
}

// WithDefaults is the request with the defaults in the place of what is absent.
func (t *JobTypeRequest) WithDefaults() JobTypeRequest {
	made := *t
	if !HasSchema(made.PayloadSchema) {
		made.PayloadSchema = nil
	}
	if !HasSchema(made.ResultSchema) {
		made.ResultSchema = nil
	}
	if len(made.Examples) == 0 {
		made.Examples = nil
	}
	defaults := *orDefault(made.Defaults, JobTypeDefaults{})
	made.Defaults = &defaults
	return made
}

// WithDefaults is the request with the defaults in the place of what is absent.
func (b *BudgetRequest) WithDefaults() BudgetRequest {
	made := *b
	if made.Window != nil {
		made.Timezone = cmp.Or(made.Timezone, DefaultTimezone)
	}
	return made
}

// WithDefaults is the request itself: what is absent of a plan is no limit.
func (p *PlanRequest) WithDefaults() PlanRequest { return *p }

// orDefault is a setting that may be absent, or its default.
func orDefault[T any](value *T, otherwise T) *T {
	if value == nil {
		return &otherwise
	}
	return value
}

func knownWindows(windows []Window) []Window {
	if windows == nil {
		return []Window{}
	}
	return windows
}

func (a Amounts) known() Amounts {
	if a == nil {
		return Amounts{}
	}
	return a
}
