package console

import (
	"net/url"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// bulkAction is an action on all jobs that match a filter, in words.
type bulkAction struct {
	Do, Label string
	// Past is what the jobs are afterwards.
	Past string
	// Help says what becomes of the jobs; Class is that of its button.
	Help, Class string
	// To is the input of what the jobs change to; without a name there is none.
	To forms.Field
}

const startedStay = "Running ones stay as they are, and are counted as refused."

var bulkActions = []bulkAction{
	{Do: api.BulkCancel, Label: "Cancel", Past: "cancelled", Class: "bad", Help: "Those that have not started end at once; running ones are asked to stop."},
	{
		Do: api.BulkSetPriority, Label: "Set priority", Past: "given the priority", Class: "main", Help: startedStay,
		To: forms.Field{Name: "to.priority", Label: "Priority", Help: "0 to 9, higher first"},
	},
	{Do: api.BulkRunNow, Label: "Run now", Past: "made ready to run", Class: "main", Help: "They wait for their time, or for a retry, no longer. " + startedStay},
	{
		Do: api.BulkDelay, Label: "Delay", Past: "delayed", Class: "main", Help: startedStay,
		To: forms.Field{Name: "to.delay", Label: "For at least, in seconds", Help: "From when each is changed"},
	},
	{
		Do: api.BulkMove, Label: "Move", Past: "moved", Class: "main", Help: startedStay + " So do those for which the queue has no room.",
		To: forms.Field{Name: "to.queue", Label: "To the queue", Text: true},
	},
	{Do: api.BulkRerun, Label: "Run again", Past: "run again", Class: "main", Help: "Each is submitted again, as a new job."},
	{Do: api.BulkDelete, Label: "Delete", Past: "deleted", Class: "bad", Help: "Each is deleted, with its payload, result, attempts and output. This cannot be undone."},
}

// bulkActionOf is the action of a name; of one that is not known, its name.
func bulkActionOf(name string) (bulkAction, bool) {
	at := slices.IndexFunc(bulkActions, func(a bulkAction) bool { return a.Do == name })
	if at < 0 {
		return bulkAction{Do: name, Label: name, Past: "changed"}, false
	}
	return bulkActions[at], true
}

// bulkActionsOf are the actions for jobs of these states, all if there are none: each is for live jobs, or for ended ones.
func bulkActionsOf(states []string) []bulkAction {
	return slices.DeleteFunc(slices.Clone(bulkActions), func(a bulkAction) bool {
		return slices.ContainsFunc(states, func(state string) bool { return ended(state) != api.BulkEnded(a.Do) })
	})
}

type confirmBulkPage struct {
	bulkAction
	api.Matched

	Back  string
	Query url.Values
}

// confirmBulk shows what an action would do, by the API's dry run.
func confirmBulk(v *visit.Visit) (visit.Page, error) {
	action, known := bulkActionOf(v.Request.URL.Query().Get("do"))
	if !known {
		return visit.Page{}, visit.ErrNoSuchAction
	}
	page := confirmBulkPage{bulkAction: action, Query: jobsQuery(v.Request.URL.Query())}
	page.Back = jobsPath(page.Query)
	request := api.BulkRequest{Action: action.Do, Filter: jobsFilter(page.Query)}
	switch action.Do { // the API asks for what the jobs change to also where it counts: the number is the same for all
	case api.BulkSetPriority:
		request.To = &api.BulkTarget{Priority: new(0)}
	case api.BulkDelay:
		request.To = &api.BulkTarget{DelayMS: new(int64(0))}
	case api.BulkMove:
		request.To = &api.BulkTarget{Queue: new("default")}
		page.To.Options = suggestions(v)["queue"]
	}
	var err error
	page.Matched, err = v.API.CountBulk(v.Context(), request)
	return visit.Page{Template: "bulk_confirm", Title: action.Label, Data: page}, err
}

func beginBulk(v *visit.Visit) (string, error) {
	action, known := bulkActionOf(v.Form.Get("do"))
	if !known {
		return "", visit.ErrNoSuchAction
	}
	form := forms.Reader{Values: v.Form}
	request := api.BulkRequest{Action: action.Do, Filter: jobsFilter(jobsQuery(v.Form)), RatePerSecond: form.Number("rate_per_second")}
	switch action.Do {
	case api.BulkSetPriority:
		request.To = &api.BulkTarget{Priority: form.Small(action.To.Name)}
	case api.BulkDelay:
		request.To = &api.BulkTarget{DelayMS: form.Seconds(action.To.Name)}
	case api.BulkMove:
		request.To = &api.BulkTarget{Queue: form.Word(action.To.Name)}
	}
	wrong := form.Wrong
	if len(wrong) == 0 {
		wrong = request.Validate()
	}
	if len(wrong) > 0 {
		return "", problem.Invalid(wrong...)
	}
	begun, err := v.API.Bulk(v.Context(), request)
	return "/console/bulk/" + begun.ID + "?note=redrive-started", err
}

// bulk is a bulk action with what is drawn of it.
type bulk struct {
	api.Bulk

	What    bulkAction
	Percent int64
	Query   url.Values
}

func newBulk(of api.Bulk) bulk {
	b := bulk{Bulk: of, Percent: percent(of.State, of.Done+of.Refused, of.Matched), Query: url.Values{}}
	b.What, _ = bulkActionOf(of.Action)
	if len(of.Filter.State) > 0 {
		b.Query["state"] = of.Filter.State
	}
	for name, text := range textsOf(&b.Filter) {
		if *text != nil {
			b.Query.Set(name, **text)
		}
	}
	for key, value := range of.Filter.Metadata {
		b.Query.Add("metadata", key+"="+value)
	}
	slices.Sort(b.Query["metadata"])
	return b
}

// JobsPath lists the jobs that match its filter now; "" for a filter that the list of jobs has no inputs for.
func (b bulk) JobsPath() string {
	if len(b.Query["metadata"]) > 1 || b.Filter.CreatedAfter != nil || b.Filter.CreatedBefore != nil {
		return ""
	}
	return jobsPath(b.Query)
}

func jobsPath(query url.Values) string {
	return (&url.URL{Path: "/console/jobs", RawQuery: query.Encode()}).String()
}

type bulkListPage struct {
	Items []bulk
	Older string
	Deep  bool
}

func listBulk(v *visit.Visit) (visit.Page, error) {
	all, err := v.API.Bulks(v.Context(), v.PageRequest(50))
	page := bulkListPage{Older: v.Older(all.NextPageToken), Deep: v.Deep()}
	for i := range all.Items {
		page.Items = append(page.Items, newBulk(all.Items[i]))
	}
	return visit.Page{Template: "bulk_list", Title: "Bulk actions", Data: page}, err
}

func showBulk(v *visit.Visit) (visit.Page, error) {
	one, err := v.API.GetBulk(v.Context(), v.Request.PathValue("id"))
	page := newBulk(one)
	return visit.Page{Template: "bulk", Title: page.What.Label, Data: page}, err
}

func cancelBulk(v *visit.Visit) (string, error) {
	id := v.Request.PathValue("id")
	_, err := v.API.CancelBulk(v.Context(), id)
	return "/console/bulk/" + url.PathEscape(id) + "?note=redrive-cancelled", err
}
