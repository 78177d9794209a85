package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// share puts parameters and headers that several operations have into components, each once.
func (c *completer) share() {
	uses := map[string]int{}
	c.inline(func(text, _ string) string { uses[text]++; return "" })
	places := map[string]string{}
	taken := map[string]bool{}
	c.inline(func(text, name string) string {
		if uses[text] < 2 {
			return ""
		}
		if place, ok := places[text]; ok {
			return place
		}
		for n := 2; taken[name]; n++ { // the same name says other things elsewhere
			name = strings.TrimRight(name, "0123456789") + fmt.Sprint(n)
		}
		taken[name], places[text] = true, name
		return name
	})
}

// inline visits what parameters and headers operations have of their own, in the order of the document. Where place
// names a component, it moves there.
func (c *completer) inline(place func(text, name string) string) {
	components := c.doc.Components
	if components.Parameters == nil {
		components.Parameters = openapi3.ParametersMap{}
		c.doc.Components = components
	}
	for _, op := range c.operations() {
		for i, p := range op.Parameters {
			if p.Ref != "" {
				continue
			}
			name := titled(p.Value.Name) + titled(p.Value.In)
			if thing, ok := strings.CutPrefix(p.Value.Description, "The "); ok && p.Value.In == "path" { // The job's id.
				thing, _, _ = strings.Cut(thing, "'s ")
				thing = titled(strings.ReplaceAll(thing, " ", "-"))
				name = thing + strings.TrimPrefix(name, thing)
			}
			if to := place("parameter "+written(p.Value), name); to != "" {
				components.Parameters[to] = &openapi3.ParameterRef{Value: p.Value}
				op.Parameters[i] = &openapi3.ParameterRef{Ref: "#/components/parameters/" + to}
			}
		}
		responses := op.Responses.Map()
		for _, status := range slices.Sorted(maps.Keys(responses)) {
			r := responses[status].Value
			if responses[status].Ref != "" || r == nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
				if r.Headers[name].Ref != "" {
					continue
				}
				if to := place("header "+written(r.Headers[name].Value), name); to != "" {
					components.Headers[to] = &openapi3.HeaderRef{Value: r.Headers[name].Value}
					r.Headers[name] = headerRef(to)
				}
			}
		}
	}
}

func written(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was read from JSON a moment ago
	}
	return string(text)
}

// titled is a name as a type's: page_size is PageSize.
func titled(name string) (title string) {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' || r == '-' }) {
		title += strings.ToUpper(word[:1]) + word[1:]
	}
	return title
}
