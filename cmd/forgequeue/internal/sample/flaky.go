package sample

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/worker"
)

// FlakyInput is the payload of flaky.
type FlakyInput struct {
	// Fails is how many attempts fail, counted from the first.
	Fails int `json:"fails"`
	// Message is what they fail with; "attempt N fails on purpose" if empty.
	Message string `json:"message"`
}

// UnmarshalJSON refuses unknown fields: with a mistyped one, flaky would succeed
// at once.
func (f *FlakyInput) UnmarshalJSON(text []byte) error {
	type plain FlakyInput
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*plain)(f)); err != nil {
		return fmt.Errorf(`%w; flaky takes {"fails": NUMBER, "message": TEXT}`, err)
	}
	return nil
}

// FlakyResult is the result of flaky.
type FlakyResult struct {
	SucceededAtAttempt int `json:"succeeded_at_attempt"`
}

// Flaky fails while the attempt is at most Fails. It is stateless: the attempt's
// number is in the job, on any worker.
func Flaky(_ context.Context, job *worker.Job[FlakyInput]) (FlakyResult, error) {
	if job.Attempt <= job.Payload.Fails {
		message := cmp.Or(job.Payload.Message, fmt.Sprintf("attempt %d fails on purpose", job.Attempt))
		return FlakyResult{}, flakyError(message)
	}
	return FlakyResult{SucceededAtAttempt: job.Attempt}, nil
}

// flakyError is reported under the type "flaky".
type flakyError string

func (e flakyError) Error() string   { return string(e) }
func (flakyError) ErrorType() string { return "flaky" }
