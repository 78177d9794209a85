// Package typedocs makes the OpenAPI document of a tenant's types of jobs.
package typedocs

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

type object = map[string]any

// Tag is the group of the operations.
const Tag = "Your job types"

// Document has an operation for each type: a submit of it. They are all POST /v1/jobs, and OpenAPI wants each path
// once; so each has the type as a fragment, which no client sends.
func Document(types hop.TypeDocuments) any {
	paths, schemas := object{}, object{}
	for i := range types.Types {
		one := &types.Types[i]
		name := componentName(i, one.Type)
		if api.HasSchema(one.PayloadSchema) {
			schemas[name] = relocate(one.PayloadSchema, name)
		}
		paths["/v1/jobs#"+one.Type] = object{"post": operation(one, name, operationID(i, one.Type))}
	}
	description := "One operation for each job type of the tenant whose key you use."
	if types.LeftOut > 0 {
		description += fmt.Sprintf(" %d types are left out: the schemas of all of them have more than 4 MiB.", types.LeftOut)
	}
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "ForgeQueue job types", "version": "1", "description": description},
		"tags":    []any{object{"name": Tag, "description": description}},
		"paths":   paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer"}},
		},
		"security": []any{object{"key": []any{}}},
	}
}

// submit is an example: its type comes first.
type submit struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitzero"`
}

// componentName is unique, and one that a component may have.
func componentName(i int, name string) string {
	return fmt.Sprintf("payload.%d.%s", i, strings.ReplaceAll(name, ":", "."))
}

// operationID is unique, and one that pages and programs can use as a name.
func operationID(i int, name string) string {
	return fmt.Sprintf("submit_%d_%s", i, strings.NewReplacer(".", "_", ":", "_", "-", "_").Replace(name))
}

func operation(one *api.JobType, component, id string) object {
	payload := object{}
	if api.HasSchema(one.PayloadSchema) {
		payload = object{"$ref": "#/components/schemas/" + component}
	}
	body := object{
		"type": "object", "required": []any{"type"},
		"properties": object{
			"type": object{"type": "string", "enum": []any{one.Type}}, "payload": payload,
			"queue": object{"type": "string"}, "priority": object{"type": "integer"}, "delay_ms": object{"type": "integer"},
			"dedupe_key": object{"type": "string"}, "max_attempts": object{"type": "integer"}, "timeout_ms": object{"type": "integer"},
		},
	}
	if api.HasSchema(one.PayloadSchema) {
		body["required"] = []any{"type", "payload"}
	}
	examples := object{}
	for i, example := range one.Examples {
		examples[fmt.Sprintf("example %d", i+1)] = object{"value": submit{one.Type, example}}
	}
	if len(examples) == 0 {
		examples["without a payload"] = object{"value": submit{Type: one.Type}}
	}
	description := one.Description
	if defaults, err := json.Marshal(one.Defaults); err == nil && string(defaults) != "{}" {
		description += "\n\nDefaults: `" + string(defaults) + "`"
	}
	return object{
		"tags": []any{Tag}, "summary": fmt.Sprintf("Submit %s (version %d)", one.Type, one.Version), "operationId": id,
		"description": strings.TrimSpace(description), "security": []any{object{"key": []any{}}},
		"requestBody": object{"required": true, "content": object{"application/json": object{"schema": body, "examples": examples}}},
		"responses": object{
			"202": object{"description": "Accepted: the job is stored."},
			"422": object{"description": "schema_mismatch: the payload does not fit. `errors` says where."},
		},
	}
}

// relocate makes references within a schema start at the document, in which it is a component.
func relocate(schema json.RawMessage, component string) any {
	var value any
	if json.Unmarshal(schema, &value) != nil {
		return object{} // it was compiled when it was stored
	}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && (ref == "#" || strings.HasPrefix(ref, "#/")) {
				v["$ref"] = "#/components/schemas/" + component + ref[1:]
			}
			for _, member := range v {
				walk(member)
			}
		case []any:
			for _, member := range v {
				walk(member)
			}
		}
	}
	walk(value)
	return value
}
