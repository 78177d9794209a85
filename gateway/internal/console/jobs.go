package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
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
	api.StateQueued, api.StateRunning, api.StateScheduled, api.StateWaiting, api.StateBlocked, api.StateCompleted, api.StateDeadLetter, api.StateCancelled,
}

// jobFilters are the parameters of a list of jobs that have an input.
var jobFilters = []forms.Field{
	{Name: "queue", Label: "Queue"},
	{Name: "type", Label: "Type"},
	{Name: "tag", Label: "Tag"},
	{Name: "user", Label: "User"},
	{Name: "dedupe_key", Label: "Dedupe key"},
	{Name: "key", Label: "Key"},
	{Name: "metadata", Label: "Metadata", Now: "key=value"},
}

func listJobs(v *visit.Visit) (visit.Page, error) {
	given, filter := v.Request.URL.Query(), api.JobFilter{Metadata: map[string]string{}}
	page := jobsPage{Deep: v.Deep()}
	chosen := given["state"]
	for _, state := range jobStates {
		page.States = append(page.States, stateChoice{state, slices.Contains(chosen, state)})
	}
	if len(chosen) > 0 {
		filter.States, page.Filtered = chosen, true
	}
	suggested := suggestions(v)
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
	jobs, err := v.API.List(v.Context(), filter, v.PageRequest(jobsPerPage))
	if err != nil {
		return visit.Page{}, err
	}
	page.Items, page.Older = jobs.Items, v.Older(jobs.NextPageToken)
	return visit.Page{Template: "jobs", Title: "Jobs", Data: page}, nil
}

// inputOf is the part of a filter that one of jobFilters sets.
func inputOf(filter *api.JobFilter, name string) *string {
	return map[string]*string{
		"queue": &filter.Queue, "type": &filter.Type, "tag": &filter.Tag, "user": &filter.User, "dedupe_key": &filter.DedupeKey, "key": &filter.Key,
	}[name]
}

// suggestions are names for the filters, the first ones of each, by the filter. A list without them is better than none;
// one that updates itself keeps those that it has.
func suggestions(v *visit.Visit) map[string][]string {
	if v.Live() {
		return nil
	}
	first := client.PageRequest{Size: api.MaxPageSize}
	suggested := map[string][]string{}
	if types, err := v.API.Types(v.Context(), first); err == nil {
		for i := range types.Items {
			suggested["type"] = append(suggested["type"], types.Items[i].Type)
		}
	}
	if v.Who.User != nil { // who sees no queues
		return suggested
	}
	if queues, err := v.API.QueuesWithin(v.Context(), 1, first); err == nil { // only the names are shown
		for i := range queues.Items {
			suggested["queue"] = append(suggested["queue"], queues.Items[i].Name)
		}
	}
	return suggested
}

// search reads what a person typed: an id, key=value of metadata, a filter such as queue:mails, or a type.
func search(v *visit.Visit) (visit.Page, error) {
	text := strings.TrimSpace(v.Request.URL.Query().Get("q"))
	if id, err := uuid.Parse(text); err == nil {
		return visit.Page{}, visit.RedirectError{To: "/console/jobs/" + id.String()}
	}
	if text == "" {
		return visit.Page{}, visit.RedirectError{To: "/console/jobs"}
	}
	name, value := "type", text
	if key, rest, ok := strings.Cut(text, ":"); ok && slices.Contains([]string{"queue", "type", "tag", "user", "state", "key"}, key) {
		name, value = key, rest
	} else if key, rest, ok := strings.Cut(text, ":"); ok && key == "dedupe" {
		name, value = "dedupe_key", rest
	} else if strings.Contains(text, "=") {
		name = "metadata"
	}
	return visit.Page{}, visit.RedirectError{To: "/console/jobs?" + url.Values{name: {strings.TrimSpace(value)}}.Encode()}
}
