package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

//go:embed templates
var sources embed.FS

// Frame is a page: what it shows, and for whom.
type Frame struct {
	// Template is the name of the page's own template.
	Template string
	Title    string
	// At is the path of the request.
	At string
	// SignedIn says that there is a session; Operator that it has the operator key; Who is the key otherwise.
	SignedIn bool
	Operator bool
	Who      api.Whoami
	// FormToken goes with every form.
	FormToken string
	// Once is other in each page: a form that is sent twice is recognized by it.
	Once string
	// Note says what the last action did; empty for none.
	Note string
	Now  time.Time
	// Fragment leaves the frame out: an open page updates itself.
	Fragment bool
	Data     any
}

// May says whether the key has a scope.
func (f *Frame) May(scope string) bool { return slices.Contains(f.Who.Scopes, scope) }

// Bound says whether the key is bound to a user, who sees no queues and workers.
func (f *Frame) Bound() bool { return f.Who.User != nil }

// Here says whether a link of the navigation leads to this page, or to the list that it is of.
func (f *Frame) Here(to string) bool {
	if to == "/console/dead-letters" && strings.HasPrefix(f.At, "/console/redrives/") || to == "/console/jobs" && strings.HasPrefix(f.At+"/", "/console/bulk/") {
		return true
	}
	return f.At == to || to != "/console" && strings.HasPrefix(f.At, to+"/")
}

// Time shows an instant, relative to now; the exact one is in its title.
func (f *Frame) Time(at any) template.HTML {
	instant := instantOf(at)
	if instant == nil {
		return "—"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, //nolint:gosec,gocritic // a time and its own words; HTML is not quoted as Go is
		instant.UTC().Format(time.RFC3339Nano), instant.UTC().Format("2006-01-02 15:04:05.000 UTC"), view.Relative(*instant, f.Now)))
}

// Clock shows an instant as a date and a time of day, and how far it is: a phone has no titles. It is in UTC, and by the
// page's script in the reader's zone.
func (f *Frame) Clock(at any) template.HTML {
	instant := instantOf(at)
	if instant == nil {
		return "—"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-clock>%s</time> <span class="quiet">%s</span>`, //nolint:gosec,gocritic // as above
		instant.UTC().Format(time.RFC3339Nano), instant.UTC().Format("Mon 2 Jan, 15:04:05 UTC"), f.Time(*instant)))
}

// utcInText is an instant as core writes it in a sentence.
var utcInText = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`)

// Sentence shows a sentence of the API, with the instants in it as on the rest of the page.
func (f *Frame) Sentence(text string) template.HTML {
	var b strings.Builder
	at := 0
	for _, found := range utcInText.FindAllStringIndex(text, -1) {
		instant, err := time.Parse("2006-01-02 15:04:05 MST", text[found[0]:found[1]])
		if err != nil {
			continue // the 31st of a shorter month
		}
		b.WriteString(template.HTMLEscapeString(text[at:found[0]]))
		b.WriteString(string(f.Clock(instant)))
		at = found[1]
	}
	b.WriteString(template.HTMLEscapeString(text[at:]))
	return template.HTML(b.String()) //nolint:gosec // escaped, but for the times
}

// step shows when a step of a chart begins: in UTC, and by the page's script in the reader's zone.
func step(at time.Time, day bool) template.HTML {
	layout, kind := "15:04 UTC", "minute"
	if day {
		layout, kind = "Mon 15:04 UTC", "hour"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-clock="%s">%s</time>`, //nolint:gosec,gocritic // as above
		at.UTC().Format(time.RFC3339Nano), kind, at.UTC().Format(layout)))
}

// instantOf is nil where there is none.
func instantOf(at any) *time.Time {
	switch at := at.(type) {
	case api.Time:
		return &at.Time
	case *api.Time:
		if at != nil {
			return &at.Time
		}
	case time.Time:
		return &at
	}
	return nil
}

// Between is how long it took from one instant to another; until now where that is nil.
func (f *Frame) Between(from, to *api.Time) string {
	if from == nil {
		return ""
	}
	until := f.Now
	if to != nil {
		until = to.Time
	}
	return view.Duration(until.Sub(from.Time))
}

// part is what a template of a part gets: the page, and what the part is of.
type part struct {
	Page *Frame
	Of   any
}

var functions = template.FuncMap{
	"asset":   assetPath,
	"icon":    icon,
	"num":     view.Number,
	"count":   view.Count,
	"rate":    view.Decimal,
	"ms":      view.Milliseconds,
	"step":    step,
	"seconds": func(ms int64) string { return view.Input(float64(ms) / 1000) },
	"label":   view.Label,
	"part":    func(page *Frame, of any) part { return part{page, of} },
	"has":     slices.Contains[[]string],
	"join":    func(all []string) string { return strings.Join(all, ", ") },
	"short":   func(id string) string { return id[max(len(id)-8, 0):] },
	"deref":   deref,
	"list":    func(all ...any) []any { return all },
	"int64":   func(n int) int64 { return int64(n) },
	"ptr":     func(at api.Time) *api.Time { return &at },
	"person":  Person,
	"joined":  func(all *[]string) string { return strings.Join(*all, ", ") },
}

// Person is the name of a person who has acted, empty for a key.
func Person(keyID *string) string {
	if keyID == nil {
		return ""
	}
	name, is := strings.CutPrefix(*keyID, hop.PersonPrefix)
	if !is {
		return ""
	}
	return name
}

func deref(pointer any) any {
	switch p := pointer.(type) {
	case *string:
		if p != nil {
			return *p
		}
	case *int64:
		if p != nil {
			return *p
		}
	case *int:
		if p != nil {
			return *p
		}
	case *float64:
		if p != nil {
			return *p
		}
	}
	return ""
}

// templates are the pages by name, each with the frame and the parts.
var templates = sync.OnceValue(func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(functions).ParseFS(sources, "templates/frame.html", "templates/parts/*.html"))
	files, err := fs.Glob(sources, "templates/pages/*.html")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	all := map[string]*template.Template{}
	for _, file := range files {
		all[strings.TrimSuffix(path.Base(file), ".html")] = template.Must(template.Must(base.Clone()).ParseFS(sources, file))
	}
	return all
})

// Render gives a page's HTML.
func Render(f Frame) ([]byte, error) {
	page, ok := templates()[f.Template]
	if !ok {
		return nil, fmt.Errorf("there is no template %q", f.Template)
	}
	name := "frame"
	if f.Fragment {
		name = "content"
	}
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, name, &f); err != nil {
		return nil, err
	}
	return visible(b.Bytes()), nil
}
