package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// mergeAnswers gives each public answer of several shapes a schema of its own, which has the members of all: SDKs read
// one type. Those that not all shapes have are optional, and its description says which shape has them.
func (c *completer) mergeAnswers() error {
	if c.service.internal {
		return nil
	}
	for _, op := range c.operations() {
		for _, r := range op.Responses.Map() {
			if r.Value == nil || r.Value.Content[jsonMedia] == nil {
				continue
			}
			media := r.Value.Content[jsonMedia]
			if media.Schema.Ref != "" || len(media.Schema.Value.OneOf) == 0 {
				continue
			}
			name, err := c.merge(media.Schema.Value.OneOf)
			if err != nil {
				return fmt.Errorf("%s: %w", op.OperationID, err)
			}
			media.Schema = &openapi3.SchemaRef{Ref: schemaPath + name}
		}
	}
	return nil
}

// merge makes the schema that has the members of some.
func (c *completer) merge(shapes openapi3.SchemaRefs) (string, error) {
	all := c.doc.Components.Schemas
	var names, said []string
	merged := openapi3.NewObjectSchema()
	merged.Properties = openapi3.Schemas{}
	count := map[string]int{}
	for _, shape := range shapes {
		name := strings.TrimPrefix(shape.Ref, schemaPath)
		names = append(names, name)
		for member, property := range all[name].Value.Properties {
			count[member]++
			var err error
			if merged.Properties[member], err = c.both(merged.Properties[member], property); err != nil {
				return "", fmt.Errorf("%s: %w", member, err)
			}
		}
	}
	for _, name := range names {
		own := slices.Sorted(maps.Keys(all[name].Value.Properties))
		own = slices.DeleteFunc(own, func(member string) bool { return count[member] == len(names) })
		with := ""
		if len(own) > 0 {
			with = ", which alone has `" + strings.Join(own, "`, `") + "`"
		}
		said = append(said, "a `"+name+"`"+with)
	}
	merged.Description = "Either " + strings.Join(said, "; or ") + "."
	for _, member := range all[names[0]].Value.Required {
		if count[member] == len(names) {
			merged.Required = append(merged.Required, member)
		}
	}
	name := strings.Join(names, "Or")
	all[name] = merged.NewRef()
	return name, nil
}

// both is what a member is that may be as in two schemas; the first is nil where only one has it.
func (c *completer) both(one, other *openapi3.SchemaRef) (*openapi3.SchemaRef, error) {
	if one == nil || same(one, other) {
		return clone(other), nil
	}
	first, null := strings.CutPrefix(strings.TrimPrefix(one.Ref, schemaPath), nullPrefix)
	second, alsoNull := strings.CutPrefix(strings.TrimPrefix(other.Ref, schemaPath), nullPrefix)
	if first == "" || second == "" || null != alsoNull {
		return nil, errors.New("it is not the same in all shapes")
	}
	name, err := c.merge(openapi3.SchemaRefs{{Ref: schemaPath + first}, {Ref: schemaPath + second}})
	if null {
		name = nullPrefix + name
	}
	return &openapi3.SchemaRef{Ref: schemaPath + name}, err
}

func same(one, other any) bool {
	first, err := json.Marshal(one)
	second, otherErr := json.Marshal(other)
	return err == nil && otherErr == nil && bytes.Equal(first, second)
}
