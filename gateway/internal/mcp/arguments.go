package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/docs"
)

// arguments are what a tool takes.
type arguments struct {
	// places says where each argument goes: path, query, header or body.
	places map[string]string
	// schema is the JSON Schema of all.
	schema map[string]any
}

const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
	inBody   = "body"
	// matchedArgument is the number that a confirmed tool takes.
	matchedArgument = "matched"
	// keyArgument is the only header that tools take.
	keyHeader, keyArgument = "Idempotency-Key", "idempotency_key"
)

// document is what is used of the API's.
type document struct {
	Paths map[string]map[string]struct {
		Parameters  []map[string]any `json:"parameters"`
		RequestBody struct {
			Content map[string]struct {
				Schema map[string]any `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`

	all map[string]any
}

// described gives the table's tools their arguments, as the API's document has them.
func described() ([]*tool, error) {
	var d document
	text := docs.Gateway()
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d.all); err != nil {
		return nil, err
	}
	tools := table()
	for _, t := range tools {
		var err error
		if t.arguments, err = d.arguments(t); err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.name, err)
		}
	}
	return tools, nil
}

func (d *document) arguments(t *tool) (a arguments, err error) {
	operation, ok := d.Paths[t.path][strings.ToLower(t.method)]
	if !ok {
		return a, fmt.Errorf("%s %s is not in the API's document", t.method, t.path)
	}
	a.places = map[string]string{}
	properties, required := map[string]any{}, slices.Clone(t.needs)
	for _, parameter := range operation.Parameters {
		p := d.target(parameter)
		name, _ := p["name"].(string)
		place, _ := p["in"].(string)
		if place == inHeader {
			if name != keyHeader {
				continue
			}
			name = keyArgument
		}
		if !t.offers(name) {
			continue
		}
		schema, _ := d.plain(p["schema"]).(map[string]any)
		schema["description"] = p["description"]
		a.places[name], properties[name] = place, schema
		if p["required"] == true {
			required = append(required, name)
		}
	}
	if body := operation.RequestBody.Content["application/json"].Schema; body != nil {
		schema, _ := d.plain(body).(map[string]any)
		members, _ := schema["properties"].(map[string]any)
		for name, member := range members {
			if t.offers(name) {
				a.places[name], properties[name] = inBody, member
			}
		}
		for _, name := range list(schema["required"]) {
			required = append(required, name.(string)) //nolint:forcetypeassert // a schema has no other
		}
	}
	for _, name := range append(slices.Clone(t.takes), t.needs...) {
		if properties[name] == nil {
			return a, fmt.Errorf("the API's document has no %s", name)
		}
	}
	if t.confirmed {
		properties[matchedArgument] = map[string]any{"type": "integer", "description": "The number that the dry run gave for the same filter. Nothing is done unless as many match now."}
		required = append(required, matchedArgument)
	}
	a.schema = map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		a.schema["required"] = slices.Compact(required)
	}
	return a, nil
}

// offers says whether an agent can choose an argument.
func (t *tool) offers(name string) bool {
	_, fixed := t.fixed[name]
	return !fixed && (t.takes == nil || slices.Contains(t.takes, name))
}

// target follows a reference.
func (d *document) target(node map[string]any) map[string]any {
	for {
		reference, is := node["$ref"].(string)
		if !is {
			return node
		}
		at := d.all
		for name := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
			at, _ = at[name].(map[string]any)
		}
		node = at
	}
}

// plain is a schema of OpenAPI 3.0 as one of JSON Schema: without references, examples, and nulls, which stand for absent.
func (d *document) plain(node any) any {
	switch value := node.(type) {
	case []any:
		plain := make([]any, len(value))
		for i := range value {
			plain[i] = d.plain(value[i])
		}
		return plain
	case map[string]any:
		plain := map[string]any{}
		for name, member := range d.target(value) {
			switch {
			case name == "nullable" || name == "example" || strings.HasPrefix(name, "x-"):
			case name == "exclusiveMinimum": // a boolean there
			case name == "properties":
				named := maps.Clone(member.(map[string]any)) //nolint:forcetypeassert // a schema has no other
				for property := range named {
					named[property] = d.plain(named[property])
				}
				plain[name] = named
			default:
				plain[name] = d.plain(member)
			}
		}
		return plain
	}
	return node
}

func list(node any) []any {
	items, _ := node.([]any)
	return items
}
