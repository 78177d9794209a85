package problem_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// The page for people has every code with its status, and no other.
// codeRow is a row of the table of codes: a code, and its status.
var codeRow = regexp.MustCompile("^\\| `[a-z_]+` \\| [0-9]{3} \\|")

func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", "api-docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(content)) {
		if codeRow.MatchString(line) {
			rows++
		}
	}
	for _, code := range problem.Codes() {
		if code == problem.AssertionExpired {
			continue // between gateway and core only
		}
		rows--
		if want := fmt.Sprintf("| %#q | %d |", code, problem.New(code, "").Status); !strings.Contains(string(content), want) {
			t.Errorf("errors.md has no row that begins with %s", want)
		}
	}
	if rows != 0 {
		t.Errorf("errors.md has %d rows more than there are codes", rows)
	}
}
