package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Bounds of job types.
const (
	// MaxTypes are the types of a tenant, MaxTypeVersions the versions that are kept of each.
	MaxTypes        = 500
	MaxTypeVersions = 20
	// MaxSchema bounds a schema, MaxTypeExamples the number of examples and MaxTypeExample each of them, in bytes.
	MaxSchema       = 64 << 10
	MaxTypeExamples = 10
	MaxTypeExample  = 16 << 10
	// MaxTypeBytes bounds all kept versions of a tenant's types together, in bytes.
	MaxTypeBytes = 16 << 20
	// MaxTypeDescription is in bytes.
	MaxTypeDescription = 2000
)

// JobTypeRequest is a type of jobs as its owner describes it. All of it may be absent.
type JobTypeRequest struct {
	Description string `json:"description,omitzero"`
	// PayloadSchema is a JSON Schema (2020-12) of up to 64 KiB that each submitted payload must fit; absent, or null, is no check.
	PayloadSchema json.RawMessage `json:"payload_schema,omitzero" swaggertype:"object"`
	// ResultSchema describes results. They are checked only with CheckResults.
	ResultSchema json.RawMessage `json:"result_schema,omitzero" swaggertype:"object"`
	CheckResults bool            `json:"check_results,omitzero"`
	// Examples are payloads that fit, at most 10.
	Examples []json.RawMessage `json:"examples,omitzero" swaggertype:"array,object"`
	// Defaults apply to a submit that does not say otherwise.
	Defaults *JobTypeDefaults `json:"defaults,omitzero"`
	// Label names what the type belongs to, such as a file of `forgequeue apply`; none if absent.
	Label *string `json:"label,omitzero"`
}

// JobTypeDefaults are what a submit of the type gets where it is silent: before the queue's settings.
type JobTypeDefaults struct {
	Queue       *string       `json:"queue,omitzero"`
	Priority    *int          `json:"priority,omitzero"`
	MaxAttempts *int          `json:"max_attempts,omitzero"`
	TimeoutMS   *int64        `json:"timeout_ms,omitzero"`
	Retry       *RetryRequest `json:"retry,omitzero"`
	Costs       Amounts       `json:"costs,omitzero"`
}

// JobType is a version of a type.
type JobType struct {
	Type string `json:"type" sensitive:"type"`
	// Version counts the changes of the type, from 1.
	Version     int    `json:"version"`
	Description string `json:"description"`
	// PayloadSchema and ResultSchema are null where there are none.
	PayloadSchema json.RawMessage   `json:"payload_schema" swaggertype:"object"`
	ResultSchema  json.RawMessage   `json:"result_schema" swaggertype:"object"`
	CheckResults  bool              `json:"check_results"`
	Examples      []json.RawMessage `json:"examples" swaggertype:"array,object" sensitive:"payload"`
	Defaults      JobTypeDefaults   `json:"defaults"`
	// Label names what the type belongs to; null for none.
	Label *string `json:"label"`
	// CreatedAt is when this version was made.
	CreatedAt Time `json:"created_at" swaggertype:"string" format:"date-time"`
}

// JobTypeSummary is a version of a type in a list, without its schemas and examples.
type JobTypeSummary struct {
	Type          string          `json:"type"`
	Version       int             `json:"version"`
	Description   string          `json:"description"`
	ChecksPayload bool            `json:"checks_payload"`
	ChecksResults bool            `json:"checks_results"`
	Defaults      JobTypeDefaults `json:"defaults"`
	Label         *string         `json:"label"`
	CreatedAt     Time            `json:"created_at" swaggertype:"string" format:"date-time"`
}

// Validate tells which fields cannot be accepted, the schemas themselves aside.
func (t *JobTypeRequest) Validate() []problem.FieldError { return validate(t, "", time.Time{}) }

func (t *JobTypeRequest) rules(r refusals) {
	r.text("description", &t.Description, &descriptionText)
	r.size("payload_schema", t.PayloadSchema, MaxSchema)
	r.size("result_schema", t.ResultSchema, MaxSchema)
	r.text("label", t.Label, &objectLabelText)
	r.check(!t.CheckResults || HasSchema(t.ResultSchema), "check_results", "needs a result_schema")
	r.items("examples", len(t.Examples), 0, MaxTypeExamples, "")
	for i := range t.Examples {
		r.size(fmt.Sprintf("examples[%d]", i), t.Examples[i], MaxTypeExample)
	}
	if t.Defaults != nil {
		t.Defaults.rules(r.in("defaults."))
	}
}

func (d *JobTypeDefaults) rules(r refusals) {
	r.text("queue", d.Queue, &nameText)
	whole(r, "priority", d.Priority, 0, MaxPriority)
	whole(r, "max_attempts", d.MaxAttempts, 1, MaxAttempts)
	r.millis("timeout_ms", d.TimeoutMS, time.Millisecond, MaxTimeout)
	if d.Retry != nil {
		d.Retry.rules(r.in("retry."))
	}
	r.amounts("costs", d.Costs)
}

// HasSchema says whether a schema is given: null is none.
func HasSchema(schema json.RawMessage) bool { return len(schema) > 0 && string(schema) != "null" }

// Apply fills in what a submit does not say.
func (d *JobTypeDefaults) Apply(job *SubmitRequest) {
	if job.Queue == "" && d.Queue != nil {
		job.Queue = *d.Queue
	}
	job.Priority = either(job.Priority, d.Priority)
	job.MaxAttempts = either(job.MaxAttempts, d.MaxAttempts)
	job.TimeoutMS = either(job.TimeoutMS, d.TimeoutMS)
	if job.Costs == nil {
		job.Costs = d.Costs
	}
	if d.Retry == nil {
		return
	}
	if job.Retry == nil {
		job.Retry = d.Retry
		return
	}
	job.Retry = &RetryRequest{
		BaseMS: either(job.Retry.BaseMS, d.Retry.BaseMS), CapMS: either(job.Retry.CapMS, d.Retry.CapMS),
		Jitter: either(job.Retry.Jitter, d.Retry.Jitter), Curve: either(job.Retry.Curve, d.Retry.Curve),
	}
}
