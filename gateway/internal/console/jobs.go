package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// jobsPerPage is how many jobs a page lists.
const jobsPerPage = 50

type jobsPage struct {
	Items    []api.JobSummary
	Older    string
	States   []stateChoice
	Fields   []forms.Field
	Filtered bool
	// Typed says that an input has something in it.
	Typed bool
	Deep  bool
}

type stateChoice struct {
	Name   string
	Chosen bool
}

var jobStates = []string{
	api.StateQueued, api.StateRunning, api.StateScheduled, api.StateBlocked, api.StateCompleted, api.StateDeadLetter, api.StateCancelled,
}

// jobFilters are the parameters of a list of jobs that have an input.
var jobFilters = []forms.Field{
	{Name: "queue", Label: "Queue"},
	{Name: "type", Label: "Type"},
	{Name: "tag", Label: "Tag"},
	{Name: "user", Label: "User"},
	{Name: "dedupe_key", Label: "Dedupe key"},
	{Name: "metadata", Label: "Metadata", Now: "key=value"},
}

func listJobs(v *visit) (shown, error) {
	given, filter := v.r.URL.Query(), api.JobFilter{Metadata: map[string]string{}}
	page := jobsPage{Deep: v.deep()}
	chosen := given["state"]
	for _, state := range jobStates {
		page.States = append(page.States, stateChoice{state, slices.Contains(chosen, state)})
	}
	if len(chosen) > 0 {
		filter.States, page.Filtered = chosen, true
	}
	suggested := v.suggestions()
	for _, f := range jobFilters {
		f.Options = suggested[f.Name]
		f.Value = strings.TrimSpace(given.Get(f.Name))
		page.Fields = append(page.Fields, f)
		switch key, value, _ := strings.Cut(f.Value, "="); {
		case f.Value == "":
			continue
		case f.Name != "metadata":
			*inputOf(&filter, f.Name) = f.Value
		default:
			filter.Metadata[key] = value
		}
		page.Filtered, page.Typed = true, true
	}
	jobs, err := v.api.List(v.ctx(), filter, v.page(jobsPerPage))
	if err != nil {
		return shown{}, err
	}
	page.Items, page.Older = jobs.Items, v.older(jobs.NextPageToken)
	return shown{template: "jobs", title: "Jobs", data: page}, nil
}

// inputOf is the part of a filter that one of jobFilters sets.
func inputOf(filter *api.JobFilter, name string) *string {
	return map[string]*string{
		"queue": &filter.Queue, "type": &filter.Type, "tag": &filter.Tag, "user": &filter.User, "dedupe_key": &filter.DedupeKey,
	}[name]
}

// suggestions are names for the filters, the first ones of each, by the filter. A list without them is better than none;
// one that updates itself keeps those that it has.
func (v *visit) suggestions() map[string][]string {
	if v.live() {
		return nil
	}
	first := client.PageRequest{Size: api.MaxPageSize}
	suggested := map[string][]string{}
	if types, err := v.api.Types(v.ctx(), first); err == nil {
		for i := range types.Items {
			suggested["type"] = append(suggested["type"], types.Items[i].Type)
		}
	}
	if v.who.User != nil { // who sees no queues
		return suggested
	}
	if queues, err := v.api.QueuesWithin(v.ctx(), 1, first); err == nil { // only the names are shown
		for i := range queues.Items {
			suggested["queue"] = append(suggested["queue"], queues.Items[i].Name)
		}
	}
	return suggested
}

// search reads what a person typed: an id, key=value of metadata, a filter such as queue:mails, or a type.
func search(v *visit) (shown, error) {
	text := strings.TrimSpace(v.r.URL.Query().Get("q"))
	if id, err := uuid.Parse(text); err == nil {
		return shown{}, movedError{"/console/jobs/" + id.String()}
	}
	if text == "" {
		return shown{}, movedError{"/console/jobs"}
	}
	name, value := "type", text
	if key, rest, ok := strings.Cut(text, ":"); ok && slices.Contains([]string{"queue", "type", "tag", "user", "state"}, key) {
		name, value = key, rest
	} else if key, rest, ok := strings.Cut(text, ":"); ok && key == "key" {
		name, value = "dedupe_key", rest
	} else if strings.Contains(text, "=") {
		name = "metadata"
	}
	return shown{}, movedError{"/console/jobs?" + url.Values{name: {strings.TrimSpace(value)}}.Encode()}
}
