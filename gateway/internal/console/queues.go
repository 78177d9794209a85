package console

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// queueRow is a queue in a list.
type queueRow struct {
	Queue   api.Queue
	Path    string
	Trouble []string
}

type queuesPage struct {
	Items []queueRow
	Older string
}

// troubleOf says in words what is wrong with a queue; nothing for one that works.
func troubleOf(q *api.Queue) []string {
	var trouble []string
	if b := q.Breaker; b != nil && b.State != api.BreakerClosed {
		trouble = append(trouble, "The breaker of its destination is "+b.State)
	}
	waiting := q.Depth.Queued > 0
	if most := q.Settings.MaxRunning; waiting && most != nil && *most == 0 { // a worker would get none
		trouble = append(trouble, "Jobs wait: its cap on running jobs is 0")
	} else if len(q.Unserved) > 0 {
		trouble = append(trouble, unservedIn(q.Unserved))
	} else if waiting && q.ActiveWorkers == 0 && q.Mode == api.ModePull && !q.Paused && q.WindowUntil == nil {
		trouble = append(trouble, "Jobs wait, and no worker is active")
	}
	if q.Paused && waiting {
		trouble = append(trouble, "Jobs wait while it is paused")
	}
	if q.WindowUntil != nil && waiting {
		trouble = append(trouble, "Jobs wait until its window ends, at "+q.WindowUntil.UTC().Format("2006-01-02 15:04 UTC"))
	}
	switch n := q.StaleWorkers; {
	case n == 1:
		trouble = append(trouble, "A worker has jobs and sends no heartbeat")
	case n > 1:
		trouble = append(trouble, view.Number(int64(n))+" workers have jobs and send no heartbeat")
	}
	return trouble
}

