package jobtype

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Hidden is shown in the place of a sensitive value.
const Hidden = "•••"

// HiddenJSON is Hidden as a JSON text.
const HiddenJSON = `"` + Hidden + `"`

// sensitiveKeyword marks a part of a schema, with true.
const sensitiveKeyword = "x-sensitive"

// maskSteps bounds the masking of a value, and the check whether it fits before, by each schema.
const maskSteps = maxSteps / 10

// Sensitive says whether x-sensitive marks any part of the schema that a value can reach.
func (s *Schema) Sensitive() bool { return s.sensitive }

// Mask gives a JSON text with Hidden in the place of each value that x-sensitive marks in any of the schemas, which are the
// versions of one: a value is of one of them, and nothing says of which. A value that fits none of them is Hidden as a whole, and
// so is one that takes too long, or has a schema that is nil: nothing says what its members mean. left is how many steps the caller
// has left, and what it takes is subtracted. null stays. The text is a valid one.
//
// A schema applies here wherever it may apply: that of each alternative, of `not`, and of both branches of `if`. Where the names
// of members are sensitive the whole object is.
func Mask(text []byte, versions []*Schema, left *int) []byte {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || string(trimmed) == "null" {
		return text
	}
	if len(versions) == 0 || slices.Contains(versions, nil) {
		return []byte(HiddenJSON)
	}
	value, err := decode(text)
	if err != nil {
		return []byte(HiddenJSON)
	}
	*left -= len(text) / 64
	fits := false
	for _, schema := range versions {
		most := min(maskSteps, *left)
		fits, err = schema.run(schema.quick, value, most)
		if *left -= most - max(schema.steps.left, 0); fits && err == nil {
			break
		}
	}
	if !fits {
		return []byte(HiddenJSON)
	}
	// Again, with all numbers as they are written.
	decoder := stdjson.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return []byte(HiddenJSON)
	}
	for _, schema := range versions {
		if !schema.Sensitive() {
			continue
		}
		most := min(maskSteps, *left)
		value, err = schema.mask(value, most)
		if *left -= most - max(schema.steps.left, 0); err != nil {
			return []byte(HiddenJSON)
		}
	}
	var made bytes.Buffer
	encoder := stdjson.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return []byte(HiddenJSON)
	}
	return bytes.TrimSuffix(made.Bytes(), []byte("\n"))
}

// mask gives the value with what is sensitive hidden: it changes it in place.
func (s *Schema) mask(value any, most int) (masked any, err error) {
	s.steps.left = most
	defer func() {
		if recover() != nil { // too many steps; or the validator's, as in run
			masked, err = nil, errTooCostly
		}
	}()
	return (&masking{Schema: s}).hide(value, []*jsonschema.Schema{s.full}), nil
}

// refuseHidden refuses a value that was read without the scope payload, and sent back: what is hidden would be lost.
func (s *Schema) refuseHidden(value any) []Mismatch {
	found := masking{Schema: s}
	s.steps.left = maxSteps
	err := func() (err error) {
		defer func() {
			if recover() != nil {
				err = errTooCostly
			}
		}()
		found.hide(value, []*jsonschema.Schema{s.full})
		return nil
	}()
	switch {
	case err != nil:
		return []Mismatch{{Message: err.Error()}}
	case found.hidden:
		return []Mismatch{{Keyword: sensitiveKeyword, Message: "has " + Hidden + " in the place of a sensitive value, as those see it who lack the scope payload: send the value"}}
	}
	return nil
}

// masking is one walk of a value.
type masking struct {
	*Schema

	// hidden says that a sensitive place has Hidden already.
	hidden bool
}

// hide masks a value to which the schemas apply, and what is within it.
func (s *masking) hide(value any, apply []*jsonschema.Schema) any {
	apply = s.closure(apply)
	for _, one := range apply {
		if isMarked(one) || one.PropertyNames != nil && s.isSensitive(one.PropertyNames) && isObject(value) {
			s.hidden = s.hidden || value == Hidden
			return Hidden
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			var below []*jsonschema.Schema
			for _, one := range apply {
				below = append(below, s.ofMember(one, name)...)
			}
			if len(below) > 0 {
				v[name] = s.hide(member, below)
			}
		}
	case []any:
		for i, item := range v {
			var below []*jsonschema.Schema
			for _, one := range apply {
				below = append(below, ofItem(one, i)...)
			}
			if len(below) > 0 {
				v[i] = s.hide(item, below)
			}
		}
	}
	return value
}

func isObject(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// closure adds the schemas that these apply to the same value.
func (s *Schema) closure(begin []*jsonschema.Schema) (all []*jsonschema.Schema) {
	seen := make(map[*jsonschema.Schema]bool, len(begin))
	for todo := begin; len(todo) > 0; todo = todo[1:] {
		one := todo[0]
		if seen[one] {
			continue
		}
		s.steps.spend(1)
		seen[one] = true
		all, todo = append(all, one), append(todo, inPlace(one)...)
	}
	return all
}

func (s *Schema) isSensitive(root *jsonschema.Schema) bool {
	return slices.ContainsFunc(s.closure([]*jsonschema.Schema{root}), isMarked)
}

// ofMember are the schemas that one applies to a member of an object.
func (s *Schema) ofMember(one *jsonschema.Schema, name string) (all []*jsonschema.Schema) {
	s.steps.spend(1 + len(one.PatternProperties))
	if property := one.Properties[name]; property != nil {
		all = append(all, property)
	}
	for pattern, property := range one.PatternProperties {
		if pattern.MatchString(name) {
			all = append(all, property)
		}
	}
	if len(all) > 0 {
		return all
	}
	if additional, ok := one.AdditionalProperties.(*jsonschema.Schema); ok {
		all = append(all, additional)
	}
	if one.UnevaluatedProperties != nil {
		all = append(all, one.UnevaluatedProperties)
	}
	return all
}

// ofItem are the schemas that one applies to an item of an array.
func ofItem(one *jsonschema.Schema, i int) (all []*jsonschema.Schema) {
	if one.Contains != nil {
		all = append(all, one.Contains)
	}
	if i < len(one.PrefixItems) {
		return append(all, one.PrefixItems[i])
	}
	for _, each := range []*jsonschema.Schema{one.Items2020, one.UnevaluatedItems} {
		if each != nil {
			all = append(all, each)
		}
	}
	return all
}

// sensitive is what a schema has that x-sensitive marks.
type sensitive struct{}

// Validate refuses nothing.
func (sensitive) Validate(*jsonschema.ValidatorContext, any) {}

func isMarked(s *jsonschema.Schema) bool {
	return slices.ContainsFunc(s.Extensions, func(one jsonschema.SchemaExt) bool { return one == sensitive{} })
}

// sensitivity is the vocabulary that has x-sensitive.
func sensitivity() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{URL: "schema://sensitivity", Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
		switch value := schema[sensitiveKeyword].(type) {
		case nil:
			return nil, nil //nolint:nilnil // as Vocabulary has it
		case bool:
			if !value {
				return nil, nil //nolint:nilnil // as above
			}
			return sensitive{}, nil
		default:
			return nil, errSensitive
		}
	}}
}

var errSensitive = errors.New(sensitiveKeyword + " must be true or false")
