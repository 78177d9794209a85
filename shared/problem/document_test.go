package problem_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/problem"
)

var update = flag.Bool("update", false, "write the list of codes in api-docs/errors.md")

// codes are the lines of the page that list the codes.
var codes = regexp.MustCompile("(?m)^(- `[a-z_]+` \\([0-9]{3}\\): .*\n)+")

// The page's list is written from the code: go test ./shared/problem -run Document -update.
func TestErrorsDocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "api-docs", "errors.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for _, one := range problem.Helps() {
		fmt.Fprintf(&list, "- `%s` (%d): %s → %s\n", one.Code, one.Status, one.Means, one.Action)
	}
	want := codes.ReplaceAllLiteralString(string(content), list.String())
	if len(codes.FindAll(content, -1)) != 1 {
		t.Fatal("errors.md has no list of codes, or more than one")
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
