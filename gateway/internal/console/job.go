package console

import (
	"cmp"
	"encoding/json"
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

type jobPage struct {
	Job      api.Job
	Live     bool
	Actions  []button
	Deletion *button
	// Change: it may be changed.
	Change bool
	// Again is the payload to run the job again with; nil where it may not be.
	Again *forms.Field
	// Awaited are the signals that the page has a form for.
	Awaited      []string
	Why          *api.Explanation
	Ahead        *api.Ahead
	Died         string
	Timeline     *view.Timeline
	TimelineText string
	Attempts     []api.Attempt
	MoreAttempts bool
	// LastAbove is the place of the attempt whose error is shown by itself, -1 for none.
	LastAbove int
	// Output is nil for a job without any.
	Output  *output
	Payload document
	Result  document
}

// button is an action that the job's state and the key allow.
type button struct {
	Name, Label, Class, Help string
}

// document is JSON to look into.
type document struct {
	Label  string
	Tree   *view.Node
	Text   string
	None   bool
	Absent string
}

func showJob(v *visit.Visit) (visit.Page, error) {
	v.Transport.Shared = nil // the job's events say when to read it: what was read before is too old
	why, err := v.API.ExplainDetails(v.Context(), v.Request.PathValue("id"))
	if err != nil {
		return visit.Page{}, err
	}
	job, attempts := *why.Job, why.Attempts
	page := jobPage{
		Job: job, Live: !ended(job.State), Actions: jobActions(v, &job), Deletion: deletion(v, &job), Attempts: attempts,
		Change:       changeable(&job) && v.May(api.ScopeSubmit),
		Again:        again(v, &job),
		Awaited:      awaited(v, &job),
		MoreAttempts: len(attempts) == api.MaxPageSize && attempts[len(attempts)-1].Epoch < job.Epoch,
		Payload:      newDocument("Payload", job.Payload, "The job has no payload."),
		Result:       newDocument("Result", job.Result, resultAbsent(job.State)),
	}
	if page.Output, err = outputOf(v, &job); err != nil {
		return visit.Page{}, err
	}
	page.Timeline = view.NewTimeline(&view.History{Job: &job.JobSummary, Attempts: attempts, More: page.MoreAttempts, Redrives: redrivesOf(v, &job)}, v.Site.Now())
	page.LastAbove = lastAbove(&page)
	page.TimelineText = "In all " + page.Timeline.Took() + "; the list below says the same"
	if job.DeadReason != nil {
		page.Died = diedOf(*job.DeadReason)
	}
	if page.Live && len(why.Because) > 0 {
		page.Why = &why
		page.Ahead = aheadOf(&why)
	}
	return visit.Page{Template: "job", Title: job.Type + " " + job.State, Data: page}, nil
}

// again is the payload that a job that has ended may be run again with.
func again(v *visit.Visit, job *api.Job) *forms.Field {
	if !ended(job.State) || !v.May(api.ScopeSubmit) {
		return nil
	}
	return &forms.Field{Name: "payload", Label: "Payload (JSON)", Rows: 10, Value: cmp.Or(forms.JSONText(job.Payload), "null")}
}

// lastAbove is the last attempt, if its error is the job's last one.
func lastAbove(page *jobPage) int {
	last, shown := len(page.Attempts)-1, page.Job.LastError
	if last < 0 || page.MoreAttempts || shown == nil || page.Job.State == api.StateCompleted {
		return -1
	}
	if its := page.Attempts[last].Error; its == nil || its.Message != shown.Message {
		return -1
	}
	return last
}

// aheadOf are the jobs ahead, where there are any that no reason has named.
func aheadOf(why *api.Explanation) *api.Ahead {
	if why.Ahead == nil || why.Ahead.Count == 0 || why.Because[0].Code == api.WhyInLine {
		return nil
	}
	return why.Ahead
}

func ended(state string) bool {
	return state == api.StateCompleted || state == api.StateCancelled || state == api.StateDeadLetter
}

func diedOf(reason string) string {
	said := map[string]string{
		api.ReasonExhausted:  "Every attempt failed.",
		api.ReasonPermanent:  "The worker said that another attempt would fail too.",
		api.ReasonWorkerLost: "The worker of the last attempt was lost: its lease ended without an outcome.",
		api.ReasonDeadline:   "Its deadline passed before it could start.",
	}[reason]
	if said == "" {
		return view.Label(reason)
	}
	return said
}

func resultAbsent(state string) string {
	if state == api.StateCompleted {
		return "It completed without a result."
	}
	return "There is no result" + map[bool]string{true: ".", false: " yet."}[ended(state)]
}

func newDocument(label string, text json.RawMessage, absent string) document {
	if len(text) == 0 || string(text) == "null" {
		return document{Label: label, None: true, Absent: absent}
	}
	d := document{Label: label, Text: view.Indented(text)}
	if tree, whole := view.Tree(text); whole {
		d.Tree = tree
	}
	return d
}

// jobActions are what the job's state allows, and the key. The API decides again.
func jobActions(v *visit.Visit, job *api.Job) []button {
	var all []button
	add := func(scope string, possible bool, b button) {
		if possible && v.May(scope) {
			all = append(all, b)
		}
	}
	dead := job.State == api.StateDeadLetter
	add(api.ScopeManage, dead, button{"redrive", "Redrive", "main", "Queue it again, with a new set of attempts"})
	add(api.ScopeSubmit, ended(job.State), button{"rerun", "Run again", "", "Submit a new job like this one"})
	add(api.ScopeSubmit, !ended(job.State) && !job.CancelRequested, button{"cancel", "Cancel", "bad", "It starts no more; if it runs, its worker is asked to stop"})
	return all
}

// deletion is what cannot be undone, and so is not beside the other actions; nil where there is none.
func deletion(v *visit.Visit, job *api.Job) *button {
	switch {
	case !v.May(api.ScopeManage) || !ended(job.State):
		return nil
	case job.State == api.StateDeadLetter:
		return &button{"discard", "Discard", "bad", "Delete the dead letter, with its payload and error"}
	default:
		return &button{"forget", "Delete", "bad", "Forget the job, with its payload and result"}
	}
}

func changeJob(v *visit.Visit) (string, error) {
	id := v.Request.PathValue("id")
	here := "/console/jobs/" + url.PathEscape(id)
	switch v.Request.PostFormValue("do") {
	case "cancel":
		job, err := v.API.Cancel(v.Context(), id)
		if job.State == api.StateRunning {
			return here + "?note=job-cancelling", err
		}
		return here + "?note=job-cancelled", err
	case "redrive":
		_, err := v.API.Redrive(v.Context(), id)
		return here + "?note=job-redriven", err
	case "rerun":
		return rerun(v, id, nil)
	case "rerun-changed":
		text := v.Request.PostFormValue("payload")
		if !json.Valid([]byte(text)) {
			return "", problem.New(problem.InvalidRequest, "The payload is not JSON. A text needs its quotes: \"text\".")
		}
		return rerun(v, id, json.RawMessage(text))
	case "signal":
		return sendSignal(v, id)
	case "forget":
		return "/console/jobs?note=job-forgotten", v.API.DeleteJob(v.Context(), id)
	case "discard":
		return "/console/dead-letters?note=job-discarded", discard(v, id)
	}
	return "", visit.ErrNoSuchAction
}

// rerun submits a job like an ended one, with another payload if it is not nil.
func rerun(v *visit.Visit, id string, payload json.RawMessage) (string, error) {
	request := api.RerunRequest{SubmitRequest: api.SubmitRequest{Payload: payload}}
	job, err := v.API.Rerun(v.Context(), id, request, onceKey(v))
	return "/console/jobs/" + job.ID + "?note=job-rerun", err
}

// onceKey is the key of a form that may be sent twice, by a double click: it submits one job.
func onceKey(v *visit.Visit) client.CallOption { return client.WithIdempotencyKey(v.Form.Get("once")) }

// discard discards a dead letter.
func discard(v *visit.Visit, id string) error {
	answer, err := v.API.DiscardDeadLetters(v.Context(), []string{id})
	if err != nil {
		return err
	}
	for _, one := range answer.Results {
		if one.Problem != nil {
			return one.Problem
		}
	}
	return nil
}
