package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	rec := newRecorder()
	for i := range 1000 {
		rec.took("submit", time.Duration(i+1)*time.Millisecond)
	}
	rec.failed("rate_limited", 3, "too \x1b[31mfast")
	rec.submitted.Store(1000)
	rec.finished.Store(400)
	r := newReport("submit", "gateway", map[string]any{"rate": "1000", "queue": "q"}, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	r.Jobs, r.Seconds, r.Unsent = 1000, 2, 7
	r.Figures["ratio"], r.Slices["with"] = 0.5, []float64{100, 50}
	r.close(rec)
	if r.JobsPerSecond != 500 || r.LeftQueued != 600 || r.Errors["rate_limited"] != 3 {
		t.Errorf("%+v", r)
	}
	near := func(got, want float64) bool { return got > want*0.998 && got < want*1.002 }
	if l := r.Latencies["submit"]; l.Count != 1000 || !near(l.P50, 500) || !near(l.P90, 900) || !near(l.P99, 990) || !near(l.P999, 999) || !near(l.Max, 1000) {
		t.Errorf("%+v", l)
	}
	var text bytes.Buffer
	if err := r.writeJSON(&text); err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(text.Bytes(), &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"scenario", "target", "settings", "started_at", "seconds", "jobs", "jobs_per_second", "latencies_ms", "figures", "slices",
		"errors", "left_queued", "unsent", "commit", "go_version", "machine",
	} {
		if _, ok := members[name]; !ok {
			t.Errorf("no %s in %s", name, text.String())
		}
	}
	text.Reset()
	if err := r.writeTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"submit through gateway", "500 jobs/s", "queue=q", "rate_limited", "p99.9", "600 jobs in queue q", "unsent", "[100 50]"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	if strings.ContainsRune(text.String(), 0x1b) {
		t.Error("what a server wrote steers the terminal")
	}
}

func TestARunThatWasRefusedHasFailed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		jobs, errors int64
		failed       bool
	}{{100, 0, false}, {100, 5, false}, {100, 50, true}, {0, 0, true}} {
		r := &Report{Jobs: test.jobs, Errors: map[string]int64{"x": test.errors}}
		if r.failed() != test.failed {
			t.Errorf("%+v", test)
		}
	}
}

func TestSlicesAndTimes(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	s := newSliceTimes(100, begun)
	s.reached(99, begun.Add(time.Second))
	s.reached(150, begun.Add(2*time.Second))
	s.reached(200, begun.Add(3*time.Second))
	s.reached(410, begun.Add(5*time.Second)) // two at once: the second took no time of its own
	if rates := s.rates(); len(rates) != 4 || rates[0] != 50 || rates[1] != 100 || rates[2] != 50 {
		t.Errorf("%v", rates)
	}
}

func TestDepths(t *testing.T) {
	t.Parallel()
	var d depths
	if err := d.Set("10k, 1M,5000000"); err != nil || d.String() != "10000,1000000,5000000" {
		t.Errorf("%v %v", d, err)
	}
	for _, text := range []string{"", "0", "-1", "x", "10,5", "10,10", "9999999M"} {
		if err := new(depths).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
