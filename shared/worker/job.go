package worker

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Job is one attempt at a job, as its handler sees it.
type Job[In any] struct {
	Info
	// Payload is what the producer sent, decoded; In's zero value for null.
	Payload In
}

// RawJob is a Job whose payload was not decoded.
type RawJob = Job[json.RawMessage]

// Info is all of a job but the decoded payload.
type Info struct {
	ID     string
	Tenant string
	Type   string
	Queue  string
	// User is the tenant's own end user; empty if the job has none.
	User     string
	Priority int
	// Attempt counts executions from 1; MaxAttempts is the last one.
	Attempt     int
	MaxAttempts int
	// Epoch is the number of claims; it never decreases: use it to fence writes to
	// stores of your own.
	Epoch    int64
	Tags     []string
	Metadata map[string]string
	// Deadline is when the job becomes useless, by the server's clock; zero if there
	// is none. It does not end the context: a started attempt may finish.
	Deadline time.Time
	// CorrelationID and Traceparent are the submitting request's; empty if it had none.
	CorrelationID string
	Traceparent   string
	CreatedAt     time.Time
	// Raw is the payload as it was sent.
	Raw json.RawMessage
	// Workflow says of which workflow the job is, and under which ref; nil if of none.
	Workflow *api.JobWorkflow
	// After are the jobs that it came after, those that are still kept, with their
	// states at the claim; Parents gives their results.
	After []api.ClaimedParent
	// Signals are those that the job has; Signal reads one. WokenBy is what has ended the job's last wait: api.WokenBySignal or
	// api.WokenByTimeout; empty if it has not waited.
	Signals []api.ClaimedSignal
	WokenBy string

	// checkpoint is that of an earlier attempt. reports are what the handler reports; nil if no worker made the job.
	checkpoint json.RawMessage
	reports    *reports
	// output is what the handler says; nil if no worker made the job.
	output *output
	// used is what the handler reports of budgets; nil if no worker made the job.
	used *used
	// then are the jobs that follow, and signals of other jobs; nil if no worker made the job.
	then *then
	// client reads the parents' results; nil if no worker made the job.
	client *client.Client
	// logger is the worker's; nil if no worker made the job.
	logger *slog.Logger
}

// Logger is the worker's logger with what the line of the attempt has too: job_id,
// type, queue, attempt, and correlation_id if the job has one.
func (i *Info) Logger() *slog.Logger {
	logger := i.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger = logger.With("job_id", i.ID, "type", i.Type, "queue", i.Queue, "attempt", i.Attempt)
	if i.CorrelationID != "" {
		logger = logger.With("correlation_id", i.CorrelationID)
	}
	return logger
}

func newRawJob(claimed api.ClaimedJob, w *Worker, reports *reports, output *output) *RawJob {
	info := Info{
		ID: claimed.ID, Tenant: claimed.Tenant, Type: claimed.Type, Queue: claimed.Queue,
		User: orEmpty(claimed.User), Priority: claimed.Priority,
		Attempt: claimed.Attempt, MaxAttempts: claimed.MaxAttempts, Epoch: claimed.Epoch,
		Tags: claimed.Tags, Metadata: claimed.Metadata,
		CorrelationID: orEmpty(claimed.CorrelationID), Traceparent: orEmpty(claimed.Traceparent),
		CreatedAt: claimed.CreatedAt.Time, Raw: claimed.Payload,
		Workflow: claimed.Workflow, After: claimed.Parents, Signals: claimed.Signals, WokenBy: orEmpty(claimed.WokenBy),
		client: w.client, logger: w.logger, checkpoint: claimed.Checkpoint, reports: reports, output: output, used: &used{}, then: &then{},
	}
	if claimed.Deadline != nil {
		info.Deadline = claimed.Deadline.Time
	}
	return &RawJob{Info: info, Payload: claimed.Payload}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
