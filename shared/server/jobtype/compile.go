package jobtype

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxSchemas bounds the schemas within a schema.
	maxSchemas = 2000
	// maxRefs bounds its references.
	maxRefs = 500
	// maxInPlace bounds a chain of schemas that apply to the same value, such as references to references.
	maxInPlace = 32
	// maxCount bounds what a keyword may count: no value that is checked has so many of anything.
	maxCount = 1<<31 - 1

	// dialect is the only one.
	dialect = "https://json-schema.org/draft/2020-12/schema"

	// The resources of a compiler.
	base, quick = "schema://type/s", "schema://type/quick"
)

// SchemaError is a schema that cannot be used.
type SchemaError struct {
	// Mismatches say where, as places in the schema, at most MaxMismatches.
	Mismatches []Mismatch
}

func (e *SchemaError) Error() string {
	texts := make([]string, len(e.Mismatches))
	for i := range e.Mismatches {
		texts[i] = strings.TrimSpace(e.Mismatches[i].Pointer + " " + e.Mismatches[i].String())
	}
	return "jobtype: schema: " + strings.Join(texts, "; ")
}

func refuse(pointer, format string, args ...any) *SchemaError {
	return &SchemaError{[]Mismatch{{Pointer: clip(pointer), Message: clip(fmt.Sprintf(format, args...))}}}
}

// Compile makes a Schema of its text, of which the caller has bounded the length. Formats are asserted, except for
// regex and those that are unknown. The error is a *SchemaError.
func Compile(text []byte) (made *Schema, err error) {
	defer func() {
		if failure := recover(); failure != nil { // of the compiler: see run
			made, err = nil, refuse("", "cannot be compiled")
		}
	}()
	if _, err := look(text); err != nil {
		return nil, refuse("", "%s", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, refuse("", "is no JSON: %s", err)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, refuse("", "must be an object, or true or false")
	}
	s := &survey{}
	if s.look(doc, ""); s.refused != nil {
		return nil, s.refused
	}
	made = &Schema{steps: &steps{}, weight: 10 * len(text)}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.RegisterVocabulary(sensitivity())
	compiler.AssertVocabs()
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(engine(made.steps))
	err = errors.Join(compiler.AddResource(base, doc), compiler.AddResource(quick, map[string]any{
		"not": map[string]any{"not": map[string]any{"$ref": base}},
	}))
	if err == nil {
		made.full, err = compiler.Compile(base)
	}
	if err == nil {
		made.quick, err = compiler.Compile(quick)
	}
	if err != nil {
		return nil, schemaError(err)
	}
	n, sensitive, err := count(made.full, made.steps)
	if err != nil {
		return nil, err
	}
	made.sensitive = sensitive
	made.weight += n*1200 + 30*made.steps.program
	return made, nil
}

// noLoader loads nothing: the validator would read files and make requests.
type noLoader struct{}

var errRemote = errors.New("remote references are not followed")

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// schemaError words an error of the compiler.
func schemaError(err error) *SchemaError {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if refusal, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			return &SchemaError{mismatches(refusal)}
		}
	}
	if _, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return refuse("", "%s: use $defs", errRemote)
	}
	if errors.Is(err, errSensitive) {
		return refuse("", "%s", errSensitive)
	}
	return refuse("", "%s", strings.ReplaceAll(err.Error(), base, "the schema"))
}

// survey looks at the text of a schema before it is compiled.
type survey struct {
	ids  []string
	refs int
	// parts are the objects and booleans: no schema is anything else.
	parts   int
	refused *SchemaError
}

// look walks a document. It takes each object for a schema: members of the names below that are texts, where
// they mean nothing, are rare.
func (s *survey) look(value any, place string) {
	if s.refused != nil {
		return
	}
	switch v := value.(type) {
	case bool:
		s.part()
	case map[string]any:
		s.part()
		s.keywords(v, place)
		for name, member := range v {
			switch name {
			case "const", "enum", "default", "examples":
				if _, isSchema := member.(map[string]any); !isSchema {
					continue // values, unless it is the name of a property
				}
			}
			s.look(member, place+pointer([]string{name}))
		}
	case []any:
		for i, member := range v {
			s.look(member, fmt.Sprintf("%s/%d", place, i))
		}
	}
}

// part counts what may be a schema, before the compiler, whose time is quadratic, does so.
func (s *survey) part() {
	if s.parts++; s.parts > 3*maxSchemas {
		s.refused = refuse("", "has more than %d schemas in it", maxSchemas)
	}
}

func (s *survey) keywords(schema map[string]any, place string) {
	text := func(name string) string {
		value, _ := schema[name].(string)
		return value
	}
	if id := text("$id"); id != "" {
		s.ids = append(s.ids, id)
	}
	switch ref := text("$ref"); {
	case ref == "":
	case s.refs >= maxRefs:
		s.refused = refuse(place, "has more than %d references", maxRefs)
	case !strings.HasPrefix(ref, "#"):
		if s.refs++; strings.Contains(ref, "://") && !s.has(ref) {
			s.refused = refuse(place+"/$ref", "remote references are not followed: use $defs")
		}
	default:
		s.refs++
	}
	for _, name := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"} {
		if number, ok := schema[name].(json.Number); ok && !isSmall(number) {
			s.refused = refuse(place+"/"+name, "must be at most %d", maxCount)
		}
	}
	if within(schema["contentSchema"], sensitiveKeyword) {
		s.refused = refuse(place+"/contentSchema", "%s is not looked for in texts: mark the text", sensitiveKeyword)
	}
	for _, name := range []string{"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"} {
		if _, isSchema := schema[name].(map[string]any); schema[name] != nil && !isSchema {
			s.refused = refuse(place, "%s is not supported", name)
		}
	}
	if given := text("$schema"); given != "" && strings.TrimSuffix(given, "#") != dialect {
		s.refused = refuse(place+"/$schema", "must be %s, or absent", dialect)
	}
}

