package submits_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (f *fixture) say(running claim.Job, chunks ...api.OutputChunk) jobs.Appended {
	f.Helper()
	made, err := f.Store.Jobs.AppendOutput(f.Context(), running.Lease(), chunks)
	if err != nil {
		f.Fatal(err)
	}
	return made
}

// output reads all pages of what a job has said.
func (f *fixture) output(of claim.Job) (text string, truncated bool) {
	f.Helper()
	var after api.OutputPlace
	for {
		page, err := f.Store.JobReads.Output(f.Context(), f.Tenant, "", of.ID, after)
		if err != nil {
			f.Fatal(err)
		}
		for _, one := range page.Items {
			if one.Gap {
				text += "…"
			}
			text += one.Text
			after, _ = api.ParseOutputPlace(one.ID)
		}
		truncated = truncated || page.Truncated
		if !page.More {
			return text, truncated
		}
	}
}

func line(seq int64, text string) api.OutputChunk {
	return api.OutputChunk{Seq: seq, Stream: api.OutputOut, Text: text}
}

// A job's output is what its holders have said, each chunk once, in order; a stale holder says nothing.
func TestOutput(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	running := f.parent()
	if got := f.Get(running.ID); got.Output != nil {
		t.Errorf("%v", *got.Output)
	}
	if made := f.say(running, line(1, "a"), line(2, "b")); made.Next != 3 || !made.Stored {
		t.Errorf("%+v", made)
	}
	if made := f.say(running, line(1, "a"), line(2, "b")); made.Next != 3 || made.Stored {
		t.Errorf("a repeat: %+v", made)
	}
	if made := f.say(running, line(2, "other"), line(3, "c")); made.Next != 4 || !made.Stored {
		t.Errorf("half a repeat: %+v", made)
	}
	if got := f.Get(running.ID); got.Output == nil || *got.Output != "1.3" {
		t.Errorf("%+v", got.Output)
	}
	ending := enginetest.Endings([]claim.Job{running})[0]
	ending.Kind = api.KindRelease
	if ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	again := f.Claim(f.ClaimCall(api.DefaultQueue))[0]
	if _, err := f.Store.Jobs.AppendOutput(t.Context(), running.Lease(), []api.OutputChunk{line(4, "stale")}); !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("a stale holder: %v", err)
	}
	if made := f.say(again, line(1, "d")); made.Next != 2 || !made.Stored {
		t.Errorf("of the next attempt: %+v", made)
	}
	if text, truncated := f.output(again); text != "abcd" || truncated {
		t.Errorf("%q, truncated %v", text, truncated)
	}
	ending = enginetest.Endings([]claim.Job{again})[0]
	ending.Kind = api.KindComplete
	if ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	if text, _ := f.output(again); text != "abcd" {
		t.Errorf("of a job that has ended: %q", text)
	}
	if got := f.Get(again.ID); got.Output == nil || *got.Output != "2.1" {
		t.Errorf("%+v", got.Output)
	}
	if _, err := f.Store.JobReads.Output(t.Context(), f.Tenant, "eve", again.ID, api.OutputPlace{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("for another user: %v", err)
	}
}

// Of a job that says much, the first half and the end are kept, and it is said that something is missing.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	running := f.parent()
	var all strings.Builder
	text := func(seq int64) string { return fmt.Sprintf("%07d", seq) + strings.Repeat("x", 8000) + "\n" }
	const chunks = 400 // 3.2 MB
	for seq := int64(1); seq <= chunks; seq += 20 {
		some := make([]api.OutputChunk, 20)
		for i := range some {
			some[i] = line(seq+int64(i), text(seq+int64(i)))
			all.WriteString(some[i].Text)
		}
		f.say(running, some...)
	}
	whole := all.String()
	got, truncated := f.output(running)
	first, last, cut := strings.Cut(got, "…")
	if !truncated || !cut || !strings.HasPrefix(whole, first) || !strings.HasSuffix(whole, last) {
		t.Fatalf("%d bytes, truncated %v, %d and %d bytes", len(got), truncated, len(first), len(last))
	}
	const half, most = api.MaxOutput / 2, api.MaxOutput + 20*8008 + 64<<10
	if len(got) > most || len(first) < half-8008 || len(last) < half-8008 {
		t.Errorf("%d bytes and %d are kept", len(first), len(last))
	}
	if n := f.Count(`SELECT count(*) FROM job_output`); n > most/8008+1 {
		t.Errorf("%d rows", n)
	}
	// one that has read what is deleted now gets a gap, and one that has read the last does not
	page, err := f.Store.JobReads.Output(t.Context(), f.Tenant, "", running.ID, api.OutputPlace{Epoch: 1, Seq: 100})
	if err != nil || len(page.Items) == 0 || !page.Items[0].Gap || !page.Truncated {
		t.Errorf("%v %v", page.Truncated, err)
	}
	if page, err = f.Store.JobReads.Output(t.Context(), f.Tenant, "", running.ID, api.OutputPlace{Epoch: 1, Seq: chunks - 1}); err != nil || len(page.Items) != 1 || page.Truncated {
		t.Errorf("%+v %v", page, err)
	}
	for i := range int64(300) { // small ones count as 64 bytes
		f.say(running, line(chunks+1+i, "."))
	}
	if got, _ := f.output(running); !strings.HasSuffix(got, "\n"+strings.Repeat(".", 300)) {
		t.Error("the end is missing")
	}
}
