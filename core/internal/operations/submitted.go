package operations

import (
	"strconv"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/wirejson"
)

// submittedSize is the length of a usual answer to a submit of one job.
const submittedSize = 1 << 10

// null is what other values are rarely.
const null = "null"

// submittedText is the answer to a submit of one job, as text: each single submit has one.
func submittedText(r *api.SubmitResponse) ([]byte, error) {
	o := wirejson.NewObject(submittedSize)
	at := func(name string, at *api.Time) {
		if at == nil {
			o.Or(name, true, null, nil)
			return
		}
		o.Text(name, at)
	}
	o.String("id", r.ID)
	o.String("type", r.Type)
	o.String("queue", r.Queue)
	o.Optional("user", r.User)
	o.String("state", r.State)
	o.Int("priority", int64(r.Priority))
	o.Strings("tags", r.Tags)
	o.Or("metadata", r.Metadata != nil && len(r.Metadata) == 0, "{}", r.Metadata)
	o.Int("attempt", int64(r.Attempt))
	o.Int("max_attempts", int64(r.MaxAttempts))
	o.Int("epoch", r.Epoch)
	o.Int("redrives", int64(r.Redrives))
	at("run_at", r.RunAt)
	at("deadline", r.Deadline)
	o.Or("timeout_ms", r.TimeoutMS == nil, null, r.TimeoutMS)
	o.Name("retry")
	o.Open()
	o.Int("base_ms", r.Retry.BaseMS)
	o.Int("cap_ms", r.Retry.CapMS)
	o.Or("jitter", isPlain(r.Retry.Jitter), strconv.FormatFloat(r.Retry.Jitter, 'f', -1, 64), r.Retry.Jitter)
	o.String("curve", r.Retry.Curve)
	o.Close()
	o.Optional("dedupe_key", r.DedupeKey)
	o.Optional("key", r.Key)
	o.Or("key_weight", r.KeyWeight == nil, null, r.KeyWeight)
	o.Or("costs", r.Costs == nil, null, r.Costs)
	o.Bool("cancel_requested", r.CancelRequested)
	o.Optional("worker_id", r.WorkerID)
	at("lease_expires_at", r.LeaseExpiresAt)
	o.Or("last_error", r.LastError == nil, null, r.LastError)
	o.Optional("dead_reason", r.DeadReason)
	o.Optional("correlation_id", r.CorrelationID)
	o.Optional("traceparent", r.Traceparent)
	at("created_at", &r.CreatedAt)
	at("started_at", r.StartedAt)
	at("finished_at", r.FinishedAt)
	o.Or("workflow", r.Workflow == nil, null, r.Workflow)
	o.Or("after", r.After != nil && len(r.After) == 0, "[]", r.After)
	o.Or("blocked_by", r.BlockedBy == nil, null, r.BlockedBy)
	o.Strings("waiting_for", r.WaitingFor)
	at("wait_until", r.WaitUntil)
	o.Optional("output", r.Output)
	o.Optional("rerun_of", r.RerunOf)
	o.Or("progress", r.Progress == nil, null, r.Progress)
	o.Strings("warnings", r.Warnings)
	o.Bool("deduplicated", r.Deduplicated)
	o.Bool("replaced", r.Replaced)
	return o.End()
}

// isPlain says that JSON writes a number without an exponent.
func isPlain(number float64) bool { return number == 0 || number >= 1e-6 && number <= 1 }
