package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lives has a line for each redrive and each span.
func lives(t *view.Timeline) []string {
	var all []string
	for _, life := range t.Lives {
		if life.Redriven() {
			text := life.Name()
			if r := life.Redrive; r != nil {
				text += fmt.Sprintf(" at %.0f", r.At.Sub(noon).Seconds())
				if r.By != "" {
					text += " by " + r.By
				}
			}
			all = append(all, text)
		}
		for _, s := range life.Spans {
			text := s.Kind + " " + s.Took()
			if s.Name != "" {
				text = s.Name + " " + text
			}
			if s.Open {
				text += ", open"
			}
			all = append(all, text)
		}
	}
	return all
}

// A redriven job counts its attempts again, and was dead before. What is not known gets no name that may be wrong.
func TestLivesOfARedrivenJob(t *testing.T) {
	t.Parallel()
	attempt := func(n int, epoch int64, kind string, from, to float64, next ...float64) api.Attempt {
		a := api.Attempt{Attempt: n, Epoch: epoch, Kind: kind, StartedAt: new(at(from)), EndedAt: new(at(to))}
		if len(next) > 0 {
			a.NextRunAt = new(at(next[0]))
		}
		return a
	}
	redriven := func(seconds float64) view.Redriven {
		return view.Redriven{At: at(seconds).Time, By: "k"}
	}
	twice := []api.Attempt{attempt(1, 1, "failed", 1, 2, 3), attempt(2, 2, "failed", 3, 4), attempt(1, 3, "failed", 40, 41)}
	for name, c := range map[string]struct {
		job      api.JobSummary
		attempts []api.Attempt
		redrives []view.Redriven
		more     bool
		want     []string
	}{
		"the audit log has it": {
			api.JobSummary{Attempt: 1, Redrives: 1, FinishedAt: new(at(41))},
			twice,
			[]view.Redriven{redriven(30)},
			false,
			[]string{"waited 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s", "dead 26 s", "Redrive 1 at 30 by k", "waited 10 s", "Redrive 1, attempt 1 failed 1 s"},
		},
		"nothing has its time": {
			api.JobSummary{Attempt: 1, Redrives: 1, FinishedAt: new(at(41))},
			twice,
			nil,
			false,
			[]string{"waited 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s", "unclear 36 s", "Redrive 1", "Redrive 1, attempt 1 failed 1 s"},
		},
		"the job has its time": {
			api.JobSummary{Attempt: 1, Redrives: 1, Epoch: 3, RunAt: new(at(35)), FinishedAt: new(at(41))},
			twice,
			nil,
			false,
			[]string{"waited 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s", "dead 31 s", "Redrive 1 at 35", "waited 5 s", "Redrive 1, attempt 1 failed 1 s"},
		},
		"it waits again": {
			api.JobSummary{Redrives: 1, Epoch: 1, RunAt: new(at(70))},
			[]api.Attempt{attempt(1, 1, "failed", 0, 10)},
			nil,
			false,
			[]string{"Attempt 1 failed 10 s", "dead 1 min", "Redrive 1 at 70", "waited 30 s, open"},
		},
		"it was leased and released since": {
			api.JobSummary{Redrives: 1, Epoch: 2, RunAt: new(at(70))},
			[]api.Attempt{attempt(1, 1, "failed", 0, 10)},
			nil,
			false,
			[]string{"Attempt 1 failed 10 s", "unclear 1 min 30 s, open", "Redrive 1"},
		},
		"its first life had no attempt": {
			api.JobSummary{Attempt: 1, Redrives: 1},
			[]api.Attempt{attempt(1, 1, "failed", 50, 60)},
			[]view.Redriven{redriven(20)},
			false,
			[]string{"no_attempt 20 s", "Redrive 1 at 20 by k", "waited 30 s", "Redrive 1, attempt 1 failed 10 s", "waited 40 s, open"},
		},
		"a life had no attempt, and it is not known which": {
			api.JobSummary{Attempt: 1, Redrives: 2, FinishedAt: new(at(41))},
			twice,
			nil,
			false,
			[]string{"no_attempt 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s", "unclear 36 s", "Redriven", "After a redrive, attempt 1 failed 1 s"},
		},
		"of two redrives one has a time": {
			api.JobSummary{Attempt: 1, Redrives: 2, FinishedAt: new(at(41))},
			twice,
			[]view.Redriven{redriven(30)},
			false,
			[]string{"no_attempt 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s", "unclear 26 s", "Redriven at 30 by k", "unclear 10 s", "After a redrive, attempt 1 failed 1 s"},
		},
		"a life between had no attempt": {
			api.JobSummary{Attempt: 1, Redrives: 2, FinishedAt: new(at(41))},
			twice,
			[]view.Redriven{redriven(30), redriven(10)},
			false,
			[]string{
				"waited 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s", "dead 6 s", "Redrive 1 at 10 by k", "unclear 20 s", "Redrive 2 at 30 by k", "waited 10 s",
				"Redrive 2, attempt 1 failed 1 s",
			},
		},
		"its deadline passed between attempts": {
			api.JobSummary{Redrives: 1},
			[]api.Attempt{attempt(1, 1, "failed", 0, 10, 60)},
			[]view.Redriven{redriven(50)},
			false,
			[]string{"Attempt 1 failed 10 s", "unclear 40 s", "Redrive 1 at 50 by k", "waited 50 s, open"},
		},
		"later attempts are not listed": {
			api.JobSummary{Attempt: 7, Redrives: 1},
			twice[:2],
			nil,
			true,
			[]string{"no_attempt 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s", "hidden 1 min 36 s, open"},
		},
		"it was never redriven": {
			api.JobSummary{Attempt: 2, FinishedAt: new(at(4))},
			twice[:2],
			nil,
			false,
			[]string{"waited 1 s", "Attempt 1 failed 1 s", "backoff 1 s", "Attempt 2 failed 1 s"},
		},
	} {
		c.job.CreatedAt = at(0)
		if c.job.Attempt == 1 && c.job.FinishedAt == nil { // it is tried again
			c.attempts[len(c.attempts)-1].NextRunAt = new(at(60))
		}
		history := &view.History{Job: &c.job, Attempts: c.attempts, Redrives: c.redrives, More: c.more}
		got := lives(view.NewTimeline(history, at(100).Time))
		for i := range got {
			got[i] = plain(got[i])
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(name, diff)
		}
	}
}

func plain(text string) string { return strings.ReplaceAll(text, "\u00a0", " ") }
