package api

import "encoding/json"

// Kinds of lines of an export.
const (
	ExportJob      = "job"
	ExportAttempt  = "attempt"
	ExportOutput   = "output"
	ExportSignal   = "signal"
	ExportSchedule = "schedule"
	ExportEnd      = "end"
)

// ExportLine is a line of the export of a user's data. Kind says which member it has; the others are absent.
type ExportLine struct {
	Kind string `json:"kind" enums:"job,attempt,output,signal,schedule,end"`
	// JobID is the job of an attempt, a piece of output or a signal.
	JobID    string        `json:"job_id,omitzero"`
	Job      *Job          `json:"job,omitzero"`
	Attempt  *Attempt      `json:"attempt,omitzero"`
	Output   *Output       `json:"output,omitzero"`
	Signal   *StoredSignal `json:"signal,omitzero"`
	Schedule *Schedule     `json:"schedule,omitzero"`
	// Lines is how many lines came before the last one, which is of the kind end. Without that one the export is not whole.
	Lines *int64 `json:"lines,omitzero"`
}

// StoredSignal is a signal that a job was sent.
type StoredSignal struct {
	Name string `json:"name"`
	// Data is null for a signal without.
	Data json.RawMessage `json:"data" swaggertype:"object" sensitive:"all"`
	At   Time            `json:"at" swaggertype:"string" format:"date-time"`
}
