package request_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// The table is RFC 9110, sections 8.8.3 and 13.1.2.
func TestNoneMatch(t *testing.T) {
	t.Parallel()
	const tag = `"abc"`
	for headers, want := range map[string]bool{
		`"abc"`:               true,
		`W/"abc"`:             true,
		`*`:                   true,
		" * ":                 true,
		`"x", "abc"`:          true,
		`"x","y" , W/"abc",`:  true,
		`"x"|"abc"`:           true,
		`"x, y", "abc"`:       true,
		"":                    false,
		`abc`:                 false,
		`"ab"`:                false,
		`"abc`:                false,
		`w/"abc"`:             false,
		`W/ "abc"`:            false,
		`"ABC"`:               false,
		`*, "x"`:              false,
		`"*"`:                 false,
		`"x "abc""`:           false,
		`"an "abc", of sorts`: false,
	} {
		if got := request.NoneMatch(strings.Split(headers, "|"), tag); got != want {
			t.Errorf("%s: %v", headers, got)
		}
	}
	if request.NoneMatch(nil, tag) {
		t.Error("a match without a header")
	}
}

func TestETagIsOfTheBytes(t *testing.T) {
	t.Parallel()
	one, other := hop.ETag([]byte("a")), hop.ETag([]byte("b"))
	if one == other || one != hop.ETag([]byte("a")) || !strings.HasPrefix(one, `"`) || !strings.HasSuffix(one, `"`) || strings.ContainsAny(one[1:len(one)-1], "\" ,") {
		t.Errorf("tags %s and %s", one, other)
	}
}

// By strong comparison: a weak tag names no version.
func TestMatch(t *testing.T) {
	t.Parallel()
	for headers, want := range map[string]string{`"abc"`: `["abc"]`, `"a", W/"b"|"c"`: `["a" "c"]`, `W/"a"`: `[]`, `a`: `[]`, ``: `[]`, ` * `: "any", `*, "x"`: `["x"]`} {
		tags, all := request.Match(strings.Split(headers, "|"))
		if got := fmt.Sprint(tags); all != (want == "any") || !all && got != want {
			t.Errorf("%s: %s %v", headers, got, all)
		}
	}
	if tags, all := request.Match(nil); !all || tags != nil {
		t.Error("a condition without a header")
	}
}
