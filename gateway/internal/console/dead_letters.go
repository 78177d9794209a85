package console

import (
	"net/url"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// deadFilters are the parameters that narrow dead letters.
var deadFilters = []string{"queue", "type", "reason", "fingerprint"}

// deadQuery is the part of a page's URL that narrows dead letters.
func deadQuery(v *visit.Visit) url.Values {
	given, query := v.Request.URL.Query(), url.Values{}
	for _, name := range deadFilters {
		if value := given.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	return query
}

type deadLettersPage struct {
	Groups   []deadGroup
	Read     int64
	Capped   bool
	Total    int64
	Redrives []redrive
	Filter   string
}

// deadGroup is a group, and where its letters are.
type deadGroup struct {
	api.DeadLetterGroup

	Path string
}

// redrive is a redrive or discard with what is drawn of it.
type redrive struct {
	api.Redrive

	Percent int64
	// MustComplete is the part of the sample that must complete, in percent; 0 without a canary.
	MustComplete float64
}

// JobsPath lists the jobs of its queue and type; "" for a redrive of all.
func (r redrive) JobsPath() string {
	query := filterQuery(api.DeadLetterFilter{Queue: r.Filter.Queue, Type: r.Filter.Type})
	if len(query) == 0 {
		return ""
	}
	return "/console/jobs?" + query.Encode()
}

// LettersPath lists the dead letters of its filter that are left.
func (r redrive) LettersPath() string {
	return "/console/dead-letters/group?" + filterQuery(r.Filter).Encode()
}

// filterQuery is deadFilter the other way round.
func filterQuery(filter api.DeadLetterFilter) url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"queue": filter.Queue, "type": filter.Type, "reason": filter.Reason, "fingerprint": filter.Fingerprint} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

func showDeadLetters(v *visit.Visit) (visit.Page, error) {
	filter := deadQuery(v)
	groups, err := v.API.DeadLetterGroups(v.Context(), deadFilter(filter), 50)
	if err != nil {
		return visit.Page{}, err
	}
	page := deadLettersPage{Read: groups.Read, Capped: groups.ReadCapped, Total: groups.Groups, Filter: filter.Encode()}
	for _, one := range groups.Items {
		path := "/console/dead-letters/group?" + url.Values{"fingerprint": {one.Fingerprint}, "queue": {one.Queue}}.Encode()
		page.Groups = append(page.Groups, deadGroup{one, path})
	}
	redrives, err := v.API.Redrives(v.Context(), client.PageRequest{Size: 5})
	if err != nil {
		return visit.Page{}, err
	}
	for _, one := range redrives.Items {
		page.Redrives = append(page.Redrives, newRedrive(one))
	}
	return visit.Page{Template: "dead_letters", Title: "Dead letters", Data: page}, nil
}

func newRedrive(of api.Redrive) redrive {
	r := redrive{Redrive: of, Percent: percent(of.State, of.Done+of.Refused, of.Matched)}
	if of.Canary != nil {
		r.MustComplete = of.Canary.Success * 100
	}
	return r
}

// percent is how far a redrive or a bulk action is.
func percent(state string, processed, matched int64) int64 {
	switch {
	case state == api.RedriveDone:
		return 100
	case matched > 0:
		return min(processed*100/matched, 100)
	}
	return 0
}

type deadGroupPage struct {
	Letters []api.DeadLetter
	Older   string
	Filter  url.Values
	First   *api.DeadLetter
	Confirm string
	// Group has the count, the first and the last time; nil where the page is of several groups.
	Group *api.DeadLetterGroup
}

func showDeadGroup(v *visit.Visit) (visit.Page, error) {
	filter := deadQuery(v)
	letters, err := v.API.DeadLetters(v.Context(), deadFilter(filter), v.PageRequest(50))
	if err != nil {
		return visit.Page{}, err
	}
	page := deadGroupPage{Letters: letters.Items, Older: v.Older(letters.NextPageToken), Filter: filter, Confirm: "/console/dead-letters/confirm?" + filter.Encode()}
	if len(letters.Items) > 0 {
		page.First = &letters.Items[0]
	}
	groups, err := v.API.DeadLetterGroups(v.Context(), deadFilter(filter), 2)
	if err != nil {
		return visit.Page{}, err
	}
	if len(groups.Items) == 1 {
		page.Group = &groups.Items[0]
	}
	return visit.Page{Template: "dead_group", Title: "Dead letters", Data: page}, nil
}

type confirmPage struct {
	Do, Back string
	Filter   url.Values
	api.Matched
}

// confirmDeadLetters shows what a redrive or discard would do, by the API's dry run.
func confirmDeadLetters(v *visit.Visit) (visit.Page, error) {
	do, filter := v.Request.URL.Query().Get("do"), deadQuery(v)
	page := confirmPage{Do: do, Filter: filter, Back: "/console/dead-letters/group?" + filter.Encode()}
	if do != api.ActionRedrive && do != api.ActionDiscard {
		return visit.Page{}, visit.ErrNoSuchAction
	}
	var err error
	if page.Matched, err = v.API.CountMatching(v.Context(), deadFilter(filter)); err != nil {
		return visit.Page{}, err
	}
	return visit.Page{Template: "confirm", Title: "Dead letters", Data: page}, nil
}

func deadFilter(values url.Values) api.DeadLetterFilter {
	return api.DeadLetterFilter{
		Queue: values.Get("queue"), Type: values.Get("type"), Reason: values.Get("reason"), Fingerprint: values.Get("fingerprint"),
	}
}

func changeDeadLetters(v *visit.Visit) (string, error) {
	do := v.Request.PostFormValue("do")
	if do != api.ActionRedrive && do != api.ActionDiscard {
		return "", visit.ErrNoSuchAction
	}
	form := forms.Reader{Values: v.Form}
	request := api.DeadLetterRequest{Filter: deadFilter(v.Form).Body(), RatePerSecond: form.Number("rate_per_second"), Canary: form.Canary()}
	wrong := slices.Concat(form.Wrong, request.Validate())
	if do == api.ActionDiscard {
		wrong = append(wrong, request.RefuseCanary()...)
	}
	if len(wrong) > 0 {
		return "", problem.Invalid(wrong...)
	}
	begun, err := beginRedrive(v, do, deadFilter(v.Form), request)
	return "/console/redrives/" + begun.ID + "?note=redrive-started", err
}

// beginRedrive begins a redrive or a discard.
func beginRedrive(v *visit.Visit, do string, filter api.DeadLetterFilter, request api.DeadLetterRequest) (api.Redrive, error) {
	rate := 0.0
	if request.RatePerSecond != nil {
		rate = *request.RatePerSecond
	}
	switch {
	case do == api.ActionDiscard:
		return v.API.DiscardMatching(v.Context(), filter, rate)
	case request.Canary != nil:
		return v.API.RedriveWithCanary(v.Context(), filter, rate, *request.Canary)
	}
	return v.API.RedriveMatching(v.Context(), filter, rate)
}

func showRedrive(v *visit.Visit) (visit.Page, error) {
	one, err := v.API.GetRedrive(v.Context(), v.Request.PathValue("id"))
	if err != nil {
		return visit.Page{}, err
	}
	title := "Redrive"
	if one.Action == api.ActionDiscard {
		title = "Discard"
	}
	return visit.Page{Template: "redrive", Title: title, Data: newRedrive(one)}, nil
}

func cancelRedrive(v *visit.Visit) (string, error) {
	id := v.Request.PathValue("id")
	_, err := v.API.CancelRedrive(v.Context(), id)
	return "/console/redrives/" + url.PathEscape(id) + "?note=redrive-cancelled", err
}
