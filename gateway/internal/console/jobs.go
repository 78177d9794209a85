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
	// Query is the filter; Bulk are the actions on all jobs that match it, none where its states are of live and of ended jobs.
	Query url.Values
	Bulk  []bulkAction
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
	query := jobsQuery(v.Request.URL.Query())
	page := jobsPage{Deep: v.Deep(), Filtered: len(query) > 0, Query: query}
	for _, state := range jobStates {
		page.States = append(page.States, stateChoice{state, slices.Contains(query["state"], state)})
	}
	suggested := suggestions(v)
	for _, f := range jobFilters {
		f.Options = suggested[f.Name]
		f.Value = query.Get(f.Name)
		page.Fields = append(page.Fields, f)
		page.Typed = page.Typed || f.Value != ""
	}
	filter := jobsFilter(query)
	jobs, err := v.API.List(v.Context(), filter.Filter(), v.PageRequest(jobsPerPage))
	if err != nil {
		return visit.Page{}, err
	}
	page.Items, page.Older = jobs.Items, v.Older(jobs.NextPageToken)
	page.Bulk = bulkActionsOf(query["state"])
	return visit.Page{Template: "jobs", Title: "Jobs", Data: page}, nil
}

// jobsQuery is the part of a page's URL, or of a form, that narrows jobs.
func jobsQuery(given url.Values) url.Values {
	query := url.Values{}
	if states := given["state"]; len(states) > 0 {
		query["state"] = states
	}
	for _, f := range jobFilters {
		if value := strings.TrimSpace(given.Get(f.Name)); value != "" {
			query.Set(f.Name, value)
		}
	}
	return query
}

// jobsFilter is the filter that a query says.
func jobsFilter(query url.Values) api.BulkFilter {
	filter := api.BulkFilter{State: query["state"]}
	for name, member := range textsOf(&filter) {
		if value := query.Get(name); value != "" {
			*member = &value
		}
	}
	if pair := query.Get("metadata"); pair != "" {
		key, value, _ := strings.Cut(pair, "=")
		filter.Metadata = map[string]string{key: value}
	}
	return filter
}

// textsOf are the members of a filter that are a text, by the names of jobFilters.
func textsOf(filter *api.BulkFilter) map[string]**string {
	return map[string]**string{
		"queue": &filter.Queue, "type": &filter.Type, "tag": &filter.Tag, "user": &filter.User, "dedupe_key": &filter.DedupeKey, "key": &filter.Key,
	}
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
