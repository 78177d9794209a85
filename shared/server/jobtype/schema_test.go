package jobtype_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

func compile(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string,
) *jobtype.Schema {
	t.Helper()
	made, err := jobtype.Compile([]byte(text))
	if err != nil {
		t.Fatalf("%.300s: %v", text, err)
	}
	return made
}

// shown is where a value does not fit, as "pointer keyword".
func shown(s *jobtype.Schema, value string) string {
	var texts []string
	for _, one := range s.Check([]byte(value)) {
		texts = append(texts, strings.TrimSpace(one.Pointer+" "+one.Keyword))
	}
	return strings.Join(texts, ", ")
}

const mail = `{"type":"object","required":["to"],"additionalProperties":false,"properties":{
	"to":{"type":"string","format":"email"},"copies":{"type":"integer","minimum":1,"maximum":9},
	"kind":{"enum":["a","b"]},"tags":{"type":"array","items":{"$ref":"#/$defs/tag"},"uniqueItems":true},
	"more":{"anyOf":[{"type":"null"},{"type":"object","properties":{"a/b":{"type":"boolean"}}}]}},
	"$defs":{"tag":{"type":"string","pattern":"^[a-z]+$"}}}`

func TestMismatches(t *testing.T) {
	t.Parallel()
	s := compile(t, mail)
	for value, want := range map[string]string{
		`{"to":"ada@example.com","copies":2,"kind":"b","tags":["x","y"],"more":{"a/b":true}}`: "",
		`{"to":"ada@example.com","more":null}`:                                                "",
		``:                                                                                    "type",
		`null`:                                                                                "type",
		`{}`:                                                                                  "required",
		`{"to":"nobody"}`:                                                                     "/to format",
		`{"to":"a@b.c","copies":1.0}`:                                                         "",
		`{"to":"a@b.c","copies":1.5}`:                                                         "/copies type",
		`{"to":"a@b.c","copies":10}`:                                                          "/copies maximum",
		`{"to":"a@b.c","kind":"c"}`:                                                           "/kind enum",
		`{"to":"a@b.c","tags":["x","X"]}`:                                                     "/tags/1 pattern",
		`{"to":"a@b.c","tags":["x","x"]}`:                                                     "/tags uniqueItems",
		`{"to":"a@b.c","x":1}`:                                                                "additionalProperties",
		`{"to":"a@b.c","more":{"a/b":1}}`:                                                     "/more anyOf",
		`{"to":"a@b.c","copies":1e400}`:                                                       "/copies maximum",
		`{"to":"a@b.c","copies":1e401}`:                                                       "",
		`{"to":"a@b.c","copies":1e9999999999}`:                                                "",
		"[" + strings.Repeat("[", 200) + "1":                                                  "",
		`{"to":"a@b.c","copies":9007199254740993}`:                                            "/copies maximum",
	} {
		got := shown(s, value)
		if got != want {
			t.Errorf("%.80s: %q, want %q", value, got, want)
		}
	}
	// What cannot be checked does not fit, and says why.
	for _, value := range []string{`{"to":"a@b.c","copies":1e401}`, strings.Repeat("[", 101) + strings.Repeat("]", 101), `{"to":"a@b.c","copies":1e9999999999}`, strings.Repeat("9", 401)} {
		found := s.Check([]byte(value))
		if len(found) != 1 || found[0].Keyword != "" || found[0].Message == "" {
			t.Errorf("%.40s: %+v", value, found)
		}
	}
}

