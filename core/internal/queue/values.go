package queue

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// encode writes JSON without the HTML escapes that would change what was sent.
func encode(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // every value here is made of our own types and of JSON that was checked
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

// arrayText is a PostgreSQL array in text form. Names need no escapes, but
// quotes: NULL is a name too.
func arrayText(names []string) string {
	if len(names) == 0 {
		return "{}"
	}
	return `{"` + strings.Join(names, `","`) + `"}`
}

func timeOrNil(t *api.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}

func decodeMetadata(stored []byte) map[string]string {
	metadata := map[string]string{}
	_ = json.Unmarshal(stored, &metadata) // written from such a map by this package alone
	return metadata
}
