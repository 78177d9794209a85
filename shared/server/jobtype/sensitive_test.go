package jobtype_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

func mask(t *testing.T, value string, schemas ...string) string {
	t.Helper()
	var versions []*jobtype.Schema
	for _, text := range schemas {
		made, err := jobtype.Compile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, made)
	}
	left := 1 << 30
	return string(jobtype.Mask([]byte(value), versions, &left))
}

func TestMaskHidesWhereverASchemaMayApply(t *testing.T) {
	t.Parallel()
	const marked = `{"x-sensitive": true}`
	cases := map[string]struct{ schema, value, want string }{
		"a member":              {`{"properties": {"ssn": ` + marked + `}}`, `{"ssn": "1", "a": 1}`, `{"a":1,"ssn":"•••"}`},
		"an object":             {`{"properties": {"card": ` + marked + `}}`, `{"card": {"no": "1"}}`, `{"card":"•••"}`},
		"the whole":             {marked, `{"a": 1}`, `"•••"`},
		"null within":           {`{"properties": {"ssn": ` + marked + `}}`, `{"ssn": null}`, `{"ssn":"•••"}`},
		"null":                  {marked, `null`, `null`},
		"each item":             {`{"items": {"properties": {"n": ` + marked + `}}}`, `[{"n": 1}, {"m": 2}]`, `[{"n":"•••"},{"m":2}]`},
		"a place of an array":   {`{"prefixItems": [true, ` + marked + `]}`, `["a", "b", "c"]`, `["a","•••","c"]`},
		"items after a place":   {`{"prefixItems": [true], "items": ` + marked + `}`, `["a", "b", "c"]`, `["a","•••","•••"]`},
		"contains":              {`{"contains": {"const": 1, "x-sensitive": true}}`, `[1, 2]`, `["•••","•••"]`},
		"a pattern":             {`{"patternProperties": {"^secret": ` + marked + `}}`, `{"secret_a": 1, "b": 2}`, `{"b":2,"secret_a":"•••"}`},
		"additional":            {`{"properties": {"a": true}, "additionalProperties": ` + marked + `}`, `{"a": 1, "b": 2}`, `{"a":1,"b":"•••"}`},
		"unevaluated":           {`{"properties": {"a": true}, "unevaluatedProperties": ` + marked + `}`, `{"a": 1, "b": 2}`, `{"a":1,"b":"•••"}`},
		"a reference":           {`{"$defs": {"s": ` + marked + `}, "properties": {"a": {"$ref": "#/$defs/s"}}}`, `{"a": 1}`, `{"a":"•••"}`},
		"a slash in a name":     {`{"properties": {"a/b~c": ` + marked + `}}`, `{"a/b~c": 1}`, `{"a/b~c":"•••"}`},
		"a tree":                {`{"$id": "t", "$defs": {"n": {"properties": {"v": ` + marked + `, "next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}`, `{"v": 1, "next": {"v": 2, "next": {"w": 3}}}`, `{"next":{"next":{"w":3},"v":"•••"},"v":"•••"}`},
		"an alternative":        {`{"oneOf": [{"required": ["a"], "properties": {"b": ` + marked + `}}, {"required": ["c"]}]}`, `{"c": 1, "b": 2}`, `{"b":"•••","c":1}`},
		"the other branch":      {`{"if": {"required": ["x"]}, "then": {"properties": {"b": ` + marked + `}}}`, `{"b": 2}`, `{"b":"•••"}`},
		"not":                   {`{"not": {"required": ["x"], "properties": {"b": ` + marked + `}}}`, `{"b": 2}`, `{"b":"•••"}`},
		"a dependent":           {`{"dependentSchemas": {"x": {"properties": {"b": ` + marked + `}}}}`, `{"x": 1, "b": 2}`, `{"b":"•••","x":1}`},
		"names":                 {`{"propertyNames": ` + marked + `}`, `{"4111": 1}`, `"•••"`},
		"a name that is marked": {`{"properties": {"x-sensitive": true}}`, `{"x-sensitive": 1}`, `{"x-sensitive": 1}`},
		"false":                 {`{"properties": {"a": {"x-sensitive": false}, "b": ` + marked + `}}`, `{"a": 1}`, `{"a":1}`},
		"what does not fit":     {`{"type": "object", "properties": {"ssn": ` + marked + `}}`, `["1"]`, `"•••"`},
		"numbers":               {`{"properties": {"ssn": ` + marked + `}}`, `{"n": 12345678901234567890, "f": 1.0}`, `{"f":1.0,"n":12345678901234567890}`},
		"html":                  {`{"properties": {"ssn": ` + marked + `}}`, `{"n": "<&>"}`, `{"n":"<&>"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mask(t, c.value, c.schema)
			if name == "a name that is marked" { // nothing is sensitive
				got = strings.ReplaceAll(got, `":1`, `": 1`)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestMaskOfVersionsHidesWhatAnyMarks(t *testing.T) {
	t.Parallel()
	first := `{"required": ["ssn"], "properties": {"ssn": {"x-sensitive": true}}}`
	second := `{"properties": {"social": {"x-sensitive": true}}}`
	if got := mask(t, `{"ssn": 1, "social": 2, "a": 3}`, first, second); got != `{"a":3,"social":"•••","ssn":"•••"}` {
		t.Error(got)
	}
	if got := mask(t, `{"social": 2, "a": 3}`, first, second); got != `{"a":3,"social":"•••"}` {
		t.Error("of the second version:", got)
	}
	if got := mask(t, `{"a": 3}`, first, `{"required": ["b"]}`); got != jobtype.HiddenJSON {
		t.Error("of none:", got)
	}
}

func TestMaskThatTakesTooLongHidesAll(t *testing.T) {
	t.Parallel()
	schema := `{"items": {"properties": {"s": {"x-sensitive": true}}, "patternProperties": {"(a|b|c|d|e)+f(a|b|c|d|e)+g": true}}}`
	value := `[` + strings.Repeat(`{"`+strings.Repeat("abcde", 50)+`": 1},`, 2000) + `{"s": 1}]`
	if got := mask(t, value, schema); got != jobtype.HiddenJSON {
		t.Errorf("%.60s", got)
	}
}

func TestTheMarkIsABoolean(t *testing.T) {
	t.Parallel()
	if _, err := jobtype.Compile([]byte(`{"properties": {"a": {"x-sensitive": "yes"}}}`)); err == nil || !strings.Contains(err.Error(), "x-sensitive must be true or false") {
		t.Error(err)
	}
	for text, want := range map[string]bool{
		`{"properties": {"a": {"x-sensitive": true}}}`:  true,
		`{"properties": {"a": {"x-sensitive": false}}}`: false,
		`{"properties": {"x-sensitive": true}}`:         false,
		`{"$defs": {"a": {"x-sensitive": true}}}`:       false,
	} {
		made, err := jobtype.Compile([]byte(text))
		if err != nil || made.Sensitive() != want {
			t.Error(text, err)
		}
	}
}

func TestWhatWasHiddenIsNotTakenForAValue(t *testing.T) {
	t.Parallel()
	made, err := jobtype.Compile([]byte(`{"properties": {"ssn": {"type": "string", "x-sensitive": true}, "note": {"type": "string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if found := made.Check([]byte(`{"ssn": "•••"}`)); len(found) != 1 || found[0].Keyword != "x-sensitive" {
		t.Error(found)
	}
	if found := made.Check([]byte(`{"ssn": "1", "note": "•••"}`)); len(found) > 0 {
		t.Error(found)
	}
}

// A caller has so many steps for all values; a version that is missing hides all.
func TestMaskIsBoundedAndFailsClosed(t *testing.T) {
	t.Parallel()
	made, err := jobtype.Compile([]byte(`{"items": {"properties": {"s": {"x-sensitive": true}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	value := []byte(`[` + strings.Repeat(`{"a": 1},`, 1000) + `{"s": 1}]`)
	left, shown := 100_000, 0
	for range 1000 {
		if string(jobtype.Mask(value, []*jobtype.Schema{made}, &left)) != jobtype.HiddenJSON {
			shown++
		}
	}
	if shown == 0 || shown > 100 {
		t.Errorf("%d values were masked by parts", shown)
	}
	left = 1 << 30
	if got := string(jobtype.Mask([]byte(`[]`), []*jobtype.Schema{made, nil}, &left)); got != jobtype.HiddenJSON {
		t.Error(got)
	}
}

func TestAMarkWithinATextIsRefused(t *testing.T) {
	t.Parallel()
	_, err := jobtype.Compile([]byte(`{"properties": {"a": {"contentMediaType": "application/json", "contentSchema": {"properties": {"b": {"x-sensitive": true}}}}}}`))
	if err == nil || !strings.Contains(err.Error(), "contentSchema") {
		t.Error(err)
	}
}
