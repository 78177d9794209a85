package store

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// JSON writes JSON without HTML escapes, which would change the data.
func JSON(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // all values are of our own types and of validated JSON
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

// TextArray is a PostgreSQL array in text form. Names need quotes, but no escapes: NULL is a valid
// name.
func TextArray(names []string) string {
	if len(names) == 0 {
		return "{}"
	}
	return `{"` + strings.Join(names, `","`) + `"}`
}

// TimeOrNil is nil for nil.
func TimeOrNil(t *api.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}

// Metadata decodes stored metadata.
func Metadata(stored []byte) map[string]string {
	metadata := map[string]string{}
	if string(stored) == "{}" { // of most jobs
		return metadata
	}
	_ = json.Unmarshal(stored, &metadata) // written by JSON from such a map
	return metadata
}

// OrElse is the value of a pointer, or otherwise where it is nil.
func OrElse[T any](value *T, otherwise T) T {
	if value != nil {
		return *value
	}
	return otherwise
}

// NullIfEmpty is nil for an empty string.
func NullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// EmptyIfNil is an empty list for nil: [] in JSON, {} in PostgreSQL.
func EmptyIfNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
