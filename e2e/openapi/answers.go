package main

import (
	"encoding/json"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// answers are what the page shows for whole answers: what a reader meets first. For
// the others it makes one up from the fields.
func answers() map[string]any {
	at := func(seconds int) api.Time {
		return api.At(time.Date(2026, 1, 31, 12, 0, seconds, 0, time.UTC))
	}
	waiting := exampleSummary(at(0))
	done := waiting
	done.State, done.Attempt, done.Epoch = api.StateCompleted, 1, 1
	done.WorkerID, done.StartedAt, done.FinishedAt = new("worker-1"), new(at(1)), new(at(2))
	payload := json.RawMessage(`{"text":"hello"}`)
	return map[string]any{
		"JobSummary":     waiting,
		"SubmitResponse": api.SubmitResponse{JobSummary: waiting, Warnings: []string{}},
		"Job": api.Job{
			JobSummary: done, Payload: payload, Result: json.RawMessage(`{"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}`),
		},
		"ClaimedJob": api.ClaimedJob{
			ID: exampleJob, Tenant: exampleTenant, Type: "hash.sha256", Queue: api.DefaultQueue, Payload: payload, Priority: api.DefaultPriority,
			Attempt: 1, MaxAttempts: api.DefaultMaxAttempts, Epoch: 1, LeaseToken: "LEASE_TOKEN", LeaseExpiresAt: at(31),
			LeaseMS: api.DefaultVisibilityTimeout.Milliseconds(), Tags: []string{}, Metadata: map[string]string{"order": "1042"},
			CorrelationID: new("order-1042"), CreatedAt: at(0), Parents: []api.ClaimedParent{}, Signals: []api.ClaimedSignal{},
		},
		"Worker": api.Worker{
			WorkerID: "worker-1", Status: api.WorkerActive, Queues: []string{api.DefaultQueue}, Tags: []string{"smtp"}, Concurrency: 10,
			Metadata: map[string]string{"host": "a1"}, Leases: 3, RegisteredAt: at(0), LastHeartbeatAt: at(30),
		},
		"Queue": api.Queue{
			Name: api.DefaultQueue, Mode: api.ModePull, Depth: api.Depth{Scheduled: 12, Queued: 340, Running: 10, DeadLetter: 2},
			DepthCapped: []string{}, OldestQueuedMS: new(int64(1250)), ActiveWorkers: 4, Unserved: []api.Unserved{},
			DrainPerSecond: new(85.0), WaitMS: new(int64(4012)),
			Settings: api.QueueSettings{
				VisibilityTimeoutMS: api.DefaultVisibilityTimeout.Milliseconds(), MaxAttempts: api.DefaultMaxAttempts, Retry: exampleRetry(),
				Types:   api.TypeLimits{"welcome": {MaxRunning: new(int64(5))}},
				Windows: []api.Window{{Cron: "0 22 * * *", DurationMS: 28_800_000, Timezone: "Europe/Berlin"}},
			},
		},
		"Stats": api.Stats{
			From: at(0), To: at(60), Step: api.StepMinute, Queue: new(api.DefaultQueue),
			Items: []api.StatsItem{{
				At: at(0), Submitted: 120, Started: 118, Completed: 112, FailedAttempts: 4, DeadLetter: 1, Cancelled: 2, WaitingMS: 5310, RunningMS: 96_400,
			}},
		},
		"LimitStats": api.LimitStats{
			From: at(0), To: at(60), Step: api.StepMinute,
			Limits:  []api.LimitHistory{{Name: "tenant-active", Items: []api.LimitStatsItem{{At: at(0), Used: 960, Limit: 1000}}}},
			Refused: []api.LimitRefusals{{Name: "user-active", Whose: new("ada"), Refused: 12, LastAt: at(0)}},
		},
		"Usage": api.Usage{
			From: "2026-11-23", To: "2026-11-24", By: api.ByDay, Begins: "2026-10-01", ClosedThrough: "2026-11-23",
			Items: []api.UsageItem{
				{Day: new("2026-11-23"), Accepted: 5210, Completed: 5120, DeadLetter: 9, Redriven: 4, Cancelled: 70, Discarded: 2, RunningMS: 4_812_300, FailedRunningMS: 52_100},
				{Day: new("2026-11-24"), Open: true, Accepted: 812, Completed: 790, Cancelled: 3, RunningMS: 701_200, FailedRunningMS: 8_400},
			},
		},
		"Attempt": api.Attempt{
			Attempt: 1, Epoch: 1, Kind: "failed", WorkerID: new("worker-1"), StartedAt: new(at(1)), EndedAt: new(at(2)),
			Error: &api.JobError{Type: "timeout", Message: "the mail server did not answer"}, NextRunAt: new(at(7)),
		},
		"Redrive": api.Redrive{
			ID: exampleRedrive, Action: api.ActionRedrive, Filter: api.DeadLetterFilter{Queue: api.DefaultQueue, Reason: api.ReasonExhausted},
			RatePerSecond: new(50.0), State: api.RedriveRunning, Matched: 412, Done: 150, CreatedAt: at(0), UpdatedAt: at(3),
			Canary: &api.Canary{Count: 20, Success: 0.9, TimeoutSeconds: api.DefaultCanaryTimeout, State: api.CanaryPassed, Sampled: 20, Completed: 19, Failed: 1},
		},
		"Budget": api.Budget{
			Name: "openai", Unit: "tokens", Amount: 400_000, PerMS: new(int64(60_000)), Timezone: api.DefaultTimezone, Available: new(int64(121_300)),
			Reserved: 40_000, Waiting: 17, CreatedAt: at(0), UpdatedAt: at(0),
		},
		"BudgetUsages": api.BudgetUsages{Budget: "openai", Unit: "tokens", Days: []api.BudgetUsage{{Day: "2026-11-23", Reserved: 9_120_000, Used: 6_412_331, Overdrawn: 1_204}}},
		"Schedule":     exampleSchedule(),
		"JobType":      exampleType(),
		"JobTypeSummary": api.JobTypeSummary{
			Type: "mail.send", Version: 2, Description: "Sends a mail.", ChecksPayload: true, Defaults: exampleType().Defaults, CreatedAt: at(0),
		},
		"Webhook": api.Webhook{
			Name: "billing", URL: "https://example.com/hooks", Events: []string{api.EventJobCompleted, api.EventJobDeadLetter},
			Filter: api.WebhookFilter{Queue: new("invoices")}, Thresholds: (*api.Thresholds)(nil).InForce(), Queue: api.WebhookQueue("billing"),
			Deliveries: api.WebhookDeliveries{Waiting: 2, Running: 1, LastAt: new(at(30)), LastStatus: new(204)},
			Breaker:    &api.Breaker{State: api.BreakerClosed}, CreatedAt: at(0), UpdatedAt: at(0),
		},
		"AuditEntry": api.AuditEntry{
			ID: exampleJob, Tenant: new(exampleTenant), Actor: api.AuditActor{Kind: hop.PrincipalTenant, KeyID: new("8y2k4m6n8p0q1r3s")},
			Action: api.AuditRedriveCreate, Object: new(exampleRedrive), At: at(0),
			Detail: json.RawMessage(`{"action":"redrive","filter":{"queue":"default"},"rate_per_second":50,"matched":412}`),
		},
		"Output":       api.Output{ID: "1.1", Stream: api.OutputOut, Text: "page 1 of 3\n", At: at(2)},
		"Signal":       api.Signal{Name: "approved", At: at(0), First: true},
		"SignalLink":   api.SignalLink{URL: "https://jobs.example.com/console/signals/eyJrIjoiOHkyazRtNm4.c2lnbmF0dXJl", ExpiresAt: at(259_200)},
		"LinkedSignal": api.LinkedSignal{JobID: exampleJob, Name: "approved", Title: "Refund order 1234?", ExpiresAt: at(259_200)},
		"Outcome":      api.Outcome{JobID: exampleJob, State: api.StateCompleted, Attempt: 1, Epoch: 1},
	}
}

func exampleType() api.JobType {
	return api.JobType{
		Type: "mail.send", Version: 2, Description: "Sends a mail.",
		PayloadSchema: json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"type":"string","format":"email"},"template":{"enum":["welcome","invoice"]}}}`),
		ResultSchema:  json.RawMessage("null"), Examples: []json.RawMessage{json.RawMessage(`{"to":"ada@example.com","template":"welcome"}`)},
		Defaults: api.JobTypeDefaults{Queue: new("mail"), MaxAttempts: new(5), Retry: &api.RetryRequest{BaseMS: new(int64(2000))}}, CreatedAt: api.At(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)),
	}
}

func exampleSchedule() api.Schedule {
	job := api.ScheduleJob{Type: "report.daily", Queue: "reports", Payload: json.RawMessage(`{"of":"yesterday"}`)}
	shown := api.Schedule{
		Name: "nightly", Cron: new("30 2 * * *"), Timezone: "Europe/Berlin", Job: job.Template(), Overlap: api.OverlapSkip,
		CatchUp: api.CatchUpLatest, CatchUpMax: api.DefaultCatchUpMax, Windows: []api.Window{}, NextRuns: []api.Time{},
		CreatedAt: api.At(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)), UpdatedAt: api.At(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)),
	}
	for day := range api.NextRunsShown {
		shown.NextRuns = append(shown.NextRuns, api.At(time.Date(2026, 2, 1+day, 1, 30, 0, 0, time.UTC)))
	}
	shown.LastRun = &api.ScheduleRun{At: api.At(time.Date(2026, 1, 31, 1, 30, 0, 0, time.UTC)), JobID: new(exampleJob)}
	shown.RecentRuns = &[]api.ScheduleOutcome{{ScheduleRun: *shown.LastRun, State: new(api.StateCompleted)}}
	return shown
}

func exampleRetry() api.Retry {
	return api.Retry{
		BaseMS: api.DefaultRetryBase.Milliseconds(), CapMS: api.DefaultRetryCap.Milliseconds(), Jitter: api.DefaultRetryJitter,
		Curve: api.DefaultRetryCurve,
	}
}

func exampleSummary(created api.Time) api.JobSummary {
	return api.JobSummary{
		ID: exampleJob, Type: "hash.sha256", Queue: api.DefaultQueue, State: api.StateQueued, Priority: api.DefaultPriority,
		Tags: []string{}, Metadata: map[string]string{"order": "1042"}, MaxAttempts: api.DefaultMaxAttempts, RunAt: &created,
		Retry: exampleRetry(), CorrelationID: new("order-1042"), CreatedAt: created, After: []api.JobDependency{}, WaitingFor: []string{},
	}
}

// plainJSON gives a value as JSON decodes it.
func plainJSON(value any) (plain any, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	return plain, err
}
