package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// changePage is the form that changes a job that waits.
type changePage struct {
	Job api.Job
	// ETag is of the version that the form shows.
	ETag   string
	Fields []forms.Field
	// Alert says why nothing was saved; empty for a new form.
	Alert        string
	RetryAfterMS *int64
	// Started: the job cannot be changed any more.
	Started bool
}

// changeable says whether a job is one that waits, of the tenant's own.
func changeable(job *api.Job) bool {
	return job.State != api.StateRunning && !ended(job.State) && !api.SystemQueue(job.Queue)
}

func jobPath(id string) string { return "/console/jobs/" + url.PathEscape(id) }

// jobToChange reads a job, with its ETag, for a key that may change it. The API refuses others, too, but only the change itself.
func jobToChange(v *visit.Visit) (job api.Job, etag string, err error) {
	if !v.May(api.ScopeSubmit) {
		return job, "", problem.New(problem.Forbidden, "The key lacks the scope submit.")
	}
	return v.API.GetWithETag(v.Context(), v.Request.PathValue("id"))
}

func showChange(v *visit.Visit) (visit.Page, error) {
	job, etag, err := jobToChange(v)
	if err != nil {
		return visit.Page{}, err
	}
	if !changeable(&job) {
		return visit.Page{}, visit.RedirectError{To: jobPath(job.ID) + "?note=job-not-changeable"}
	}
	return (&changePage{Job: job, ETag: etag, Fields: forms.JobInputs(&job)}).as(http.StatusOK), nil
}

// saveChange changes the version of a job that the form has shown. Where that cannot be, the form comes again with what was typed.
func saveChange(v *visit.Visit) (visit.Page, error) {
	job, etag, err := jobToChange(v)
	if err != nil {
		return visit.Page{}, err
	}
	form := forms.Reader{Values: withLines(v.Form)}
	refused, err := patchAsTyped(v, &form, &job, etag)
	if err != nil {
		return visit.Page{}, err
	}
	if refused.Code == problem.JobStarted || refused.Code == problem.PreconditionFailed { // after it was read, too
		if job, etag, err = jobToChange(v); err != nil {
			return visit.Page{}, err
		}
	}
	page := changePage{
		Job: job, ETag: etag, Fields: forms.JobInputs(&job), RetryAfterMS: refused.RetryAfterMS, Started: refused.Code == problem.JobStarted,
	}
	marked := false
	for i := range page.Fields {
		one := &page.Fields[i]
		form.Entered(one)
		one.Wrong = wrongOf(one.Name, refused.Errors)
		marked = marked || one.Wrong != ""
	}
	page.Alert = alertOf(refused, &job, marked)
	return page.as(refused.Status), nil
}

// patchAsTyped sends what differs. refused is what the form can say; a change leads elsewhere, by an error.
func patchAsTyped(v *visit.Visit, form *forms.Reader, job *api.Job, etag string) (refused *problem.Problem, err error) {
	switch patch, differs := form.JobPatch(job); {
	case !changeable(job):
		return problem.New(problem.JobStarted, ""), nil
	case form.Values.Get("etag") != etag:
		return problem.New(problem.PreconditionFailed, ""), nil
	case len(form.Wrong) > 0:
		return problem.Invalid(form.Wrong...), nil
	case !differs:
		return nil, visit.RedirectError{To: jobPath(job.ID) + "?note=job-unchanged"}
	default:
		_, err = v.API.PatchJobIf(v.Context(), job.ID, etag, patch)
	}
	refused, known := problem.From(err)
	switch {
	case err == nil:
		return nil, visit.RedirectError{To: jobPath(job.ID) + "?note=job-changed"}
	case !known, refused.Code == problem.Unauthenticated, refused.Code == problem.Forbidden, refused.Code == problem.NotFound:
		return nil, err
	}
	return refused, nil
}

// alertOf says why nothing was saved. job is as it is now; marked says that fields say what is wrong.
func alertOf(refused *problem.Problem, job *api.Job, marked bool) string {
	switch {
	case refused.Code == problem.JobStarted && ended(job.State):
		return "The job has ended: it cannot be changed. Nothing was saved."
	case refused.Code == problem.JobStarted:
		return "The job has started: it cannot be changed. Nothing was saved."
	case refused.Code == problem.PreconditionFailed:
		return "The job was changed after this form was opened. Nothing was saved. The form now shows the job as it is, with what you have edited: check it, and save again."
	case refused.Code == problem.InvalidRequest && marked:
		return "Nothing was saved. Correct what is marked."
	}
	return "Nothing was saved. " + refused.Detail
}

// wrongOf is what the API says of a field, and of what is in it: "payload/items/0", "metadata.order", "tags[1]".
func wrongOf(field string, all []problem.FieldError) string {
	var said []string
	for _, one := range all {
		switch rest, of := strings.CutPrefix(one.Field, field); {
		case !of || rest != "" && !strings.ContainsAny(rest[:1], "/.["):
		case rest == "":
			said = append(said, one.Message)
		default:
			said = append(said, one.Field+": "+one.Message)
		}
	}
	return strings.Join(said, "; ")
}

// withLines is a form with the lines of its texts as JSON and the API have them: a browser ends them by CRLF.
func withLines(form url.Values) url.Values {
	with := make(url.Values, len(form))
	for name := range form {
		with.Set(name, strings.ReplaceAll(form.Get(name), "\r\n", "\n"))
	}
	return with
}

func (p *changePage) as(status int) visit.Page {
	return visit.Page{Template: "change", Title: "Change " + p.Job.Type, Status: status, Data: p}
}
