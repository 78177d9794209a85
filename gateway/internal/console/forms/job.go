package forms

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// jobField is a field of the form that changes a job: how what a job has is written, and how it is read. It is written as
// it is read: what is written the same has not changed.
type jobField struct {
	Field

	write func(*api.JobPatch) string
	read  func(*Reader, *api.JobPatch)
	// empty says that the field may be emptied.
	empty bool
}

const utcHelp = "RFC 3339, such as 2026-11-20T12:00:00Z"

// jobFields are the fields by which a job that waits is changed.
func jobFields() []jobField {
	return []jobField{
		{
			Field: Field{Name: "priority", Label: "Priority", Help: "0 to 9, higher first."},
			write: func(p *api.JobPatch) string { return wholeText(p.Priority) },
			read:  func(f *Reader, p *api.JobPatch) { p.Priority = f.Small("priority") },
		},
		{
			Field: Field{Name: "queue", Label: "Queue", Text: true, Help: "The job moves there, if that queue has room."},
			write: func(p *api.JobPatch) string {
				if p.Queue == nil {
					return ""
				}
				return *p.Queue
			},
			read: func(f *Reader, p *api.JobPatch) { p.Queue = f.Word("queue") },
		},
		{
			Field: Field{Name: "run_at", Label: "Starts at the earliest", Text: true, Help: utcHelp + ". A past time is now; a job that waits for a signal stops waiting then."},
			write: func(p *api.JobPatch) string { return timeText(p.RunAt) },
			read:  func(f *Reader, p *api.JobPatch) { p.RunAt = f.Time("run_at") },
		},
		{
			Field: Field{Name: "deadline", Label: "Deadline", Text: true, Help: utcHelp + ". A job that has not started by then is dead."},
			write: func(p *api.JobPatch) string { return timeText(p.Deadline) },
			read:  func(f *Reader, p *api.JobPatch) { p.Deadline = f.Time("deadline") },
		},
		{
			Field: Field{Name: "max_attempts", Label: "Attempts at most", Help: "More than it has used."},
			write: func(p *api.JobPatch) string { return wholeText(p.MaxAttempts) },
			read:  func(f *Reader, p *api.JobPatch) { p.MaxAttempts = f.Small("max_attempts") },
		},
		{
			Field: Field{Name: "tags", Label: "Tags", Text: true, Help: "With commas. A worker must have all of them."},
			write: func(p *api.JobPatch) string { return strings.Join(p.Tags, ", ") },
			read:  func(f *Reader, p *api.JobPatch) { p.Tags = f.Names("tags") },
			empty: true,
		},
		{
			Field: Field{Name: "metadata", Label: "Metadata (JSON)", Rows: 4, Help: `An object of texts, such as {"order": "1043"}.`},
			write: func(p *api.JobPatch) string { return metadataText(p.Metadata) },
			read:  func(f *Reader, p *api.JobPatch) { p.Metadata = f.metadata("metadata") },
			empty: true,
		},
		{
			Field: Field{Name: "payload", Label: "Payload (JSON)", Rows: 10},
			write: func(p *api.JobPatch) string { return JSONText(p.Payload) },
			read:  func(f *Reader, p *api.JobPatch) { p.Payload = f.JSON("payload") },
		},
	}
}

// asPatch is all that a job has, as a patch.
func asPatch(job *api.Job) *api.JobPatch {
	return &api.JobPatch{
		Priority: &job.Priority, Queue: &job.Queue, RunAt: job.RunAt, Deadline: job.Deadline, MaxAttempts: &job.MaxAttempts,
		Tags: job.Tags, Metadata: job.Metadata, Payload: job.Payload,
	}
}

// JobInputs are the inputs of the form that changes a job, filled with what it has.
func JobInputs(job *api.Job) []Field {
	has, fields := asPatch(job), jobFields()
	inputs := make([]Field, len(fields))
	for i, one := range fields {
		inputs[i] = one.Field
		inputs[i].Now = one.write(has)
		inputs[i].Value = inputs[i].Now
	}
	return inputs
}

// JobPatch reads that form: what differs from what the job has. differs says that something does.
func (f *Reader) JobPatch(job *api.Job) (patch api.JobPatch, differs bool) {
	has := asPatch(job)
	for _, one := range jobFields() {
		now := one.write(has)
		if !f.Values.Has(one.Name) || f.Values.Get(one.Name) == now {
			continue
		}
		var read api.JobPatch
		refused := len(f.Wrong)
		one.read(f, &read)
		switch text := one.write(&read); {
		case text == now || len(f.Wrong) > refused:
		case text == "" && !one.empty: // what is absent in a patch stays
			f.refuse(one.Name, "cannot be removed: write another value")
		default:
			one.read(f, &patch)
			differs = true
		}
	}
	return patch, differs
}

func wholeText(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// timeText is a time to the microsecond, as the API has it.
func timeText(at *api.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// JSONText is JSON in lines, as a form has it; empty for none. One that would be larger than a payload may be is in one line: with
// what a browser adds to it, it fits in a form.
func JSONText(text json.RawMessage) string {
	if len(text) == 0 || string(text) == "null" {
		return ""
	}
	shown := view.Indented(text)
	if len(shown) > api.MaxPayload {
		shown = string(text)
	}
	return plaintext.Visible(shown)
}

func metadataText(metadata map[string]string) string {
	if len(metadata) == 0 {
		return ""
	}
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	if err := to.Encode(metadata); err != nil {
		return "" // texts can be written
	}
	return JSONText(bytes.TrimSpace(text.Bytes()))
}

// metadata reads an object of texts; none is an empty one.
func (f *Reader) metadata(name string) map[string]string {
	found := map[string]string{}
	text := f.JSON(name)
	if text == nil {
		return found
	}
	if err := json.Unmarshal(text, &found); err != nil || found == nil {
		f.refuse(name, `is an object of texts, such as {"order": "1043"}`)
	}
	return found
}
