package httpapi_test

import (
	"html"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// The type of every problem that a user can meet can be opened.
func TestTypesOfProblemsCanBeOpened(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, help := range problem.Helps() {
		answer := d.do("GET", problem.New(help.Code, "").Type, "", "")
		page := string(answer.body)
		if answer.status != 200 || !strings.HasPrefix(answer.header.Get("Content-Type"), "text/html") || !strings.Contains(page, html.EscapeString(help.Title)) {
			t.Errorf("%s: %d %v", help.Code, answer.status, answer.header)
		}
		if strings.Contains(page, "`") || !strings.Contains(page, `<a href="lease_lost">`) {
			t.Errorf("%s:\n%s", help.Code, page)
		}
	}
	for _, unknown := range []string{"no_such_code", "assertion_expired", "..%2Findex"} {
		if answer := d.do("GET", "/problems/"+unknown, "", ""); answer.status != 404 {
			t.Errorf("%s: %d", unknown, answer.status)
		}
	}
}
