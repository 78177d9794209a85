package jobschema_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/forgequeue/forgequeue/shared/jobschema"
)

type email struct {
	To       string            `json:"to"                jsonschema:"the address"`
	Copies   []string          `json:"copies,omitempty"`
	Template *string           `json:"template,omitzero"`
	At       time.Time         `json:"at,omitzero"`
	Values   map[string]string `json:"values,omitempty"`
	Size     int64             `json:"size,omitzero"`
	Raw      json.RawMessage   `json:"raw,omitempty"`
}

// What the type marshals fits the schema, and what it cannot be does not. That a gateway takes such a schema, and reads
// it alike, is tested in e2e.
func TestASchemaOfAStruct(t *testing.T) {
	t.Parallel()
	text, err := jobschema.For[email]()
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	check := func(sent []byte) error {
		var value any
		if err := json.Unmarshal(sent, &value); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(value)
	}
	template := "welcome"
	for _, value := range []email{
		{To: "ada@example.com"},
		{To: "ada@example.com", Copies: []string{"a"}, Template: &template, At: time.Now(), Values: map[string]string{"a": "b"}, Size: 1 << 60, Raw: json.RawMessage(`[1]`)},
	} {
		sent, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(sent); err != nil {
			t.Errorf("%s: %v; %s", sent, err, text)
		}
	}
	for _, sent := range []string{`{}`, `{"to":1}`, `{"to":"a","size":1.5}`, `{"to":"a","more":1}`, `{"to":"a","copies":"b"}`, `null`} {
		if check([]byte(sent)) == nil {
			t.Errorf("%s fits %s", sent, text)
		}
	}
	if _, err := jobschema.For[func()](); err == nil {
		t.Error("a function has a schema")
	}
}
