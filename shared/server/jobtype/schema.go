package jobtype

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	// MaxMismatches bounds what a check reports.
	MaxMismatches = 10
	// maxText bounds each text of a Mismatch, in bytes: schemas and values are the tenant's.
	maxText = 200
)

// Mismatch is a place where a value does not fit its schema.
type Mismatch struct {
	// Pointer is the place in the value, a JSON pointer (RFC 6901); empty for the value itself.
	Pointer string
	// Keyword is the schema's keyword that refuses it, such as required; empty where the value cannot be checked.
	Keyword string
	// Message says what is wrong, without the value.
	Message string
}

func (m *Mismatch) String() string {
	if m.Keyword == "" {
		return m.Message
	}
	return m.Keyword + ": " + m.Message
}

// Schema is a compiled JSON Schema. It is not safe for concurrent use: a tenant has one check at a time.
type Schema struct {
	// quick says only whether a value fits, full says where it does not.
	quick, full *jsonschema.Schema
	steps       *steps
	// sensitive says that x-sensitive marks a part of it.
	sensitive bool
	// weight is about its memory, in bytes.
	weight int
}

// Weight is about its memory, in bytes.
func (s *Schema) Weight() int { return s.weight }

// Check gives the places where a JSON text does not fit, at most MaxMismatches; none where it fits. No text is
// null. It takes some seconds at most: what takes longer does not fit.
func (s *Schema) Check(text []byte) []Mismatch {
	value, err := decode(text)
	if err != nil {
		return []Mismatch{{Message: clip(err.Error())}}
	}
	fits, err := s.run(s.quick, value, maxSteps)
	switch {
	case errors.Is(err, errTooCostly), errors.Is(err, errFailed):
		return []Mismatch{{Message: err.Error()}}
	case fits && s.sensitive:
		return s.refuseHidden(value)
	case fits:
		return nil
	}
	_, err = s.run(s.full, value, explainSteps)
	if refusal, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		if found := mismatches(refusal); len(found) > 0 {
			return found
		}
	}
	return []Mismatch{{Message: "does not fit the schema; it would take too long to find out where"}}
}

var errTooCostly = errors.New("takes too long to check against the schema: make the value smaller, or the schema simpler, above all where alternatives (anyOf, oneOf) refer to themselves")

var errFailed = errors.New("cannot be checked against the schema: the validator fails with it")

func (s *Schema) run(schema *jsonschema.Schema, value any, most int) (fits bool, err error) {
	s.steps.left = most
	defer func() {
		switch recover().(type) {
		case nil:
		case tooManySteps:
			fits, err = false, errTooCostly
		default: // of the validator: a tenant's schema must not end the process
			fits, err = false, errFailed
		}
	}()
	err = schema.Validate(value)
	return err == nil, err
}

// mismatches are the leaves of the validator's report.
func mismatches(refusal *jsonschema.ValidationError) (found []Mismatch) {
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(found) == MaxMismatches || e.ErrorKind == nil {
			return
		}
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf, *kind.Contains, *kind.MinContains, *kind.PropertyNames:
		default:
			if len(e.Causes) > 0 {
				for _, cause := range e.Causes {
					walk(cause)
				}
				return
			}
		}
		one := Mismatch{Pointer: clip(pointer(e.InstanceLocation)), Keyword: keyword(e.ErrorKind), Message: clip(message(e))}
		if !slices.Contains(found, one) { // each vocabulary says that a schema is none
			found = append(found, one)
		}
	}
	walk(refusal)
	return found
}

func keyword(k jsonschema.ErrorKind) string {
	switch k.(type) {
	case *kind.Not:
		return "not"
	case *kind.FalseSchema:
		return "false"
	}
	if path := k.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	return ""
}

// message words a refusal. It has texts of the schema, and names of members, but nothing else of the value.
func message(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "must be " + strings.Join(k.Want, " or ") + ", and is " + k.Got
	case *kind.Required:
		return "lacks " + few(k.Missing)
	case *kind.DependentRequired:
		return "has " + clip(k.Prop) + ", and so needs " + few(k.Missing)
	case *kind.Dependency:
		return "has " + clip(k.Prop) + ", and so needs " + few(k.Missing)
	case *kind.AdditionalProperties:
		return "has members that are not allowed: " + few(k.Properties)
	case *kind.PropertyNames:
		return "has a member whose name is not allowed: " + clip(k.Property)
	case *kind.Enum:
		return "must be one of " + allowed(k.Want)
	case *kind.Const:
		return "must be the one allowed value"
	case *kind.Format:
		if k.Want == "regex" { // of a schema itself
			return "cannot be used as a regular expression (RE2, without look-around and back-references): " + k.Err.Error()
		}
		return "must be of the format " + clip(k.Want)
	case *kind.Pattern:
		return "must match " + clip(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.Minimum:
		return "must be at least " + number10(k.Want)
	case *kind.Maximum:
		return "must be at most " + number10(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number10(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number10(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number10(k.Want)
	case *kind.AnyOf, *kind.AllOf:
		if one := ofItsType(e); one != nil {
			return message(one)
		}
		return fmt.Sprintf("fits none of the %d alternatives", len(e.Causes))
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return fmt.Sprintf("fits none of the %d alternatives", len(e.Causes))
		}
		return "fits more than one of the alternatives"
	default:
		return counted(e.ErrorKind)
	}
}

// allowed names the values of an enum, if they are few texts.
func allowed(values []any) string {
	names := make([]string, 0, len(values))
	for _, value := range values {
		if name, ok := value.(string); ok {
			names = append(names, name)
		}
	}
	if len(names) < len(values) || len(names) > 12 {
		return fmt.Sprintf("the %d allowed values", len(values))
	}
	return strings.Join(names, ", ")
}

// ofItsType is why a value does not fit the one alternative that takes values of its type; nil if none does, or several.
func ofItsType(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	var found []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		for len(cause.Causes) == 1 {
			cause = cause.Causes[0]
		}
		here := slices.Equal(cause.InstanceLocation, e.InstanceLocation)
		if _, other := cause.ErrorKind.(*kind.Type); !other || !here {
			found = append(found, cause)
		}
	}
	if len(found) != 1 || len(found[0].Causes) > 0 || !slices.Equal(found[0].InstanceLocation, e.InstanceLocation) {
		return nil
	}
	return found[0]
}

// counted words refusals by a number of members.
func counted(refusal jsonschema.ErrorKind) string {
	switch k := refusal.(type) {
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("has equal items: those at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item that fits"
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d items that fit", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d items that fit", k.Want)
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Not:
		return "must not fit the schema of not"
	default:
		return "does not fit"
	}
}

func number10(n *big.Rat) string {
	if n.IsInt() {
		return clip(n.Num().String())
	}
	f, _ := n.Float64()
	return fmt.Sprint(f)
}

// few joins some names.
func few(names []string) string {
	const most = 5
	var short []string
	for _, name := range names[:min(len(names), most)] {
		short = append(short, clip(name))
	}
	if len(names) > most {
		short = append(short, fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(short, ", ")
}

func pointer(tokens []string) string {
	var made strings.Builder
	for _, token := range tokens {
		made.WriteByte('/')
		made.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
		if made.Len() > maxText {
			break
		}
	}
	return made.String()
}

// clip cuts a text to maxText bytes of valid UTF-8, without control characters.
func clip(text string) string {
	const more = "…"
	long := len(text) > maxText
	if long {
		text = text[:maxText-len(more)]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if long {
		text += more
	}
	return text
}
