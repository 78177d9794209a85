package hop

import (
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ProcessReportEvery is how often a process reports itself.
const ProcessReportEvery = 20 * time.Second

// ProcessReport is what a gateway is.
type ProcessReport struct {
	// ID is drawn when it is started.
	ID      string `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`
	// AgeMS is since when it runs.
	AgeMS int64 `json:"age_ms"`
	// Stops says that it is about to end: it is forgotten.
	Stops bool `json:"stops,omitzero"`
}

const maxProcessAgeMS = 100 * 365 * 24 * 3_600_000

// Validate tells which fields cannot be accepted.
func (p *ProcessReport) Validate() (fields []problem.FieldError) {
	for _, label := range []struct{ field, value string }{{"id", p.ID}, {"address", p.Address}, {"version", p.Version}} {
		if !api.ValidLabel(label.value) {
			fields = append(fields, problem.FieldError{Field: label.field, Message: api.LabelRule})
		}
	}
	if p.AgeMS < 0 || p.AgeMS >= maxProcessAgeMS {
		fields = append(fields, problem.FieldError{Field: "age_ms", Message: "must be at least 0, and below 100 years"})
	}
	return fields
}
