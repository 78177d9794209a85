package push

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// A destination's JSON is a result by the rules that hold for a worker's; what breaks
// them is text, as what is no JSON at all.
func TestAnswersAreReadAsStrictlyAsResults(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for name, c := range map[string]struct {
		body string
		// text is what the string holds where it is no result as it is
		text string
	}{
		"an object":                 {`{"a": [1, 2.0]}`, ""},
		"a number beyond doubles":   {`{"n":1e400}`, ""},
		"a NUL":                     {`{"s":"\u0000"}`, ""},
		"a pair of surrogates":      {`"\ud83d\ude00"`, ""},
		"one name in two objects":   {`[{"a":1},{"a":2}]`, ""},
		"brackets in a string":      {`"` + nested(40) + `\""`, ""},
		"deep":                      {nested(api.MaxDepth), ""},
		"too deep":                  {nested(api.MaxDepth + 1), nested(api.MaxDepth + 1)},
		"a member twice":            {`{"a":1,"a":2}`, `{"a":1,"a":2}`},
		"a member twice, inside":    {`[{"b":{"a":1,"\u0061":2}}]`, `[{"b":{"a":1,"\u0061":2}}]`},
		"a lone surrogate":          {`{"s":"\ud800"}`, `{"s":"\ud800"}`},
		"surrogates in a bad order": {`"\ude00\ud83d"`, `"\ude00\ud83d"`},
		"a lone one as a name":      {`{"\udfff":1}`, `{"\udfff":1}`},
		"no UTF-8":                  {"{\"s\":\"\xff\"}", "{\"s\":\"\uFFFD\"}"},
		"a raw NUL":                 {"\"\x00\"", "\"\x00\""},
		"two values":                {`1 2`, `1 2`},
	} {
		want := c.body
		if c.text != "" {
			encoded, err := json.Marshal(c.text)
			if err != nil {
				t.Fatal(err)
			}
			want = string(encoded)
		}
		if got := string(resultOf([]byte(c.body))); got != want {
			t.Errorf("%s: %s is %s, want %s", name, c.body, got, want)
		}
	}
}