// A schema with a type that does not exist is told which there are.
func TestTheAlternativeOfTheValuesTypeIsNamed(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"anyOf":[{"enum":["red","blue"]},{"type":"array"}]}`: "must be one of red, blue",
		`{"anyOf":[{"enum":["red"]},{"enum":["blue"]}]}`:       "fits none of the 2 alternatives",
		`{"anyOf":[{"type":"integer"},{"type":"array"}]}`:      "fits none of the 2 alternatives",
		`{"enum":["a","b",3]}`:                                 "must be one of the 3 allowed values",
	} {
		if found := compile(t, schema).Check([]byte(`"green"`)); len(found) != 1 || found[0].Message != want {
			t.Errorf("%s: %+v, want %s", schema, found, want)
		}
	}
}

// All digits of a number count.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"const":9007199254740993}`)
	for value, want := range map[string]string{`9007199254740993`: "", `9007199254740992`: "const", `9007199254740993.0`: ""} {
		if got := shown(s, value); got != want {
			t.Errorf("%s: %q", value, got)
		}
	}
	if got := shown(compile(t, `{"multipleOf":0.1}`), `0.3`); got != "" {
		t.Errorf("0.3 is a multiple of 0.1: %q", got)
	}
}

func TestTextsAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	name := strings.Repeat("n", 10_000)
	for schema, value := range map[string]string{
		`{"additionalProperties":false}`:                                 `{"` + name + `":1}`,
		`{"additionalProperties":{"type":"integer"}}`:                    `{"` + name + `":"` + long + `"}`,
		`{"enum":["` + long + `"]}`:                                      `"` + long + `y"`,
		`{"pattern":"^` + long[:900] + `$"}`:                             `"` + long[:100] + `"`,
		`{"const":"` + long + `"}`:                                       `1`,
		`{"required":["` + name + `","` + long + `"]}`:                   `{}`,
		`{"propertyNames":{"maxLength":3}}`:                              `{"` + name + `":1}`,
		`{"format":"date"}`:                                              `"` + long + `"`,
		`{"items":{"type":"integer"}}`:                                   `[` + strings.Repeat(`"`+long+`",`, 20) + `1]`,
		`{"dependentRequired":{"` + name + `":["` + long + `"]}}`:        `{"` + name + `":1}`,
		`{"not":true}`:                                                   `"` + long + `"`,
		`{"type":"string","maxLength":3,"pattern":"^a","format":"ipv4"}`: `"` + long + `"`,
	} {
		found := compile(t, schema).Check([]byte(value))
		if len(found) == 0 || len(found) > jobtype.MaxMismatches {
			t.Errorf("%.60s: %d mismatches", schema, len(found))
		}
		for _, one := range found {
			if len(one.Pointer) > 200 || len(one.Message) > 200 || one.Message == "" || one.Keyword == "" {
				t.Errorf("%.60s: %d %q %d %q", schema, len(one.Pointer), one.Keyword, len(one.Message), one.Message)
			}
		}
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat(`{"items":`, 101) + "{}" + strings.Repeat("}", 101)
	chain := `{"$ref":"#/$defs/a0","$defs":{`
	for i := range 40 {
		chain += fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
	}
	chain += `"a40":{}}}`
	many := `{"allOf":[{}` + strings.Repeat(`,{"type":"string"}`, 2001) + `]}`
	refs := `{"anyOf":[{"$ref":"#/$defs/a"}` + strings.Repeat(`,{"$ref":"#/$defs/a"}`, 500) + `],"$defs":{"a":{}}}`
	bools := `{"anyOf":[true` + strings.Repeat(",true", 12_000) + `]}`
	patterns := `{"anyOf":[{}` + strings.Repeat(`,{"pattern":"a{900}"}`, 200) + `]}`
	for text, want := range map[string]string{
		bools: "2000", patterns: "together",
		`7`: "must be an object", `"x"`: "must be an object", `[`: "", nested: "deeper", chain: "chain", many: "2000", refs: "500",
		`{"type":"strin"}`:                                         "/type",
		`{"properties":{"a":1}}`:                                   "/properties/a",
		`{"minLength":-1}`:                                         "/minLength",
		`{"pattern":"(?=x)"}`:                                      "/pattern format: cannot be used as a regular expression",
		`{"pattern":"a{1000}b{1000}c{1000}"}`:                      "too complex",
		`{"pattern":"` + strings.Repeat("a", 1025) + `"}`:          "1024",
		`{"$ref":"https://example.com/other.json"}`:                "remote references",
		`{"$ref":"other.json"}`:                                    "remote references",
		`{"$ref":"file:///etc/passwd"}`:                            "remote references",
		`{"properties":{"default":{"$ref":"file:///etc/passwd"}}}`: "remote references",
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`:  "remote references",
		`{"properties":{"enum":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`: "remote references",
		`{"$ref":"#"}`: "itself", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}}`: "itself",
		`{"$ref":"#/$defs/none"}`:                               "not found",
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`: "/$schema",
		`{"$dynamicRef":"#x"}`:                                  "not supported",
		`{"maximum":1e9999}`:                                    "exponent",
	} {
		made, err := jobtype.Compile([]byte(text))
		refused, ok := errors.AsType[*jobtype.SchemaError](err)
		if made != nil || !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
			continue
		}
		for _, one := range refused.Mismatches {
			if len(one.Message) > 200 || len(one.Pointer) > 200 || strings.Contains(one.Message, "schema://") {
				t.Errorf("%.80s: %+v", text, one)
			}
		}
	}
	for _, text := range []string{
		`true`, `{}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`,
		`{"$id":"https://example.com/a.json","$ref":"https://example.com/a.json#/$defs/b","$defs":{"b":{}}}`,
		`{"$id":"https://example.com/a.json","$ref":"b.json","$defs":{"b":{"$id":"b.json"}}}`,
		`{"properties":{"child":{"$ref":"#"}}}`, `{"properties":{"$ref":{"type":"string"}}}`,
		`{"examples":[{"$ref":"https://example.com"}]}`, `{"format":"regex"}`, `{"format":"of my own"}`,
	} {
		compile(t, text)
	}
	if got := shown(compile(t, `{"format":"regex"}`), `"("`); got != "" {
		t.Errorf("regex is asserted: %s", got)
	}
}

// hostile are schemas with a value whose check would take years, or nearly so.
func hostile() map[string][2]string {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	twice := `{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/t"}},"not":{"type":"object"}},{"properties":{"a":{"$ref":"#/$defs/t"}},"not":{"type":"object"}}]}`
	double := func(keyword string) string {
		defs := []string{}
		for i := range 30 {
			defs = append(defs, fmt.Sprintf(`"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1, i+1))
		}
		return `{"$ref":"#/$defs/d16","$defs":{` + strings.Join(defs, ",") + `,"d30":{"type":"string"}}}`
	}
	list := `{"type":"array","items":{"$ref":"#/$defs/t"},"contains":{"$ref":"#/$defs/t"}}`
	return map[string][2]string{
		"anyOf":    {`{"$ref":"#/$defs/t","$defs":{"t":` + twice + `}}`, deep(`{"b":1,"c":1,"a":`, `}`, 90)},
		"in not":   {`{"not":{"$ref":"#/$defs/t"},"$defs":{"t":` + list + `}}`, deep(`[`, `]`, 90)},
		"contains": {`{"$ref":"#/$defs/t","$defs":{"t":` + list + `}}`, deep(`[`, `]`, 90)},
		"patterns": {`{"not":{"$ref":"#/$defs/t"},"$defs":{"t":{"type":"object","patternProperties":{"a":{"$ref":"#/$defs/t"},"a$":{"$ref":"#/$defs/t"},"^a":{"$ref":"#/$defs/t"}}}}}`, deep(`{"a":`, `}`, 90)},
		"allOf":    {`{"type":"array","items":` + strings.ReplaceAll(double("allOf"), "#/", "#/items/") + `}`, `[` + strings.Repeat(`"x",`, 50_000) + `"x"]`},
		"enum":     {`{"items":{"enum":[` + strings.Repeat(`123456,`, 5000) + `1]}}`, `[` + strings.Repeat("7,", 100_000) + `7]`},
		"pattern":  {`{"items":{"pattern":"(a|aa|aaa|aaaa){50}$"}}`, `[` + strings.Repeat(`"`+strings.Repeat("a", 20_000)+`",`, 12) + `"b"]`},
	}
}

func TestHostileSchemasEnd(t *testing.T) {
	t.Parallel()
	for name, one := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, one[0])
			if !json.Valid([]byte(one[1])) {
				t.Fatalf("%.60s is no JSON", one[1])
			}
			found := s.Check([]byte(one[1])) // without the count it does not come back
			if len(found) != 1 || !strings.Contains(found[0].Message, "too long to check") {
				t.Errorf("%+v", found)
			}
			if name != "in not" {
				return
			}
			if again := s.Check([]byte(`[]`)); len(again) != 0 { // [] is no list that contains one
				t.Errorf("a small value after that: %+v", again)
			}
		})
	}
}

// What is large, and not hostile, is checked.
func TestLargeValuesAreChecked(t *testing.T) {
	t.Parallel()
	object := `{"id":123,"name":"some name","kind":"a","tags":["x","y"],"nested":{"a":1,"b":"text","c":[1,2,3]}},`
	tree := strings.Repeat(`{"value":1,"children":[`, 30) + strings.Repeat(`}`, 0) + strings.Repeat(`]}`, 30)
	for schema, value := range map[string]string{
		`{"items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":99},"kind":{"enum":["a","b"]},` +
			`"tags":{"type":"array","uniqueItems":true,"items":{"pattern":"^[a-z]+$"}},"nested":{"type":"object"}},"unevaluatedProperties":false}}`: `[` + strings.TrimSuffix(strings.Repeat(object, 2500), ",") + `]`,
		`{"items":{"type":"number"}}`: `[` + strings.Repeat("1,", 120_000) + `1]`,
		`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"value":{},"children":{"type":"array","items":{"$ref":"#/$defs/n"}}}}}}`: tree,
		`{"uniqueItems":true,"items":{"type":"object"}}`: func() string {
			var all []string
			for i := range 5000 {
				all = append(all, fmt.Sprintf(`{"id":%d}`, i))
			}
			return `[` + strings.Join(all, ",") + `]`
		}(),
	} {
		if found := compile(t, schema).Check([]byte(value)); len(found) != 0 {
			t.Errorf("%.80s: %+v", schema, found)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s := compile(b, `{"type":"object","required":["to","subject"],"additionalProperties":false,"properties":{
		"to":{"type":"array","maxItems":50,"items":{"type":"string","format":"email"}},"subject":{"type":"string","maxLength":200},
		"text":{"type":"string"},"priority":{"enum":["low","high"]},"attachments":{"type":"array","items":{"type":"object","required":["url"],
		"properties":{"url":{"type":"string"},"bytes":{"type":"integer","minimum":0}}}},"vars":{"type":"object","additionalProperties":{"type":"string"}}}}`)
	value := `{"to":["ada@example.com","bob@example.com"],"subject":"Welcome","priority":"high","text":"` + strings.Repeat("some words ", 110) +
		`","attachments":[{"url":"https://example.com/a.pdf","bytes":123456},{"url":"https://example.com/b.pdf","bytes":7}],"vars":{` +
		`"first":"Ada","last":"Lovelace","company":"Example","link":"https://example.com/welcome?token=0123456789abcdef","footer":"` + strings.Repeat("legal text ", 30) + `"}}`
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if found := s.Check([]byte(value)); len(found) != 0 {
			b.Fatal(found)
		}
	}
}

func BenchmarkCompileLarge(b *testing.B) {
	text := `{"properties":{"a":{}`
	for i := range 1990 {
		text += fmt.Sprintf(`,"p%d":{"type":"string"}`, i)
	}
	for b.Loop() {
		compile(b, text+`}}`)
	}
}
