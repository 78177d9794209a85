package deploy_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// [text](target), but not in code: a line of code is indented or fenced.
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?\n```")
	// what a heading's anchor leaves out, as GitHub makes it
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// anchors gives the anchors of a page's headings.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := dropped.ReplaceAllString(strings.ToLower(match[1]), "")
		all[strings.ReplaceAll(text, " ", "-")] = true
	}
	return all
}

// Every link between our pages leads somewhere, to the heading that it names.
func TestLinksBetweenPages(t *testing.T) {
	t.Parallel()
	links := 0
	for _, page := range pages(t) {
		text := fence.ReplaceAllString(read(t, page), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, err := url.Parse(match[1])
			if err != nil {
				t.Errorf("%s: the link %q: %v", page, match[1], err)
				continue
			}
			if target.Scheme != "" {
				continue // elsewhere: not ours to hold
			}
			links++
			if complaint := leads(t, page, target); complaint != "" {
				t.Errorf("%s: the link %q: %s", page, match[1], complaint)
			}
		}
	}
	if links < 40 {
		t.Errorf("found only %d links: does this test still see them?", links)
	}
}

// leads says what is wrong with a link, or nothing.
func leads(t *testing.T, page string, target *url.URL) string {
	t.Helper()
	path := page
	if target.Path != "" {
		path = filepath.Join(filepath.Dir(page), target.Path)
	}
	info, err := os.Stat(filepath.Join(top, path))
	if err != nil {
		return "there is no " + path
	}
	if target.Fragment != "" && (info.IsDir() || !anchors(read(t, path))[target.Fragment]) {
		return path + " has no such heading"
	}
	return ""
}

// pages gives all Markdown files, from the top.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		relative, err := filepath.Rel(top, path)
		all = append(all, relative)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// api-docs/README.md lists every page of api-docs; those of decisions/ by their folder.
func TestIndexListsEveryPage(t *testing.T) {
	t.Parallel()
	const folder = "api-docs"
	listed := map[string]bool{}
	for _, match := range link.FindAllStringSubmatch(read(t, filepath.Join(folder, "README.md")), -1) {
		listed[filepath.Join(folder, match[1])] = true
	}
	seen := 0
	for _, page := range pages(t) {
		switch filepath.Dir(page) {
		case folder:
			if filepath.Base(page) == "README.md" {
				continue
			}
		case filepath.Join(folder, "decisions"):
			page = filepath.Dir(page)
		default:
			continue
		}
		seen++
		if !listed[page] {
			t.Errorf("%s is not in the index: add a line to %s/README.md", page, folder)
		}
	}
	if seen < 20 {
		t.Errorf("found only %d pages: does this test still see them?", seen)
	}
}
