package call

import (
	"bytes"
	"encoding/json"
)

// Response is a handler's answer.
type Response[T any] struct {
	// Status is 200 if zero.
	Status int
	Value  T
	// Location goes into the header of that name, where not empty.
	Location string
	// Replayed: this is the saved answer of an Idempotency-Key.
	Replayed bool
	// ETag names the value, quotes included, where not empty. With status 304 it
	// is all that is sent.
	ETag string
	// Applied goes into Preference-Applied, where not empty.
	Applied string
}

// Passed is core's answer, as core wrote it: the gateway looks at nothing in it.
type Passed = Response[json.RawMessage]

// None is the request of a route that takes no body, or the value of a 204.
type None = struct{}

// Encode leaves <, > and & as they are, and raw JSON byte for byte: a payload
// comes back as it was sent, a replay as it was stored.
func Encode(value any) ([]byte, error) {
	if raw, ok := value.(json.RawMessage); ok {
		return raw, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
