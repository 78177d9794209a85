package httpapi

import (
	"strings"
	"testing"
)

// The table is RFC 7240, sections 2 and 4.3.
func TestPreferredWait(t *testing.T) {
	t.Parallel()
	const none = -1
	for _, test := range []struct {
		headers string // with | between them
		want    int
	}{
		{"", none},
		{"wait=10", 10},
		{"wait=0", 0},
		{"wait=25", 25},
		{"wait=26", 25},
		{"wait=4294967296", 25},
		{"wait=99999999999999999999999999", 25},
		{"wait=007", 7},
		{"WAIT=3", 3},
		{" wait\t=  4 ", 4},
		{"respond-async, wait=10", 10},
		{"respond-async|wait=10", 10},
		{`handling="a, wait=1"; x=";wait=2", wait=5`, 5},
		{`foo="\", wait=9", wait=5`, 5},
		{`wait=5; foo=bar`, 5},
		{`foo; wait=5`, none},
		{",, wait=6 ,,", 6},
		{"wait=1, wait=2", 1},
		{"wait=1|wait=2", 1},
		{"wait=x, wait=2", none}, // only the first of a name counts
		{"wait", none},
		{"wait=", none},
		{"wait=-1", none},
		{"wait=+1", none},
		{"wait=1.5", none},
		{"wait=1e1", none},
		{"wait=1 0", none},
		{"wait=1_0", none},
		{"wait=٣", none},
		{`wait="10"`, none}, // delta-seconds is no quoted string
		{"waiting=10", none},
		{"wait:10", none},
		{`foo="unterminated, wait=10`, none},
		{`foo="\`, none},
	} {
		seconds, ok := preferredWait(strings.Split(test.headers, "|"))
		if !ok {
			seconds = none
		}
		if seconds != test.want {
			t.Errorf("%s: %d, want %d", test.headers, seconds, test.want)
		}
	}
	if _, ok := preferredWait(nil); ok {
		t.Error("a wait without a header")
	}
}

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
		if got := noneMatch(strings.Split(headers, "|"), tag); got != want {
			t.Errorf("%s: %v", headers, got)
		}
	}
	if noneMatch(nil, tag) {
		t.Error("a match without a header")
	}
}

func TestETagIsOfTheBytes(t *testing.T) {
	t.Parallel()
	one, other := etagOf([]byte("a")), etagOf([]byte("b"))
	if one == other || one != etagOf([]byte("a")) || !strings.HasPrefix(one, `"`) || !strings.HasSuffix(one, `"`) || strings.ContainsAny(one[1:len(one)-1], "\" ,") {
		t.Errorf("tags %s and %s", one, other)
	}
}
