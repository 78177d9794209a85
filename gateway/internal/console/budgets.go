package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// usageDays is how many days of usage a budget's page shows, with today.
const usageDays = 30

// budgetView is a budget with what is said of it.
type budgetView struct {
	api.Budget

	Path string
	// Words are its amount and time, such as "400 000 tokens a minute"; Frees is when what was used may be used again.
	Words, Frees string
	// Holds is the most that it ever has available; Use is what is reserved and used of that, nil where no subject is named.
	Holds int64
	Use   *view.Gauge
	// WaitingCapped says that more jobs wait than were counted.
	WaitingCapped bool
}

func newBudgetView(of api.Budget) budgetView {
	b := budgetView{
		Budget: of, Path: budgetPath(of.Name), Words: budgetWords(&of), Holds: of.Amount, WaitingCapped: of.Waiting >= api.MaxDepthCount,
	}
	if of.Burst != nil {
		b.Holds = *of.Burst
	}
	if of.Available != nil {
		b.Use = new(view.NewGauge("Used or reserved", b.Holds-*of.Available, b.Holds))
	}
	switch {
	case of.Window != nil:
		b.Frees = "at the end of the " + *of.Window + ", " + of.Timezone
	case of.PerMS != nil:
		b.Frees = view.Milliseconds(*of.PerMS) + " after the start of its attempt"
	}
	return b
}

func budgetPath(name string) string { return "/console/budgets/" + url.PathEscape(name) }

// budgetWords are a budget's amount and time: "5 000 cents a day (Europe/Berlin), by user".
func budgetWords(b *api.Budget) string {
	words := view.Number(b.Amount) + " " + b.Unit + " " + budgetTime(b)
	if b.Burst != nil {
		words += ", " + view.Number(*b.Burst) + " at once"
	}
	if b.By != nil {
		words += ", by " + *b.By
	}
	return words
}

func budgetTime(b *api.Budget) string {
	switch {
	case b.Window != nil && *b.Window == api.BudgetHour:
		return "an hour (" + b.Timezone + ")"
	case b.Window != nil:
		return "a " + *b.Window + " (" + b.Timezone + ")"
	case b.PerMS == nil:
		return ""
	}
	switch per := time.Duration(*b.PerMS) * time.Millisecond; per {
	case time.Second:
		return "a second"
	case time.Minute:
		return "a minute"
	case time.Hour:
		return "an hour"
	default:
		return "in " + view.Duration(per)
	}
}

type budgetsPage struct {
	Items []budgetView
	Older string
	// New are the inputs of a budget that is not there yet.
	New []forms.Field
}

func listBudgets(v *visit.Visit) (visit.Page, error) {
	budgets, err := v.API.Budgets(v.Context(), v.PageRequest(api.MaxBudgets))
	if err != nil {
		return visit.Page{}, err
	}
	page := budgetsPage{Older: v.Older(budgets.NextPageToken), New: newBudgetFields()}
	for _, one := range budgets.Items {
		page.Items = append(page.Items, newBudgetView(one))
	}
	return visit.Page{Template: "budgets", Title: "Budgets", Data: page}, nil
}

type budgetPage struct {
	Budget budgetView
	// Subject is the user or key whose amount is shown, of a budget that is by one; empty for none.
	Subject string
	Fields  []forms.Field
	// Usage has the newest day first.
	Usage []api.BudgetUsage
	Days  int64
}

// showBudget needs two requests: the budget, and its usage, which a page that updates itself does not show again.
func showBudget(v *visit.Visit) (visit.Page, error) {
	name, subject := v.Request.PathValue("name"), v.Request.URL.Query().Get("subject")
	one, err := v.API.Budget(v.Context(), name, subject)
	if err != nil {
		return visit.Page{}, err
	}
	if one.By == nil && subject != "" { // the tenant's one amount was not asked for
		return visit.Page{}, visit.RedirectError{To: budgetPath(name)}
	}
	page := budgetPage{Budget: newBudgetView(one), Subject: subject, Fields: budgetFields(&one), Days: usageDays}
	if !v.Live() {
		today := v.Site.Now().UTC()
		usage, err := v.API.BudgetUsage(v.Context(), name, today.AddDate(0, 0, 1-usageDays).Format(time.DateOnly), today.Format(time.DateOnly))
		if err != nil {
			return visit.Page{}, err
		}
		page.Usage = usage.Days
		slices.Reverse(page.Usage)
	}
	return visit.Page{Template: "budget", Title: name, Data: page}, nil
}

