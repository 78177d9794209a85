package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

// pollEvery is how often a job is read while the user waits for it. The server reports its end at once; polling
// shows the states before it.
const pollEvery = time.Second

// watcher gets a job each time it was read; end is called last.
type watcher interface {
	see(job api.Job) error
	end()
}

// watch follows a job to its end by the server's events, for at most limit (0: for ever). Where the key has too many
// streams open, it waits as await does.
func watch(ctx context.Context, s *cli.Session, id string, limit time.Duration, w *changes) (api.Job, error) {
	if limit < 0 {
		return await(ctx, s, id, limit, w)
	}
	caller, begun := ctx, time.Now()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	var last api.Job
	for event, err := range s.Client.Follow(ctx, id, "") {
		switch {
		case err == nil && event.Output != nil:
			w.said(event.Output)
		case err == nil:
			last = *event.Job
			if err := w.see(last); err != nil {
				return last, err
			}
		case ctx.Err() != nil:
			return last, waitError(caller, ctx, id, limit, last, err)
		case limit > 0:
			return await(caller, s, id, max(limit-time.Since(begun), time.Millisecond), w)
		default:
			return await(caller, s, id, 0, w)
		}
	}
	return last, nil
}

// await follows a job to its end, for at most limit (0: for ever).
func await(ctx context.Context, s *cli.Session, id string, limit time.Duration, w watcher) (api.Job, error) {
	if limit < 0 {
		return api.Job{}, cli.Usage("the time to wait must not be negative")
	}
	caller := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	type ended struct {
		job api.Job
		err error
	}
	waited := make(chan ended, 1)
	go func() {
		job, err := s.Client.Wait(ctx, id)
		waited <- ended{job, err}
	}()
	if w != nil {
		defer w.end()
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var last api.Job
	for {
		select {
		case over := <-waited:
			if over.err == nil {
				last = over.job
				return last, see(w, last)
			}
			if over.job.ID != "" {
				last = over.job
			}
			return last, waitError(caller, ctx, id, limit, last, over.err)
		case <-ticker.C:
			if w == nil {
				continue
			}
			// An error here is not reported: the wait gets it too.
			if job, err := s.Client.Get(ctx, id); err == nil {
				last = job
				if err := see(w, job); err != nil {
					return job, err
				}
			}
		}
	}
}

func see(w watcher, job api.Job) error {
	if w == nil {
		return nil
	}
	return w.see(job)
}

// waitError is the error of a wait that ended before its job.
func waitError(caller, waiting context.Context, id string, limit time.Duration, last api.Job, err error) error {
	state := "its state is not known"
	if last.ID != "" {
		state = "it is " + progressOf(last)
	}
	switch {
	case cli.Interrupted(caller):
		return fmt.Errorf("stopped waiting for job %s, which continues: %s", id, state)
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		return cli.TimedOut(fmt.Errorf("job %s has not ended within %v and continues: %s", id, limit, state))
	}
	return err
}

// outcome is nil for a completed job, else an error that says how it ended.
func outcome(job api.Job) error {
	if job.State == api.StateCompleted {
		return nil
	}
	text := fmt.Sprintf("job %s ended as %s", job.ID, job.State)
	if job.DeadReason != nil {
		text += " (" + *job.DeadReason + ")"
	}
	if job.LastError != nil {
		text += fmt.Sprintf(": %s: %s", job.LastError.Type, job.LastError.Message)
	}
	return errors.New(text)
}

// progressOf is a job's state and attempt in a few words.
func progressOf(job api.Job) string {
	text := job.State
	switch {
	case job.State == api.StateRunning && job.CancelRequested:
		text += ", asked to stop"
	case job.State == api.StateWaiting && job.WaitUntil != nil:
		if len(job.WaitingFor) > 0 {
			text += " for " + strings.Join(job.WaitingFor, ", ")
		}
		text += " until " + cli.Stamp(job.WaitUntil)
	case job.State == api.StateScheduled && job.RunAt != nil:
		text += " for " + cli.Stamp(job.RunAt)
	}
	if job.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d of %d", job.Attempt, job.MaxAttempts)
	}
	if said := reported(job.Progress); said != "" {
		text += ", " + said
	}
	return text
}

// reported is a progress in a few words: a bar, the percentage and the message.
func reported(p *api.Progress) string {
	if p == nil {
		return ""
	}
	text := ""
	if p.Percent != nil {
		const width = 20
		done := int(*p.Percent * width / 100)
		text = fmt.Sprintf("[%s%s] %.0f %%", strings.Repeat("█", done), strings.Repeat(" ", width-done), *p.Percent)
	}
	return strings.TrimSpace(text + " " + cli.OrElse(p.Message, ""))
}

// newSpinner shows a job's progress on a terminal; elsewhere it says once that the job is waited for.
func newSpinner(s *cli.Session, id string) watcher {
	bar, end := s.Progress(-1, false, "waiting for job "+id)
	if bar == nil {
		return &spinner{describe: func(string) {}, stop: end}
	}
	return &spinner{describe: bar.Describe, stop: end}
}

type spinner struct {
	describe func(string)
	stop     func()
}

func (s *spinner) see(job api.Job) error {
	s.describe(cli.Visible(job.ID + " " + progressOf(job)))
	return nil
}

func (s *spinner) end() { s.stop() }
