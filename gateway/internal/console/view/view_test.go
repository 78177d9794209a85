package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestWords(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0": view.Number(0), "999": view.Number(999), "1\u202f000": view.Number(1000), "12\u202f345\u202f678": view.Number(12345678), "−1\u202f234": view.Number(-1234),
		"10\u202f000+": view.Count(10_000, true), "0.25": view.Decimal(.25), "1\u202f235": view.Decimal(1234.6), "33.3": view.Decimal(33.333),
		"0\u00a0ms": view.Duration(0), "12\u00a0ms": view.Duration(12 * time.Millisecond), "1.5\u00a0s": view.Duration(1590 * time.Millisecond), "2\u00a0s": view.Duration(2 * time.Second),
		"59\u00a0s": view.Duration(59*time.Second + 900*time.Millisecond), "1\u00a0min": view.Duration(time.Minute), "3\u00a0min 5\u00a0s": view.Duration(185 * time.Second),
		"2\u00a0h 3\u00a0min": view.Duration(123 * time.Minute), "2\u00a0d 3\u00a0h": view.Duration(51 * time.Hour),
		"now": view.Relative(noon, noon), "in 5\u00a0min": view.Relative(noon.Add(5*time.Minute+3*time.Second), noon), "3\u00a0d ago": view.Relative(noon.Add(-80*time.Hour), noon),
		"dead letter": view.Label("dead_letter"), "active": view.Label("ACTIVE"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestATreeKeepsOrderAndNumbers(t *testing.T) {
	t.Parallel()
	root, whole := view.Tree(json.RawMessage(`{"b":[1.10,true,null,"<i>"],"a":{}}`))
	want := &view.Node{Kind: "object", Open: true, Children: []*view.Node{
		{Name: "b", Kind: "array", Open: true, Children: []*view.Node{
			{Name: "0", Kind: "number", Text: "1.10"}, {Name: "1", Kind: "bool", Text: "true"}, {Name: "2", Kind: "null", Text: "null"}, {Name: "3", Kind: "string", Text: "<i>"},
		}},
		{Name: "a", Kind: "object", Open: true},
	}}
	if diff := cmp.Diff(want, root); diff != "" || !whole {
		t.Error(whole, diff)
	}
	if root.Summary() != "2 members" || root.Children[0].Summary() != "4 items" || root.Children[1].Branch() {
		t.Error(root.Summary(), root.Children[0].Summary())
	}
	for _, text := range []string{"", "{", `{"a":`, "[" + strings.Repeat("1,", 3000) + "1]"} {
		if _, whole := view.Tree(json.RawMessage(text)); whole {
			t.Errorf("%.20s has a tree", text)
		}
	}
}

func at(seconds float64) api.Time {
	return api.At(noon.Add(time.Duration(seconds * float64(time.Second))))
}

func spans(t *view.Timeline) []string {
	var all []string
	for _, life := range t.Lives {
		for _, s := range life.Spans {
			text := fmt.Sprintf("%s %d: %s at %.0f, %.0f wide", s.Kind, s.Attempt, s.Took(), s.X, s.Width)
			if life.Number > 0 {
				text += fmt.Sprintf(", life %d", life.Number)
			}
			if s.Open {
				text += ", open"
			}
			all = append(all, text)
		}
	}
	return all
}

func TestATimelineIsToScale(t *testing.T) {
	t.Parallel()
	failed := api.Attempt{Attempt: 1, Epoch: 1, Kind: "failed", StartedAt: new(at(10)), EndedAt: new(at(40)), NextRunAt: new(at(70))}
	for name, c := range map[string]struct {
		finished *api.Time
		attempts []api.Attempt
		now      float64
		want     []string
		redriven []view.Redriven
	}{
		"waits":     {nil, nil, 50, []string{"waited 0: 50\u00a0s at 0, 1000 wide, open"}, nil},
		"backs off": {nil, []api.Attempt{failed}, 50, []string{"waited 0: 10\u00a0s at 0, 200 wide", "failed 1: 30\u00a0s at 200, 600 wide", "backoff 0: 10\u00a0s at 800, 200 wide, open"}, nil},
		"runs again": {
			nil,
			[]api.Attempt{failed, {Attempt: 2, Epoch: 2, Kind: "running", StartedAt: new(at(80))}},
			100,
			[]string{"waited 0: 10\u00a0s at 0, 100 wide", "failed 1: 30\u00a0s at 100, 300 wide", "backoff 0: 30\u00a0s at 400, 300 wide", "waited 0: 10\u00a0s at 700, 100 wide", "running 2: 20\u00a0s at 800, 200 wide, open"},
			nil,
		},
		"is seen however short": {
			new(at(1000)),
			[]api.Attempt{{Attempt: 1, Epoch: 1, Kind: "completed", StartedAt: new(at(999.999)), EndedAt: new(at(1000))}},
			5000,
			[]string{"waited 0: 16\u00a0min 39\u00a0s at 0, 995 wide", "completed 1: 1\u00a0ms at 995, 5 wide"},
			nil,
		},
		"at once": {new(at(0)), []api.Attempt{{Attempt: 1, Epoch: 1, Kind: "completed", StartedAt: new(at(0)), EndedAt: new(at(0))}}, 5, []string{"completed 1: 0\u00a0ms at 0, 5 wide"}, nil},
		// a redrive: the time as a dead letter is no wait, and attempts are counted again from 1
		"dead, redriven, runs again": {
			nil,
			[]api.Attempt{
				{Attempt: 1, Epoch: 1, Kind: "failed", StartedAt: new(at(0)), EndedAt: new(at(20))},
				{Attempt: 1, Epoch: 2, Kind: "running", StartedAt: new(at(80))},
			},
			100,
			[]string{"failed 1: 20\u00a0s at 0, 200 wide", "dead 0: 50\u00a0s at 200, 500 wide", "waited 0: 10\u00a0s at 700, 100 wide, life 1", "running 1: 20\u00a0s at 800, 200 wide, life 1, open"},
			[]view.Redriven{{At: at(70).Time, By: "k"}},
		},
		"redriven, nobody knows when": {
			new(at(100)),
			[]api.Attempt{
				{Attempt: 1, Epoch: 1, Kind: "failed", StartedAt: new(at(0)), EndedAt: new(at(20))},
				{Attempt: 1, Epoch: 2, Kind: "completed", StartedAt: new(at(80)), EndedAt: new(at(100))},
			},
			100,
			[]string{"failed 1: 20\u00a0s at 0, 200 wide", "unclear 0: 1\u00a0min at 200, 600 wide", "completed 1: 20\u00a0s at 800, 200 wide, life 1"},
			nil,
		},
	} {
		job := &api.JobSummary{CreatedAt: at(0), FinishedAt: c.finished}
		for i := 1; i < len(c.attempts); i++ {
			if job.Attempt = c.attempts[i].Attempt; job.Attempt == 1 {
				job.Redrives++
			}
		}
		if diff := cmp.Diff(c.want, spans(view.NewTimeline(&view.History{Job: job, Attempts: c.attempts, Redrives: c.redriven}, at(c.now).Time))); diff != "" {
			t.Error(name, diff)
		}
	}
}
