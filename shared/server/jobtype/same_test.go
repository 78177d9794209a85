package jobtype_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// anySchema draws a schema of a few keywords, as deep as depth.
func anySchema(t *rapid.T, depth int) any {
	made := map[string]any{}
	below := func() any {
		if depth == 0 {
			return rapid.Bool().Draw(t, "bool")
		}
		return anySchema(t, depth-1)
	}
	for _, keyword := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"type", "required", "properties", "additionalProperties", "items", "contains", "anyOf", "oneOf", "allOf", "not", "if", "enum", "minimum", "maxLength",
		"pattern", "uniqueItems", "unevaluatedProperties", "propertyNames", "patternProperties", "prefixItems", "dependentRequired", "$ref",
	}), 1, 3, rapid.ID).Draw(t, "keywords") {
		switch keyword {
		case "type":
			made["type"] = rapid.SampledFrom([]any{"object", "array", "string", "number", "integer", []any{"null", "string"}}).Draw(t, "type")
		case "required":
			made["required"] = []any{rapid.SampledFrom([]any{"a", "b"}).Draw(t, "member")}
		case "properties", "patternProperties":
			made[keyword] = map[string]any{"a": below(), "b": below()}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			made[keyword] = []any{below(), below()}
		case "if":
			made["if"], made["then"], made["else"] = below(), below(), below()
		case "enum":
			made["enum"] = []any{"a", json.Number("1"), nil, map[string]any{"a": json.Number("1")}}
		case "minimum", "maxLength":
			made[keyword] = json.Number("1")
		case "pattern":
			made["pattern"] = "a+"
		case "uniqueItems":
			made["uniqueItems"] = true
		case "dependentRequired":
			made[keyword] = map[string]any{"a": []any{"b"}}
		case "$ref":
			made["$ref"] = "#/$defs/d"
		default:
			made[keyword] = below()
		}
	}
	return made
}

func anyValue(t *rapid.T, depth int) any {
	kinds := []string{"null", "text", "number", "list", "object", "object"}
	if depth == 0 {
		kinds = kinds[:3]
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "text":
		return rapid.SampledFrom([]any{"a", "aa", "b"}).Draw(t, "text")
	case "number":
		return rapid.SampledFrom([]any{json.Number("1"), json.Number("1.0"), json.Number("0.5"), json.Number("7")}).Draw(t, "number")
	case "list":
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, anyValue(t, depth-1))
		}
		return list
	case "object":
		object := map[string]any{}
		for _, name := range []string{"a", "b", "ab"} {
			if rapid.Bool().Draw(t, name) {
				object[name] = anyValue(t, depth-1)
			}
		}
		return object
	}
	return nil
}

// Counting changes no answer: a value fits where the validator alone says so.
func TestCountingChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := map[string]any{"allOf": []any{anySchema(t, 2)}, "$defs": map[string]any{"d": map[string]any{"type": []any{"string", "object"}, "minProperties": json.Number("1")}}}
		schema, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(anyValue(t, 2))
		if err != nil {
			t.Fatal(err)
		}
		plain := jsonschema.NewCompiler()
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
		if err != nil {
			t.Fatal(err)
		}
		if err := plain.AddResource("schema://plain", parsed); err != nil {
			t.Fatal(err)
		}
		alone, err := plain.Compile("schema://plain")
		if err != nil {
			t.Skip(err)
		}
		decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		counted := compile(t, string(schema))
		want := alone.Validate(decoded)
		if found := counted.Check(value); (len(found) == 0) != (want == nil) {
			t.Fatalf("%s with %s: %+v, the validator alone: %v", value, schema, found, want)
		}
	})
}