// within says whether a part of a document has a member of a name.
func within(value any, name string) bool {
	switch v := value.(type) {
	case map[string]any:
		for member, below := range v {
			if member == name || within(below, name) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(below any) bool { return within(below, name) })
	}
	return false
}

// isSmall says whether the compiler takes a count as it is written: of a larger one it keeps the last 64 bits. What is
// no whole number is left to it.
func isSmall(number json.Number) bool {
	n, ok := new(big.Rat).SetString(number.String())
	return !ok || !n.IsInt() || n.Num().IsInt64() && n.Num().Int64() <= maxCount
}

// has says whether a reference is to a schema that was seen to have that $id. One that comes later is found by
// the compiler.
func (s *survey) has(ref string) bool {
	ref, _, _ = strings.Cut(ref, "#")
	for _, id := range s.ids {
		if strings.TrimSuffix(id, "#") == ref {
			return true
		}
	}
	return false
}

// count bounds the schemas that root reaches, and has each of them count its visits. sensitive says that one of them is marked so.
func count(root *jsonschema.Schema, counted *steps) (n int, sensitive bool, err error) {
	seen := map[*jsonschema.Schema]int{} // the length of the chain of schemas in place that begins there
	const within = -1
	var fresh []*jsonschema.Schema // seen, and not counted yet
	var walk func(*jsonschema.Schema) (int, error)
	walk = func(s *jsonschema.Schema) (int, error) {
		_, place, _ := strings.Cut(s.Location, "#")
		if chain, ok := seen[s]; ok {
			if chain == within {
				return 0, refuse(place, "refers to itself for the same value")
			}
			return chain, nil
		}
		switch {
		case len(seen) >= maxSchemas:
			return 0, refuse("", "has more than %d schemas in it", maxSchemas)
		case !strings.HasPrefix(s.Location, base+"#"):
			return 0, refuse("", "%s: use $defs", errRemote)
		case s.DraftVersion != 2020:
			return 0, refuse(place, "must be of the dialect %s", dialect)
		case s.DynamicRef != nil || s.RecursiveRef != nil:
			return 0, refuse(place, "$dynamicRef is not supported")
		}
		seen[s], fresh = within, append(fresh, s)
		chain := 1
		for _, one := range inPlace(s) {
			below, err := walk(one)
			if err != nil {
				return 0, err
			}
			if chain = max(chain, 1+below); chain > maxInPlace {
				return 0, refuse(place, "has a chain of more than %d references, or of schemas that apply to the same value", maxInPlace)
			}
		}
		seen[s] = chain
		return chain, nil
	}
	// A schema below a value is walked after those in place: it begins a chain of its own.
	for todo := []*jsonschema.Schema{root}; len(todo) > 0; todo = todo[1:] {
		if _, err := walk(todo[0]); err != nil {
			return 0, false, err
		}
		for _, s := range fresh {
			todo = append(todo, below(s)...)
			makeCounting(s, counted)
			sensitive = sensitive || isMarked(s)
		}
		fresh = fresh[:0]
	}
	return len(seen), sensitive, nil
}

// inPlace are the schemas that s applies to the same value.
func inPlace(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	for _, one := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if one != nil {
			all = append(all, one)
		}
	}
	for _, some := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		all = append(all, some...)
	}
	for _, one := range s.DependentSchemas {
		all = append(all, one)
	}
	for _, one := range s.Dependencies {
		if schema, ok := one.(*jsonschema.Schema); ok {
			all = append(all, schema)
		}
	}
	return all
}

// below are the schemas that s applies to members and items, and to names of members.
func below(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	for _, one := range s.Properties {
		all = append(all, one)
	}
	for _, one := range s.PatternProperties {
		all = append(all, one)
	}
	return append(append(all, s.PrefixItems...), everyMember(s)...)
}

// everyMember are those that s may apply to each member or item.
func everyMember(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	if one, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		all = append(all, one)
	}
	for _, one := range []*jsonschema.Schema{s.PropertyNames, s.Contains, s.Items2020, s.UnevaluatedProperties, s.UnevaluatedItems} {
		if one != nil {
			all = append(all, one)
		}
	}
	return all
}

// makeCounting gives a schema the format that counts.
func makeCounting(s *jsonschema.Schema, counted *steps) {
	c := &counting{steps: counted, own: 1 + len(s.Required)/8 + len(s.DependentRequired), each: 1, unique: s.UniqueItems}
	name := "counting"
	if s.Format != nil && s.Format.Name != "regex" { // which would compile texts of the value
		c.format, name = s.Format.Validate, s.Format.Name
	}
	for _, needed := range s.DependentRequired {
		c.own += len(needed) / 8
	}
	for _, one := range inPlace(s) {
		c.own += ahead(one)
	}
	// One of the properties applies to a member, and all of the others.
	one := 0
	for _, property := range s.Properties {
		one = max(one, ahead(property))
	}
	for _, item := range s.PrefixItems {
		one = max(one, ahead(item))
	}
	c.each += one
	for _, all := range s.PatternProperties {
		c.each += ahead(all)
	}
	for _, all := range everyMember(s) {
		c.each += ahead(all)
	}
	s.Format = &jsonschema.Format{Name: name, Validate: c.visit}
}

// ahead is the cost of a visit that may end before it is counted.
func ahead(s *jsonschema.Schema) int {
	cost := 1
	if s.Enum != nil {
		cost += compared(s.Enum.Values)
	}
	if s.Const != nil {
		cost += compared([]any{*s.Const})
	}
	return cost
}
