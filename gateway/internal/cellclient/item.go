package cellclient

import (
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/wirejson"
)

// itemOf is the text of an item.
func itemOf[Req any](item *hop.Item[Req]) (itemText, error) {
	if submit, is := any(item).(*hop.Item[hop.SubmitJobsRequest]); is {
		return submitText(submit)
	}
	return Encode(item)
}

// itemSize is what an item has besides its jobs, and jobSize what a job has besides its payload, about.
const (
	itemSize = 512
	jobSize  = 128
)

// submitText is the text of a submit: it is what a gateway writes most.
func submitText(item *hop.Item[hop.SubmitJobsRequest]) (itemText, error) {
	size, r := itemSize, &item.Request
	for i := range r.Jobs {
		size += jobSize + len(r.Jobs[i].Payload)
	}
	o := wirejson.NewObject(size)
	text := func(name, value string) {
		if value != "" {
			o.String(name, value)
		}
	}
	truth := func(name string, value bool) {
		if value {
			o.Bool(name, value)
		}
	}
	o.Name("principal")
	o.Open()
	o.String("kind", item.Principal.Kind)
	text("tenant", item.Principal.Tenant)
	text("user", item.Principal.User)
	if item.Principal.Scopes != nil {
		o.Strings("scopes", item.Principal.Scopes)
	}
	text("key_id", item.Principal.KeyID)
	o.Close()
	text("request_id", item.RequestID)
	text("correlation_id", item.CorrelationID)
	text("traceparent", item.Traceparent)
	truth("shared", item.Shared)
	o.Name("request")
	o.Open()
	o.Strings("ids", r.IDs)
	if r.Jobs == nil {
		o.Any("jobs", r.Jobs)
	} else {
		o.List("jobs", len(r.Jobs), func(i int) { jobText(&o, &r.Jobs[i]) })
	}
	if r.Problems != nil {
		o.Any("problems", r.Problems)
	}
	truth("batch", r.Batch)
	truth("atomic", r.Atomic)
	if r.Idempotency != nil {
		o.Any("idempotency", r.Idempotency)
	}
	if r.Workflow != nil {
		o.Any("workflow", r.Workflow)
	}
	o.Close()
	return o.End()
}

// jobText writes the members of a job.
func jobText(o *wirejson.Object, job *api.SubmitRequest) {
	number := func(name string, value *int64) {
		if value != nil {
			o.Int(name, *value)
		}
	}
	count := func(name string, value *int) {
		if value != nil {
			o.Int(name, int64(*value))
		}
	}
	at := func(name string, value *api.Time) {
		if value != nil {
			o.Text(name, value)
		}
	}
	text := func(name string, value *string) {
		if value != nil {
			o.String(name, *value)
		}
	}
	o.String("type", job.Type)
	if job.Queue != "" {
		o.String("queue", job.Queue)
	}
	if job.Payload != nil {
		o.Raw("payload", job.Payload)
	}
	count("priority", job.Priority)
	at("run_at", job.RunAt)
	number("delay_ms", job.DelayMS)
	at("deadline", job.Deadline)
	number("expires_after_ms", job.ExpiresAfterMS)
	number("max_wait_ms", job.MaxWaitMS)
	count("max_attempts", job.MaxAttempts)
	number("timeout_ms", job.TimeoutMS)
	if job.Retry != nil {
		o.Any("retry", job.Retry)
	}
	if job.Tags != nil {
		o.Strings("tags", job.Tags)
	}
	text("user", job.User)
	if job.Metadata != nil {
		o.Any("metadata", job.Metadata)
	}
	text("dedupe_key", job.DedupeKey)
	if job.Dedupe != nil {
		o.Any("dedupe", job.Dedupe)
	}
	text("key", job.Key)
	if job.KeyWeight != nil {
		o.Any("key_weight", job.KeyWeight)
	}
	if job.Costs != nil {
		o.Any("costs", job.Costs)
	}
	if job.After != nil {
		o.Any("after", job.After)
	}
}
