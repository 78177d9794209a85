package docs

import (
	"bytes"
	"html/template"
	"regexp"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// ProblemPage is the name of the page about a code; Has says whether there is one.
func ProblemPage(code string) string { return "problems/" + code + ".html" }

var quoted = regexp.MustCompile("`([^`]*)`")

// problemPages are the pages about the codes, one for each.
func problemPages() map[string][]byte {
	page := template.Must(template.New("problem.html").Funcs(template.FuncMap{
		"code": func(text string) template.HTML {
			escaped := template.HTMLEscapeString(text)
			return template.HTML(quoted.ReplaceAllString(escaped, "<code>$1</code>")) //nolint:gosec // escaped above; the text is in the binary
		},
	}).ParseFS(own, "problem.html"))
	all := problem.Helps()
	pages := make(map[string][]byte, len(all))
	for _, one := range all {
		var text bytes.Buffer
		if err := page.Execute(&text, struct {
			problem.Help
			All []problem.Help
		}{one, all}); err != nil {
			panic(err) // the template and what it shows are in the binary
		}
		pages[ProblemPage(string(one.Code))] = text.Bytes()
	}
	return pages
}
