package store

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// JSON writes JSON without the HTML escapes that would change what was sent.
func JSON(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // every value here is made of our own types and of JSON that was checked
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

// TextArray is a PostgreSQL array in text form. Names need no escapes, but
// quotes: NULL is a name too.
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

// Metadata reads what JSON made of a map.
func Metadata(stored []byte) map[string]string {
	metadata := map[string]string{}
	_ = json.Unmarshal(stored, &metadata) // written by JSON from such a map
	return metadata
}