// unservedIn names the first type that no worker takes.
func unservedIn(unserved []api.Unserved) string {
	text := "No worker takes the type " + unserved[0].Type
	if tags := unserved[0].Tags; len(tags) > 0 {
		text += " with " + strings.Join(tags, ", ")
	}
	if more := len(unserved) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

func rowsOf(queues []api.Queue) []queueRow {
	rows := make([]queueRow, len(queues))
	for i := range queues {
		rows[i] = queueRow{queues[i], "/console/queues/" + url.PathEscape(queues[i].Name), troubleOf(&queues[i])}
	}
	return rows
}

const (
	// queuesPerPage is how many queues a page lists.
	queuesPerPage = 50
	// depthBudget is how many jobs of a state are counted for a list of queues: "more than 500" of each of twenty queues
	// says enough, and a queue's own page counts further.
	depthBudget = 10_000
)

// someQueues reads a page of queues.
func someQueues(v *visit.Visit) (api.Page[api.Queue], error) {
	return v.API.QueuesWithin(v.Context(), depthBudget, v.PageRequest(queuesPerPage))
}

func listQueues(v *visit.Visit) (visit.Page, error) {
	page, err := someQueues(v)
	if err != nil {
		return visit.Page{}, err
	}
	return visit.Page{Template: "queues", Title: "Queues", Data: queuesPage{rowsOf(page.Items), v.Older(page.NextPageToken)}}, nil
}

// depth is one state's share of a queue.
type depth struct {
	State, Count, Path string
}

// share is a part of a bar of 1000.
type share struct {
	Name     string
	X, Width float64
}

type queuePage struct {
	Queue       api.Queue
	Path        string
	Trouble     []string
	Depths      []depth
	Bar         []share
	Fields      []forms.Field
	Drain, Wait string
	Charts      *charts.Charts
}

func showQueue(v *visit.Visit) (visit.Page, error) {
	name := v.Request.PathValue("name")
	q, err := v.API.Queue(v.Context(), name)
	if err != nil {
		return visit.Page{}, err
	}
	page := queuePage{Queue: q, Path: "/console/queues/" + url.PathEscape(name), Trouble: troubleOf(&q), Fields: settingFields(&q.Settings)}
	page.Depths, page.Bar = depths(&q)
	if q.DrainPerSecond != nil {
		page.Drain = view.Decimal(*q.DrainPerSecond)
	}
	if q.WaitMS != nil {
		page.Wait = view.Milliseconds(*q.WaitMS)
	}
	if !v.Live() {
		page.Charts = jobCharts(v, name)
	}
	return visit.Page{Template: "queue", Title: name, Data: page}, nil
}

func depths(q *api.Queue) ([]depth, []share) {
	of := []struct {
		state string
		n     int64
	}{
		{api.StateQueued, q.Depth.Queued},
		{api.StateRunning, q.Depth.Running},
		{api.StateScheduled, q.Depth.Scheduled},
		{api.StateWaiting, q.Depth.Waiting},
		{api.StateBlocked, q.Depth.Blocked},
		{api.StateDeadLetter, q.Depth.DeadLetter},
	}
	capped, total := map[string]bool{}, int64(0)
	for _, state := range q.DepthCapped {
		capped[state] = true
	}
	for _, one := range of {
		total += one.n
	}
	var all []depth
	var bar []share
	x := 0.0
	for _, one := range of {
		all = append(all, depth{one.state, view.Count(one.n, capped[one.state]), "/console/jobs?" + url.Values{"queue": {q.Name}, "state": {one.state}}.Encode()})
		if one.n > 0 {
			width := float64(one.n) / float64(total) * 1000
			bar = append(bar, share{one.state, x, width})
			x += width
		}
	}
	return all, bar
}

// settingFields are the settings that the form has. Times are in seconds there.
func settingFields(s *api.QueueSettings) []forms.Field {
	number := func(name, label string, value *float64, none string) forms.Field {
		f := forms.Field{Name: name, Label: label, Now: none}
		if value != nil {
			f.Value = view.Input(*value)
			f.Now = f.Value
		}
		return f
	}
	whole := func(name, label string, value *int64, none string) forms.Field {
		if value == nil {
			return number(name, label, nil, none)
		}
		return number(name, label, new(float64(*value)), none)
	}
	seconds := func(name, label string, ms int64) forms.Field {
		f := number(name, label, new(float64(ms)/1000), "")
		f.Now = view.Milliseconds(ms)
		return f
	}
	return []forms.Field{
		seconds("visibility_timeout", "Visibility timeout, seconds", s.VisibilityTimeoutMS),
		whole("max_attempts", "Maximum attempts", new(int64(s.MaxAttempts)), ""),
		seconds("retry_base", "First retry after, seconds", s.Retry.BaseMS),
		seconds("retry_cap", "Longest wait for a retry, seconds", s.Retry.CapMS),
		number("retry_jitter", "Jitter of a retry, 0 to 1", &s.Retry.Jitter, ""),
		{Name: "retry_curve", Label: "Backoff curve", Value: s.Retry.Curve, Now: s.Retry.Curve, Options: []string{api.CurveExponential, api.CurveLinear, api.CurveConstant}},
		whole("max_active", "Cap on active jobs", s.MaxActive, "no cap"),
		whole("max_running", "Cap on running jobs", s.MaxRunning, "no cap"),
		number("rate_per_second", "Start rate (per second)", s.RatePerSecond, "no rate"),
		{Name: "keys_fair", Label: "Keys take turns", Value: yesNo(s.Keys.Fair), Now: yesNo(s.Keys.Fair), Options: []string{yes, no}},
		whole("keys_max_running", "Cap on running jobs of a key", s.Keys.MaxRunning, "no cap"),
		number("keys_rate", "Start rate of a key (per second)", s.Keys.RatePerSecond, "no rate"),
		whole("keys_burst", "Starts of a key at once", s.Keys.Burst, "the rate"),
		{Name: "keys_order", Label: "Order of a key's jobs", Value: s.Keys.Order, Now: s.Keys.Order, Options: []string{api.KeyOrderNone, api.KeyOrderFIFO}},
		{Name: "keys_on_dead", Label: "A dead letter in that order", Value: s.Keys.OnDead, Now: s.Keys.OnDead, Options: []string{api.KeySkip, api.KeyHold}},
		costsField(s.Costs),
	}
}

// costsField has the costs of jobs that name none.
func costsField(costs api.Amounts) forms.Field {
	text := forms.AmountsText(costs)
	return forms.Field{Name: "costs", Label: "Costs, such as tokens=5, cents=1", Value: text, Now: cmp.Or(text, "none"), Text: true}
}

const yes, no = "yes", "no"

func yesNo(is bool) string {
	if is {
		return yes
	}
	return no
}

type queueKeysPage struct {
	Queue, Path string
	Items       []queueKeyRow
	// Waiting says that only keys with waiting jobs are listed.
	Waiting bool
	Older   string
}

type queueKeyRow struct {
	api.QueueKey
	Jobs string
}

// listQueueKeys shows the keys of a queue.
func listQueueKeys(v *visit.Visit) (visit.Page, error) {
	name := v.Request.PathValue("name")
	page := queueKeysPage{Queue: name, Path: "/console/queues/" + url.PathEscape(name), Waiting: v.Request.FormValue("waiting") != ""}
	least := 0
	if page.Waiting {
		least = 1
	}
	keys, err := v.API.QueueKeys(v.Context(), name, least, v.PageRequest(queuesPerPage))
	if err != nil {
		return visit.Page{}, err
	}
	for _, key := range keys.Items {
		page.Items = append(page.Items, queueKeyRow{key, "/console/jobs?" + url.Values{"queue": {name}, "key": {key.Key}}.Encode()})
	}
	page.Older = v.Older(keys.NextPageToken)
	return visit.Page{Template: "queue_keys", Title: "Keys of " + name, Data: page}, nil
}

func changeQueue(v *visit.Visit) (string, error) {
	name := v.Request.PathValue("name")
	here := "/console/queues/" + url.PathEscape(name)
	switch v.Request.PostFormValue("do") {
	case "pause":
		_, err := v.API.PauseQueue(v.Context(), name)
		return here + "?note=queue-paused", err
	case "resume":
		_, err := v.API.ResumeQueue(v.Context(), name)
		return here + "?note=queue-resumed", err
	case "probe":
		_, err := v.API.ProbeQueue(v.Context(), name)
		return here + "?note=queue-probed", err
	case "delete":
		return "/console/queues?note=queue-deleted", v.API.DeleteQueue(v.Context(), name)
	case "settings":
		return here + "?note=queue-saved", saveQueue(v, name)
	}
	return "", visit.ErrNoSuchAction
}

// saveQueue sets what the form has, and leaves the other settings as they are: a PUT without them would reset them.
func saveQueue(v *visit.Visit, name string) error {
	q, err := v.API.Queue(v.Context(), name)
	if err != nil {
		return err
	}
	form := forms.Reader{Values: v.Form}
	request := q.Settings.Request()
	request.VisibilityTimeoutMS, request.MaxAttempts = form.Seconds("visibility_timeout"), form.Small("max_attempts")
	request.Retry = &api.RetryRequest{
		BaseMS: form.Seconds("retry_base"), CapMS: form.Seconds("retry_cap"), Jitter: form.Number("retry_jitter"), Curve: form.Word("retry_curve"),
	}
	request.MaxActive, request.MaxRunning, request.RatePerSecond = form.Whole("max_active"), form.Whole("max_running"), form.Number("rate_per_second")
	request.Keys = &api.KeySettingsRequest{MaxRunning: form.Whole("keys_max_running"), RatePerSecond: form.Number("keys_rate"), Burst: form.Whole("keys_burst"), Order: form.Word("keys_order"), OnDead: form.Word("keys_on_dead")}
	if fair := form.Word("keys_fair"); fair != nil {
		request.Keys.Fair = new(*fair == yes)
	}
	if v.Form.Has("costs") { // a page of an older console has no such field
		request.Costs = form.Amounts("costs")
	}
	if len(form.Wrong) > 0 {
		return problem.Invalid(form.Wrong...)
	}
	_, err = v.API.PutQueue(v.Context(), name, request)
	return err
}
