package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/api"
)

const schemaPath = "#/components/schemas/"

// A schema that requests and answers share comes in two forms: in a request
// anything may be left out, in an answer nothing is.
const (
	inputSuffix = "Input"
	nullPrefix  = "Nullable"
)

// walk visits a schema and those inside it, not those that it refers to.
func walk(ref *openapi3.SchemaRef, visit func(*openapi3.SchemaRef)) {
	if ref == nil {
		return
	}
	visit(ref)
	if ref.Ref != "" || ref.Value == nil {
		return
	}
	s := ref.Value
	walk(s.Items, visit)
	walk(s.AdditionalProperties.Schema, visit)
	for _, some := range []openapi3.SchemaRefs{s.AllOf, s.OneOf, s.AnyOf} {
		for _, r := range some {
			walk(r, visit)
		}
	}
	for _, r := range s.Properties {
		walk(r, visit)
	}
}

// reach gives the names of all schemas that some refer to, in the end.
func (c *completer) reach(from []*openapi3.SchemaRef) map[string]bool {
	reached := map[string]bool{}
	var visit func(*openapi3.SchemaRef)
	visit = func(r *openapi3.SchemaRef) {
		name := strings.TrimPrefix(r.Ref, schemaPath)
		if r.Ref == "" || reached[name] {
			return
		}
		reached[name] = true
		walk(c.doc.Components.Schemas[name], visit)
	}
	for _, r := range from {
		walk(r, visit)
	}
	return reached
}

func (c *completer) bodies() (requests, answers []*openapi3.SchemaRef) {
	for _, op := range c.operations() {
		if op.RequestBody != nil {
			for _, media := range op.RequestBody.Value.Content {
				requests = append(requests, media.Schema)
			}
		}
		for _, r := range op.Responses.Map() {
			if r.Value != nil {
				for _, media := range r.Value.Content {
					answers = append(answers, media.Schema)
				}
			}
		}
	}
	return requests, append(answers, c.problems()...)
}

// splitInputs gives each schema that both use a form of its own for requests.
func (c *completer) splitInputs() {
	requests, answers := c.bodies()
	asked, told := c.reach(requests), c.reach(answers)
	all := c.doc.Components.Schemas
	moved := map[string]bool{}
	for name := range asked {
		if told[name] {
			moved[name] = true
			all[name+inputSuffix] = clone(all[name])
		}
	}
	redirect := func(r *openapi3.SchemaRef) {
		if name := strings.TrimPrefix(r.Ref, schemaPath); moved[name] {
			r.Ref += inputSuffix
		}
	}
	for _, r := range requests {
		walk(r, redirect)
	}
	for name := range asked {
		if moved[name] {
			name += inputSuffix
		}
		walk(all[name], redirect)
	}
}

func clone(ref *openapi3.SchemaRef) *openapi3.SchemaRef {
	text, err := json.Marshal(ref)
	if err != nil {
		panic(err) // it was read from JSON a moment ago
	}
	var copied openapi3.SchemaRef
	if err := json.Unmarshal(text, &copied); err != nil {
		panic(err)
	}
	return &copied
}

// schemas completes each schema by its Go type.
func (c *completer) schemas() error {
	all := c.doc.Components.Schemas
	requests, _ := c.bodies()
	asked := c.reach(requests)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name].Value
		clean(s)
		if len(s.Properties) == 0 {
			continue
		}
		base, _, _ := strings.Cut(strings.TrimSuffix(name, inputSuffix), "Of")
		fields, ok := c.types[base]
		if !ok {
			if fields, ok = c.types[strings.ToLower(base[:1])+base[1:]]; !ok {
				return fmt.Errorf("schema %s: no Go type of this name", name)
			}
		}
		s.Description = descriptions()[name]
		if shown, ok := answers()[name]; ok {
			var err error
			if s.Example, err = plainJSON(shown); err != nil {
				return err
			}
		}
		for member, property := range s.Properties {
			f, ok := fields[member]
			if !ok {
				return fmt.Errorf("schema %s: the Go type has no field %s", name, member)
			}
			c.property(s, base, member, property, f, asked[name])
		}
		if s.Example != nil { // shown once
			for _, property := range s.Properties {
				if property.Ref == "" {
					property.Value.Example = nil
				}
			}
		}
		slices.Sort(s.Required)
		if asked[name] && !c.service.internal {
			no := false
			s.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
		}
	}
	return nil
}

// property completes one member of a schema.
func (c *completer) property(s *openapi3.Schema, base, member string, ref *openapi3.SchemaRef, f field, request bool) {
	s.Properties[member] = ref
	if ref.Ref == "" {
		p := ref.Value
		switch {
		case f.raw:
			*p = openapi3.Schema{Description: p.Description}
		case f.bytes:
			*p = openapi3.Schema{Description: p.Description, Type: &openapi3.Types{"string"}, Format: "byte"}
		case f.time:
			p.Format = "date-time"
		}
		p.Description = c.plain(base, p.Description)
		restrict(p, base, member, f.of, request)
	}
	needed := !f.omitted
	if request {
		needed = (!f.omitted && !f.nullable || mustSend(base+"."+member)) && !maySkip(base, member)
	}
	if needed {
		s.Required = append(s.Required, member)
	}
	if (request && !needed) || (!request && f.nullable && !f.omitted) {
		c.orNull(s, member)
	}
}

