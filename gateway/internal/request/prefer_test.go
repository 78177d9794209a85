package request_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
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
		seconds, ok := request.PreferredWait(strings.Split(test.headers, "|"))
		if !ok {
			seconds = none
		}
		if seconds != test.want {
			t.Errorf("%s: %d, want %d", test.headers, seconds, test.want)
		}
	}
	if _, ok := request.PreferredWait(nil); ok {
		t.Error("a wait without a header")
	}
}
