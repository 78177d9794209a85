package console

import (
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// shownOutput and shownChunks bound the output in a page, in bytes and chunks.
	shownOutput, shownChunks = 200 << 10, 1000
	// outputReads bounds the requests of a page for it: one from its beginning, and those for shownChunks.
	outputReads = 5
)

// output is the last part of a job's output.
type output struct {
	Runs []view.OutputRun
	// Last is the id of the last chunk that was read; the page's script continues after it.
	Last string
	// Cut says that there is output before the runs. Unread says that it could not be read.
	Cut, Unread bool
}

// Hidden says that there is nothing to show yet.
func (o *output) Hidden() bool { return o.Last == "" && !o.Unread }

// outputOf is nil where a job has no output and will have none. An open page that updates itself reads none: its script follows it.
func outputOf(v *visit.Visit, job *api.Job) (*output, error) {
	switch {
	case job.Output == nil && ended(job.State):
		return nil, nil
	case job.Output == nil || v.Live():
		return &output{}, nil
	}
	chunks, cut, err := lastOutput(v, job)
	if _, refused := problem.From(err); refused {
		return &output{Unread: true}, nil // the page has more than that
	}
	if err != nil {
		return nil, err
	}
	shown := &output{Cut: cut}
	if len(chunks) > 0 {
		shown.Last = chunks[len(chunks)-1].ID
	}
	first, size := len(chunks), 0
	for first > 0 && len(chunks)-first < shownChunks && size+len(chunks[first-1].Text) <= shownOutput {
		first--
		size += len(chunks[first].Text)
	}
	shown.Cut = shown.Cut || first > 0
	shown.Runs = view.OutputRuns(chunks[first:])
	return shown, nil
}

// lastOutput reads a job's output from its beginning. Of output that is long it reads on near the end, and says that it was cut.
func lastOutput(v *visit.Visit, job *api.Job) (chunks []api.Output, cut bool, err error) {
	end, _ := api.ParseOutputPlace(*job.Output)
	near := api.OutputPlace{Epoch: end.Epoch, Seq: max(end.Seq-shownChunks, 0)}
	after := ""
	for range outputReads {
		page, err := v.API.Output(v.Context(), job.ID, after)
		if err != nil {
			return nil, false, err
		}
		chunks = append(chunks, page.Items...)
		if !page.More || len(page.Items) == 0 {
			break
		}
		after = page.Items[len(page.Items)-1].ID
		if place, _ := api.ParseOutputPlace(after); place.Epoch < near.Epoch || place.Epoch == near.Epoch && place.Seq < near.Seq {
			chunks, cut, after = nil, true, near.String()
		}
	}
	if cut && len(chunks) > 0 {
		chunks[0].Gap = false // what is before it was not read
	}
	return chunks, cut, nil
}
