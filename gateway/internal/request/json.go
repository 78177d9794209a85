package request

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// DecodeJSON reads a request's JSON strictly: names are case-sensitive, unknown and
// duplicate members are refused at every depth, payloads included, and so are
// invalid UTF-8, lone surrogates and anything after the value. A null stands for
// absent, except for the body as a whole: that has to be an object, also where all
// its members are optional.
func DecodeJSON(text []byte, into any) error {
	if api.TooDeep(text) {
		return problem.New(problem.InvalidJSON, fmt.Sprintf("The body is nested more than %d levels deep.", api.MaxDepth))
	}
	if err := json.Unmarshal(text, into, strict); err != nil {
		return jsonProblem(err)
	}
	if bytes.TrimLeft(text, " \t\r\n")[0] == 'n' { // it is JSON: there is something, and nothing else begins so
		return problem.Invalid(problem.FieldError{Field: "body", Message: "must be a JSON object"})
	}
	return refuseNUL(text, into)
}

// strict is what DecodeJSON adds to the package's own strictness; made once, because it
// has caches.
var strict = json.JoinOptions(
	json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(rawOrAbsent),
		json.UnmarshalFromFunc(withoutNulls),
		json.UnmarshalFromFunc(dependency),
		json.UnmarshalFromFunc(workflowDependency),
		json.UnmarshalFromFunc(boundedGraph),
		json.UnmarshalFromFunc(boundedRefs),
		json.UnmarshalFromFunc(bounded[string]),
		json.UnmarshalFromFunc(bounded[api.Dependency]),
		json.UnmarshalFromFunc(bounded[api.SubmitRequest]),
		json.UnmarshalFromFunc(bounded[api.OutcomeRequest]),
		json.UnmarshalFromFunc(bounded[api.Lease]),
	)),
)

// jsonProblem says what is wrong with a body, and where.
func jsonProblem(err error) *problem.Problem {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return syntaxProblem(syntax)
	case !errors.As(err, &semantic):
		return problem.New(problem.InvalidJSON, "The body cannot be read as JSON.")
	case errors.Is(semantic.Err, json.ErrUnknownName):
		field := fieldName(semantic.JSONPointer)
		p := problem.New(problem.UnknownField, field+": is not a known field.")
		p.Errors = append(p.Errors, problem.FieldError{Field: field, Message: "is not a known field"})
		return p
	}
	return problem.Invalid(problem.FieldError{Field: fieldName(semantic.JSONPointer), Message: expectedType(semantic)})
}

func syntaxProblem(syntax *jsontext.SyntacticError) *problem.Problem {
	if errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
		field := fieldName(syntax.JSONPointer)
		p := problem.New(problem.InvalidJSON, field+": is a duplicate member.")
		p.Errors = append(p.Errors, problem.FieldError{Field: field, Message: "is a duplicate member"})
		return p
	}
	p := problem.New(problem.InvalidJSON, Clip(fmt.Sprintf("At byte %d: %v.", syntax.ByteOffset, syntax.Err)))
	if syntax.JSONPointer != "" {
		p.Errors = append(p.Errors, problem.FieldError{Field: fieldName(syntax.JSONPointer), Message: "cannot be read as JSON"})
	}
	return p
}

// expectedType is what the field takes.
func expectedType(mismatch *json.SemanticError) string {
	if mismatch.GoType == nil {
		return "has the wrong type"
	}
	kind := mismatch.GoType
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if kind == reflect.TypeFor[api.Time]() {
		return "must be an RFC 3339 time, such as 2026-11-20T12:00:00Z"
	}
	switch kind.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Int, reflect.Int64:
		return "must be a whole number, written without fraction or exponent"
	case reflect.Float64:
		return "must be a number"
	case reflect.Slice:
		return "must be an array"
	default:
		return "must be a JSON object"
	}
}

// fieldName turns a JSON pointer into the way fields are named in problems:
// /jobs/3/priority is jobs[3].priority.
func fieldName(pointer jsontext.Pointer) string {
	var name strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case strings.Trim(token, "0123456789") == "" && token != "":
			name.WriteString("[" + token + "]")
		case name.Len() > 0:
			name.WriteString("." + token)
		default:
			name.WriteString(token)
		}
	}
	if name.Len() == 0 {
		return "body"
	}
	return Clip(name.String())
}
