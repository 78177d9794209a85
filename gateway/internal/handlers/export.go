package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ExportUser gives a user's data, a line at a time.
//
//	@Summary     Export a user's data
//	@Description All that is kept of a user's jobs, as JSON lines: each job (`{"kind": "job", "job": {…}}`), followed by its attempts, output and signals (`{"kind": "attempt", "job_id": "…", "attempt": {…}}`), then the schedules that submit jobs for the user. The last line has the `kind` `end` and the number of `lines` before it: without it the export is not whole, ask again. Jobs are listed newest first; one that is submitted or changes meanwhile may be in it or not. A key that is bound to a user exports that user's data only. To delete them, see `POST /v1/bulk`.
//	@ID          exportUser
//	@Tags        Jobs
//	@Param       user path string true "The user, as in `POST /v1/jobs`."
//	@Produce     application/jsonl
//	@Success     200 {string} string "The lines."
//	@x-access    "read"
//	@Router      /v1/users/{user}/export [get]
func (h *Handlers) ExportUser(ctx context.Context, c *call.Call, line func(*api.ExportLine) error) error {
	user, err := c.User()
	if err != nil {
		return err
	}
	if who := c.Principal(); who.User != "" && who.User != user {
		return anotherUser("user", "The key is bound to a user, and the export is of another user.")
	}
	e := export{Handlers: h, call: c, line: line}
	if err := e.jobs(ctx, user); err != nil {
		return err
	}
	if err := e.schedules(ctx, user); err != nil {
		return err
	}
	lines := e.lines
	return e.write(&api.ExportLine{Kind: api.ExportEnd, Lines: &lines})
}

// export is one export.
type export struct {
	*Handlers

	call  *call.Call
	line  func(*api.ExportLine) error
	lines int64
}

func (e *export) write(line *api.ExportLine) error {
	e.lines++
	return e.line(line)
}

func (e *export) jobs(ctx context.Context, user string) error {
	page := hop.PageRequest{PageSize: api.MaxPageSize}
	for {
		found, err := call.Send(ctx, e.core, e.call, hop.ListJobs, hop.Filtered[api.JobFilter]{Filter: api.JobFilter{User: user}, PageRequest: page})
		if err != nil {
			return err
		}
		for i := range found.Value.Items {
			if err := e.job(ctx, &found.Value.Items[i]); err != nil && !isGone(err) {
				return err
			}
		}
		if found.Value.NextPageToken == nil {
			return nil
		}
		page.PageToken = *found.Value.NextPageToken
	}
}

// job writes a job, and what hangs on it.
func (e *export) job(ctx context.Context, listed *api.JobSummary) error {
	id := listed.ID
	found, err := e.read(ctx, e.call, id)
	if err != nil {
		return err
	}
	if err := e.write(&api.ExportLine{Kind: api.ExportJob, Job: &found}); err != nil {
		return err
	}
	if found.Epoch > 0 {
		if err := e.attempts(ctx, id); err != nil {
			return err
		}
	}
	if found.Output != nil {
		if err := e.output(ctx, id); err != nil {
			return err
		}
	}
	signals, err := call.Send(ctx, e.core, e.call, hop.ListSignals, hop.SignalsRequest{ID: id})
	if err != nil {
		return err
	}
	for i := range signals.Value.Items {
		if err := e.write(&api.ExportLine{Kind: api.ExportSignal, JobID: id, Signal: &signals.Value.Items[i]}); err != nil {
			return err
		}
	}
	return nil
}

func (e *export) attempts(ctx context.Context, id string) error {
	page := hop.PageRequest{PageSize: api.MaxPageSize}
	for {
		found, err := call.Send(ctx, e.core, e.call, hop.ListAttempts, hop.PageFor{For: id, PageRequest: page})
		if err != nil {
			return err
		}
		for i := range found.Value.Items {
			if err := e.write(&api.ExportLine{Kind: api.ExportAttempt, JobID: id, Attempt: &found.Value.Items[i]}); err != nil {
				return err
			}
		}
		if found.Value.NextPageToken == nil {
			return nil
		}
		page.PageToken = *found.Value.NextPageToken
	}
}

func (e *export) output(ctx context.Context, id string) error {
	after := api.OutputPlace{}
	for {
		found, err := e.OutputAfter(ctx, e.call, id, after)
		if err != nil {
			return err
		}
		for i := range found.Items {
			if err := e.write(&api.ExportLine{Kind: api.ExportOutput, JobID: id, Output: &found.Items[i]}); err != nil {
				return err
			}
			after, _ = api.ParseOutputPlace(found.Items[i].ID)
		}
		if !found.More {
			return nil
		}
	}
}

func (e *export) schedules(ctx context.Context, user string) error {
	page := hop.PageRequest{PageSize: api.MaxPageSize}
	for {
		found, err := call.Send(ctx, e.core, e.call, hop.ListSchedules, page)
		if err != nil {
			return err
		}
		for i := range found.Value.Items {
			of := found.Value.Items[i].Job.User
			if of == nil || *of != user {
				continue
			}
			if err := e.write(&api.ExportLine{Kind: api.ExportSchedule, Schedule: &found.Value.Items[i]}); err != nil {
				return err
			}
		}
		if found.Value.NextPageToken == nil {
			return nil
		}
		page.PageToken = *found.Value.NextPageToken
	}
}

// isGone says that a job was deleted after it was listed.
func isGone(err error) bool {
	p, ok := problem.From(err)
	return ok && p.Code == problem.NotFound
}
