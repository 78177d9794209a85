package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	more := bar{"more", "ours", "theirs", 2, 3, false}
	less := bar{"less", "ours", "", 5, 3, true}
	for _, test := range []struct {
		bar          bar
		ours, theirs map[int]float64
		ratio        float64
		verdict      string
	}{
		{more, map[int]float64{0: 20, 1: 30, 2: 90}, map[int]float64{0: 10, 1: 10, 2: 10}, 3, "stretch"},
		{more, map[int]float64{0: 20, 1: 25, 2: 10}, map[int]float64{0: 10, 1: 10, 2: 10}, 2, "reached"},
		{more, map[int]float64{0: 19}, map[int]float64{0: 10}, 1.9, "NOT REACHED"},
		// A round in which the peer failed has nothing to be divided by.
		{more, map[int]float64{0: 19, 1: 40}, map[int]float64{1: 10}, 4, "stretch"},
		{more, map[int]float64{0: 19}, nil, 0, "not measured"},
		{less, map[int]float64{0: 3}, nil, 3, "stretch"},
		{less, map[int]float64{0: 4}, nil, 4, "reached"},
		{less, map[int]float64{0: 5.1}, nil, 5.1, "NOT REACHED"},
		{less, nil, nil, 0, "not measured"},
	} {
		r := &results{Measures: map[string]map[int]float64{"ours": test.ours, "theirs": test.theirs}}
		if got := r.judge(test.bar); got.Ratio != test.ratio || got.Verdict != test.verdict {
			t.Errorf("%v: %+v", test, got)
		}
	}
}

func TestASmallerSizeIsSaid(t *testing.T) {
	t.Parallel()
	r := newResults(t.Context(), &options{depth: 1_000_000, snapshotJobs: 1000, tenants: 10})
	r.add(0, backlogRatio, 1)
	r.add(0, snapshotRatio, 1)
	r.add(0, coreMemory, 1)
	var out bytes.Buffer
	r.print(&out)
	for _, want := range []string{"stretch (at 1000000, not 5000000)", "stretch (1000 jobs, not 500000)", "not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Count(out.String(), "not 1000000)") != 0 {
		t.Errorf("memory at its bar's own size is called smaller:\n%s", out.String())
	}
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://postgres@/forgequeue_1?host=%2Ftmp%2Ffq&port=5432": "forgequeue_1",
		"postgres://u@h:5432/db":                "db",
		"postgres://u@/db?host=/tmp/a/b&port=1": "db",
	} {
		if got := nameOf(url); got != want {
			t.Errorf("%s: %s", url, got)
		}
	}
}

// What was not measured is not a success: none at all, or what the budget left no time for.
func TestComplete(t *testing.T) {
	t.Parallel()
	measured := func(but string) *results {
		r := &results{Measures: map[string]map[int]float64{}}
		for _, b := range bars() {
			for _, name := range []string{b.measure, b.by} {
				if name != "" && name != but {
					r.add(0, name, 1)
				}
			}
		}
		return r
	}
	if err := measured("").complete(false); err != nil {
		t.Errorf("all: %v", err)
	}
	for _, part := range []bool{false, true} {
		if err := (&results{}).complete(part); err == nil {
			t.Errorf("nothing, part %t", part)
		}
	}
	lacking := measured(idleStatements)
	if err := lacking.complete(false); err == nil || !strings.Contains(err.Error(), "idle statements") {
		t.Errorf("one is missing: %v", err)
	}
	if err := lacking.complete(true); err != nil {
		t.Errorf("one that was not asked for: %v", err)
	}
	if lacking.cut = true; lacking.complete(true) == nil {
		t.Error("one for which there was no time")
	}
}