// What the form's lists have besides the API's words.
const (
	noWindow = "none"
	byTenant = "the tenant"
	byEach   = "each " // user, key
)

// budgetFields are the settings that the form has: those of a budget that is there. Its time is in seconds.
func budgetFields(b *api.Budget) []forms.Field {
	whole := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	window, zone, per := noWindow, "", ""
	if b.Window != nil {
		window, zone = *b.Window, b.Timezone
	}
	if b.PerMS != nil {
		per = view.Input(float64(*b.PerMS) / 1000)
	}
	amount := ""
	if b.Amount > 0 {
		amount = whole(&b.Amount)
	}
	return []forms.Field{
		{Name: "amount", Label: "Amount", Value: amount, Help: "How much may be used in the time."},
		{Name: "unit", Label: "Unit", Value: b.Unit, Text: true, Help: "What it counts, such as tokens or cents."},
		{Name: "per", Label: "Time, seconds", Value: per, Help: "What an attempt uses is free again so long after its start. Empty with a window of the calendar."},
		{Name: "window", Label: "Window of the calendar", Value: window, Options: []string{noWindow, api.BudgetHour, api.BudgetDay, api.BudgetMonth}, Help: "Instead of a time in seconds: the whole amount is free again when the next window begins."},
		{Name: "timezone", Label: "Time zone of the window", Value: zone, Text: true, Help: "Such as Europe/Berlin. Empty: UTC."},
		{Name: "burst", Label: "Amount at once", Value: whole(b.Burst), Help: "Only with a time in seconds: at most so much is used at once. Empty: the amount."},
	}
}

// newBudgetFields are those of a budget that is not there yet: by whom it counts cannot be changed later.
func newBudgetFields() []forms.Field {
	name := forms.Field{Name: "name", Label: "Name", Text: true, Help: "Jobs name it in their costs, such as tokens."}
	by := forms.Field{
		Name: "by", Label: "An amount for", Value: byTenant, Options: []string{byTenant, byEach + api.BudgetByUser, byEach + api.BudgetByKey},
		Help: "Whether all jobs share the amount, or those of each user or key have their own. It cannot be changed.",
	}
	return append(append([]forms.Field{name}, budgetFields(&api.Budget{})...), by)
}

// makeBudget creates a budget by a form that names it. One that is there is not replaced by a slip.
func makeBudget(v *visit.Visit) (string, error) {
	name := strings.TrimSpace(v.Request.PostFormValue("name"))
	if name == "" {
		return "", problem.Invalid(problem.FieldError{Field: "name", Message: "must be given"})
	}
	_, err := v.API.Budget(v.Context(), name, "")
	if err == nil {
		return "", problem.Invalid(problem.FieldError{Field: "name", Message: "a budget has this name: change that one, or choose another name"})
	}
	if !visit.Gone(err) {
		return "", err
	}
	var by *string
	if word, found := strings.CutPrefix(v.Request.PostFormValue("by"), byEach); found {
		by = &word
	}
	return budgetPath(name) + "?note=budget-created", putBudget(v, name, api.BudgetRequest{By: by})
}

func changeBudget(v *visit.Visit) (string, error) {
	name := v.Request.PathValue("name")
	switch v.Request.PostFormValue("do") {
	case "delete":
		return "/console/budgets?note=budget-deleted", v.API.DeleteBudget(v.Context(), name)
	case "settings":
		one, err := v.API.Budget(v.Context(), name, "")
		if err != nil {
			return "", err
		}
		return budgetPath(name) + "?note=budget-saved", putBudget(v, name, api.BudgetRequest{By: one.By, Label: one.Label})
	}
	return "", visit.ErrNoSuchAction
}

// putBudget sets what the form has, and the rest as it is in the request.
func putBudget(v *visit.Visit, name string, request api.BudgetRequest) error {
	form := forms.Reader{Values: v.Form}
	request.PerMS, request.Window, request.Burst = form.Seconds("per"), form.Word("window"), form.Whole("burst")
	request.Unit, request.Timezone = *cmp.Or(form.Word("unit"), new("")), *cmp.Or(form.Word("timezone"), new(""))
	request.Amount = *cmp.Or(form.Whole("amount"), new(int64(0)))
	if request.Window != nil && *request.Window == noWindow {
		request.Window = nil
	}
	if len(form.Wrong) > 0 {
		return problem.Invalid(form.Wrong...)
	}
	_, err := v.API.PutBudget(v.Context(), name, request)
	return err
}
