// Package jobschema makes JSON Schemas of Go types, for types of jobs. It is a module of its own, so that the
// client and the worker need no library.
//
//	schema, err := jobschema.For[Email]()
//	if err != nil {
//		return err
//	}
//	_, err = c.PutType(ctx, "mail.send", api.JobTypeRequest{PayloadSchema: schema})
package jobschema

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// For gives the JSON Schema (draft 2020-12) of T as encoding/json writes it: a field without omitempty or omitzero is
// required, a pointer may be null, members that the struct does not have are refused. The text of the tag jsonschema,
// such as `jsonschema:"the address"`, becomes the field's description. An error says what JSON cannot hold, or that T
// contains itself.
func For[T any]() (json.RawMessage, error) {
	made, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, fmt.Errorf("jobschema: %w", err)
	}
	text, err := json.Marshal(made)
	if err != nil {
		return nil, fmt.Errorf("jobschema: %w", err)
	}
	return text, nil
}
