package api

import (
	"encoding/json"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// JobPatch changes a job that waits; what is absent, or null, stays. Tags and metadata are replaced as a whole.
type JobPatch struct {
	// Priority is 0 to 9, higher first. The job keeps its place by age, unless keys take turns in its queue.
	Priority *int `json:"priority,omitzero"`
	// Payload is any JSON but null, of up to 256 KiB.
	Payload json.RawMessage `json:"payload,omitzero" swaggertype:"object"`
	// Metadata is returned with the job.
	Metadata map[string]string `json:"metadata,omitzero"`
	// RunAt is when the job may start at the earliest, at most ten years ahead; a past time is now. For one that waits for signals
	// it is when it stops to.
	RunAt *Time `json:"run_at,omitzero" swaggertype:"string" format:"date-time"`
	// Deadline is when the job is of no use any more, at most ten years ahead.
	Deadline *Time `json:"deadline,omitzero" swaggertype:"string" format:"date-time"`
	// Tags are the tags that a worker must have to claim this job.
	Tags []string `json:"tags,omitzero"`
	// Queue is the queue to which the job moves.
	Queue *string `json:"queue,omitzero"`
	// MaxAttempts is the maximum number of attempts, 1 to 1000, and more than the job has used.
	MaxAttempts *int `json:"max_attempts,omitzero"`
}

// Validate tells which fields cannot be accepted. now is for times that are too far ahead by any clock.
func (p *JobPatch) Validate(now time.Time) []problem.FieldError { return validate(p, "", now) }

func (p *JobPatch) rules(r refusals) {
	whole(r, "priority", p.Priority, 0, MaxPriority)
	r.size("payload", p.Payload, MaxPayload)
	r.metadata(p.Metadata)
	r.ahead("run_at", p.RunAt)
	r.ahead("deadline", p.Deadline)
	r.names("tags", p.Tags, 0, MaxTags, "")
	r.text("queue", p.Queue, &nameText)
	whole(r, "max_attempts", p.MaxAttempts, 1, MaxAttempts)
}
