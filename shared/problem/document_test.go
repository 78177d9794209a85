package problem_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/forgequeue/forgequeue/shared/problem"
)

var update = flag.Bool("update", false, "write the table of api-docs/errors.md")

// table is the table of codes in the page.
var table = regexp.MustCompile(`(?m)^\| code \| status .*\n(\|.*\n)+`)

// The page's table is written from the code: go test ./shared/problem -run Document -update.
func TestErrorsDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "api-docs", "errors.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := table.ReplaceAllLiteralString(string(content), problem.Table())
	if len(table.FindAll(content, -1)) != 1 {
		t.Fatal("errors.md has no table of codes, or more than one")
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(content) {
		t.Error("errors.md is not what the code says; write it with -update")
	}
}

func TestEveryCodeHasHelp(t *testing.T) {
	t.Parallel()
	helped := map[problem.Code]bool{}
	for _, one := range problem.Helps() {
		helped[one.Code] = true
		if !problem.Known(one.Code) || one.Status < 400 || one.Title == "" || one.Means == "" || one.Action == "" {
			t.Errorf("help %+v", one)
		}
	}
	for _, code := range problem.Codes() {
		if internal := code == problem.AssertionExpired; helped[code] == internal {
			t.Errorf("%s: has help %v", code, helped[code])
		}
	}
}
