package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// What a job does where one that it comes after ends as a dead letter or is cancelled.
const (
	// OnFailedCancel cancels the job too. It is the default.
	OnFailedCancel = "cancel"
	// OnFailedRun lets the job run all the same.
	OnFailedRun = "run"
	// OnFailedHold keeps the job blocked until the other was redriven and has completed. Where no
	// redrive can come, because the other was cancelled or its dead letter deleted, the job is cancelled.
	OnFailedHold = "hold"
)

// ErrorParentFailed is the type of the error of a job that was cancelled because of one that it comes
// after.
const ErrorParentFailed = "parent_failed"

const (
	// MaxAfter bounds the parents of one job.
	MaxAfter = 100
	// MaxWorkflowAfter bounds the parents of one job of a workflow.
	MaxWorkflowAfter = 1000
	// MaxEdges bounds the parents of all jobs of one request.
	MaxEdges = 10_000
)

// Dependency names a job that must have ended before the job with it can start: the id as a string,
// or an object with a policy.
type Dependency struct {
	JobID string `json:"job_id"`
	// OnFailed is cancel, run or hold; cancel if empty.
	OnFailed string `json:"on_failed,omitzero"`
}

// Policy is OnFailed with its default.
func (d *Dependency) Policy() string { return cmp.Or(d.OnFailed, OnFailedCancel) }

// UnmarshalJSON reads a string or an object.
func (d *Dependency) UnmarshalJSON(text []byte) error {
	type plain Dependency
	*d = Dependency{}
	return textOrObject(text, &d.JobID, (*plain)(d))
}

// textOrObject reads a JSON string into one place, or an object without unknown fields into another.
func textOrObject(raw []byte, text *string, object any) error {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, text)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(object)
}

// JobDependency is what a job shows of one that it comes after.
type JobDependency struct {
	JobID string `json:"job_id"`
	// Ref is its name in the workflow, null for a job of no workflow.
	Ref *string `json:"ref"`
	// State is the other job's.
	State string `json:"state"`
	// OnFailed is cancel, run or hold.
	OnFailed string `json:"on_failed"`
}

var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (d *Dependency) rules(r refusals) { r.words("on_failed", orNil(d.OnFailed), policyWords) }

func (r refusals) after(after []Dependency) {
	r.items("after", len(after), 0, MaxAfter, "")
	if len(after) == 0 {
		return
	}
	seen := map[string]int{}
	for i := range after {
		one := &after[i]
		if !uuidPattern.MatchString(one.JobID) {
			r.add(fmt.Sprintf("after[%d]", i), "must be the id of a job, or an object with its job_id")
			continue
		}
		id := strings.ToLower(one.JobID)
		if first, twice := seen[id]; twice {
			r.add(fmt.Sprintf("after[%d]", i), "is the same job as after[%d]", first)
		}
		seen[id] = i
		if one.OnFailed != "" {
			one.rules(r.in(fmt.Sprintf("after[%d].", i)))
		}
	}
}
