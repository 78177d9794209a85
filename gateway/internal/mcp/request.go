package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// asked is what an agent has given for the arguments of a tool, by name; null stands for absent.
type asked map[string]json.RawMessage

// read checks that all arguments are the tool's; their values are for the API to judge.
func (t *tool) read(text json.RawMessage) (asked, error) {
	given := asked{}
	if len(text) > 0 && json.Unmarshal(text, &given) != nil {
		return nil, problem.Invalid(problem.FieldError{Field: "arguments", Message: "must be a JSON object"})
	}
	var wrong []problem.FieldError
	for name, value := range given {
		_, known := t.schema["properties"].(map[string]any)[name]
		switch {
		case !known:
			wrong = append(wrong, problem.FieldError{Field: name, Message: "is not a known field"})
		case string(value) == "null":
			delete(given, name)
		}
	}
	required, _ := t.schema["required"].([]string)
	for _, name := range required {
		if given[name] == nil {
			wrong = append(wrong, problem.FieldError{Field: name, Message: "is required"})
		}
	}
	if len(wrong) > 0 {
		slices.SortFunc(wrong, func(a, b problem.FieldError) int { return strings.Compare(a.Field, b.Field) })
		return nil, problem.Invalid(wrong...)
	}
	return given, nil
}

// request is the tool's request to the API; more are further fixed members of its body.
func (t *tool) request(ctx context.Context, given asked, more map[string]any) (*http.Request, error) {
	path, query, header, body := t.path, url.Values{}, http.Header{}, map[string]any{}
	for name, value := range given {
		switch t.places[name] {
		case inPath:
			text, err := word(name, value)
			if err != nil {
				return nil, err
			}
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
		case inQuery:
			if err := addQuery(query, name, value); err != nil {
				return nil, err
			}
		case inHeader:
			text, err := word(name, value)
			if err != nil {
				return nil, err
			}
			header.Set(keyHeader, text)
		case inBody:
			body[name] = value
		}
	}
	for _, fixed := range []map[string]any{t.fixed, more} {
		for name, value := range fixed {
			if t.method == http.MethodGet {
				query.Set(name, value.(string)) //nolint:forcetypeassert // the table has no other
			} else {
				body[name] = value
			}
		}
	}
	var text []byte
	if len(body) > 0 || t.method == http.MethodPatch {
		var err error
		if text, err = encode(body); err != nil {
			return nil, err
		}
		header.Set("Content-Type", "application/json")
	}
	r, err := http.NewRequestWithContext(ctx, t.method, "http://gateway"+path+"?"+query.Encode(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if t.end {
		header.Set("Accept", "text/plain")
	}
	r.Header = header
	return r, nil
}

// word is an argument that is a part of a path, or a header.
func word(name string, value json.RawMessage) (text string, err error) {
	if json.Unmarshal(value, &text) != nil || text == "" {
		return "", problem.Invalid(problem.FieldError{Field: name, Message: "must be a string that is not empty"})
	}
	return text, nil
}

// errNoWord is a value that a query cannot have.
var errNoWord = errors.New("no string, number or boolean")

// addQuery adds an argument as a query has it: a list with commas, an object as NAME.MEMBER.
func addQuery(query url.Values, name string, value json.RawMessage) error {
	wrong := problem.Invalid(problem.FieldError{Field: name, Message: "must be a string, number or boolean, or a list or object of these"})
	switch value[0] {
	case '{':
		members := asked{}
		if json.Unmarshal(value, &members) != nil {
			return wrong
		}
		for member, text := range members {
			plain, err := scalar(text)
			if err != nil {
				return wrong
			}
			query.Set(name+"."+member, plain)
		}
	case '[':
		var items []json.RawMessage
		if json.Unmarshal(value, &items) != nil {
			return wrong
		}
		words := make([]string, len(items))
		for i := range items {
			var err error
			if words[i], err = scalar(items[i]); err != nil {
				return wrong
			}
		}
		query.Set(name, strings.Join(words, ","))
	default:
		plain, err := scalar(value)
		if err != nil {
			return wrong
		}
		query.Set(name, plain)
	}
	return nil
}

func scalar(value json.RawMessage) (text string, err error) {
	switch value[0] {
	case '"':
		err = json.Unmarshal(value, &text)
		return text, err
	case '{', '[', 'n':
		return "", errNoWord
	}
	return string(value), nil
}