// orNull lets a member be null.
func (c *completer) orNull(s *openapi3.Schema, member string) {
	ref := s.Properties[member]
	// swag puts a reference with a description into an allOf of one.
	if ref.Ref == "" && len(ref.Value.AllOf) == 1 && ref.Value.AllOf[0].Ref != "" {
		ref = &openapi3.SchemaRef{Ref: ref.Value.AllOf[0].Ref}
	}
	if ref.Ref == "" && anything(ref.Value) {
		return // null as well: nullable says something beside a type alone
	}
	if ref.Ref == "" {
		ref.Value.Nullable = true
		if len(ref.Value.Enum) > 0 && !slices.Contains(ref.Value.Enum, nil) {
			ref.Value.Enum = append(ref.Value.Enum, nil)
		}
		return
	}
	// In OpenAPI 3.0 null is let through by the schema itself or not at all.
	s.Properties[member] = &openapi3.SchemaRef{Ref: schemaPath + nullPrefix + strings.TrimPrefix(ref.Ref, schemaPath)}
}

// anything says that a schema lets any JSON through.
func anything(s *openapi3.Schema) bool {
	return s.Type == nil && len(s.AllOf) == 0 && len(s.OneOf) == 0 && len(s.AnyOf) == 0
}

// nullables makes the schemas that orNull refers to.
func (c *completer) nullables() {
	all := c.doc.Components.Schemas
	for _, name := range slices.Sorted(maps.Keys(all)) {
		walk(all[name], func(r *openapi3.SchemaRef) {
			made := strings.TrimPrefix(r.Ref, schemaPath)
			if plain, ok := strings.CutPrefix(made, nullPrefix); ok && all[made] == nil {
				all[made] = clone(all[plain])
				all[made].Value.Nullable = true
			}
		})
	}
}

// drop leaves out what nothing refers to. A schema that is referred to only where it may be null has its plain name.
func (c *completer) drop() {
	c.nullables()
	requests, answers := c.bodies()
	used := c.reach(append(requests, answers...))
	all := c.doc.Components.Schemas
	maps.DeleteFunc(all, func(name string, _ *openapi3.SchemaRef) bool { return !used[name] })
	renamed := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if plain, ok := strings.CutPrefix(name, nullPrefix); ok && all[plain] == nil {
			renamed[schemaPath+name], all[plain] = schemaPath+plain, all[name]
			delete(all, name)
		}
	}
	redirect := func(r *openapi3.SchemaRef) {
		if to, ok := renamed[r.Ref]; ok {
			r.Ref = to
		}
	}
	for _, schema := range all {
		walk(schema, redirect)
	}
}

// integers get a format, by which generators choose a type: many take 32 bits where there is none.
func (c *completer) integers() {
	sized := func(r *openapi3.SchemaRef) {
		if s := r.Value; r.Ref == "" && s.Type.Is("integer") {
			s.Format = "int64"
			if s.Max != nil && *s.Max <= math.MaxInt32 && s.Min != nil && *s.Min >= math.MinInt32 {
				s.Format = "int32"
			}
		}
	}
	for _, schema := range c.doc.Components.Schemas {
		walk(schema, sized)
	}
	for _, op := range c.operations() {
		for _, p := range op.Parameters {
			if p.Value != nil {
				walk(p.Value.Schema, sized)
			}
		}
		for _, r := range op.Responses.Map() {
			if r.Value != nil {
				for _, h := range r.Value.Headers {
					if h.Value != nil {
						walk(h.Value.Schema, sized)
					}
				}
			}
		}
	}
	for _, h := range c.doc.Components.Headers {
		walk(h.Value.Schema, sized)
	}
}

// clean takes away what swag says of Go.
func clean(s *openapi3.Schema) {
	delete(s.Extensions, "x-enum-varnames")
	delete(s.Extensions, "x-enum-comments")
	delete(s.Extensions, "x-enum-descriptions")
}

var camel = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]+\b`)

// plain turns a Go comment into words about JSON: names of the struct's fields, and
// line breaks.
func (c *completer) plain(base, comment string) string {
	byGo := map[string]string{}
	for member, f := range c.types[base] {
		byGo[f.goName] = "`" + member + "`"
	}
	comment = strings.NewReplacer("\n", " ", "MaxDepthCount", fmt.Sprint(api.MaxDepthCount)).Replace(comment)
	first := true
	return camel.ReplaceAllStringFunc(comment, func(word string) string {
		member, ok := byGo[word]
		leading := first
		first = false
		if !ok || (!leading && !strings.ContainsFunc(word[1:], func(r rune) bool { return r >= 'A' && r <= 'Z' })) {
			return word
		}
		return member
	})
}

// alternatives are schemas whose value may be written in two ways.
func (c *completer) alternatives() {
	for name, text := range map[string]*openapi3.Schema{
		"Dependency":         openapi3.NewStringSchema().WithFormat("uuid"),
		"WorkflowDependency": openapi3.NewStringSchema().WithPattern(patternOf("SubmitRequest", "type")),
	} {
		if whole := c.doc.Components.Schemas[name]; whole != nil {
			object := clone(whole)
			object.Value.Description = ""
			whole.Value = &openapi3.Schema{Description: whole.Value.Description, OneOf: openapi3.SchemaRefs{text.NewRef(), object}}
		}
	}
}
