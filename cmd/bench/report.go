package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Report is the result of a scenario: JSON with --json, else a table.
type Report struct {
	Scenario string `json:"scenario"`
	// Target is gateway or core.
	Target   string         `json:"target"`
	Settings map[string]any `json:"settings"`
	Started  time.Time      `json:"started_at"`
	// Seconds is the time of the part that was measured.
	Seconds float64 `json:"seconds"`
	// Jobs is how many the throughput counts: submitted or finished, by scenario.
	Jobs          int64   `json:"jobs"`
	JobsPerSecond float64 `json:"jobs_per_second"`
	// Latencies are in milliseconds, by what was measured.
	Latencies map[string]Latency `json:"latencies_ms"`
	// Figures are what the scenario is about beside them, such as ratios.
	Figures map[string]float64 `json:"figures"`
	// Slices are jobs a second, slice by slice, by pass.
	Slices map[string][]float64 `json:"slices"`
	// Errors are jobs, or requests where no job is concerned, by problem code.
	Errors       map[string]int64 `json:"errors"`
	ErrorExample string           `json:"error_example"`
	// LeftQueued is how many jobs are still queued at the end of the run.
	LeftQueued int64 `json:"left_queued"`
	// Unsent requests found no free sender in time; latencies count them as late as the end.
	Unsent  int64   `json:"unsent"`
	Commit  string  `json:"commit"`
	Go      string  `json:"go_version"`
	Machine Machine `json:"machine"`
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	Max   float64 `json:"max"`
}

// Machine is where the run took place, with its load.
type Machine struct {
	CPUs       int    `json:"cpus"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

// newReport is a report of a run that begins now.
func newReport(scenario, target string, settings map[string]any, now time.Time) *Report {
	return &Report{
		Scenario: scenario, Target: target, Settings: settings, Started: now.UTC(),
		Latencies: map[string]Latency{}, Figures: map[string]float64{}, Slices: map[string][]float64{}, Errors: map[string]int64{},
		Commit: commit(), Go: runtime.Version(),
		Machine: Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, LoadBefore: load()},
	}
}

// close adds the recorded latencies and errors.
func (r *Report) close(rec *recorder) {
	r.Latencies = rec.summary()
	r.Errors, r.ErrorExample = rec.failures()
	r.LeftQueued = max(rec.submitted.Load()-rec.finished.Load(), 0)
	if r.Seconds > 0 {
		r.JobsPerSecond = float64(r.Jobs) / r.Seconds
	}
	r.Machine.LoadAfter = load()
}

// failed reports whether more than a tenth of the requests failed: the figures then
// mean little.
func (r *Report) failed() bool {
	var errors int64
	for _, n := range r.Errors {
		errors += n
	}
	return errors*10 > r.Jobs+errors || r.Jobs == 0
}

func (r *Report) writeJSON(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r *Report) writeTable(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "scenario\t%s through %s\n", r.Scenario, r.Target)
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		settings = append(settings, fmt.Sprintf("%s=%v", name, r.Settings[name]))
	}
	fmt.Fprintf(w, "settings\t%s\n", strings.Join(settings, " "))
	fmt.Fprintf(w, "jobs\t%d in %.2f s\t%.0f jobs/s\n", r.Jobs, r.Seconds, r.JobsPerSecond)
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		fmt.Fprintf(w, "%s\t%.3f\n", name, r.Figures[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Slices)) {
		fmt.Fprintf(w, "%s, jobs/s by slice\t%.0f\n", name, r.Slices[name])
	}
	if r.Unsent > 0 {
		fmt.Fprintf(w, "unsent\t%d requests (counted as late as the end)\n", r.Unsent)
	}
	if r.LeftQueued > 0 {
		fmt.Fprintf(w, "left queued\t%d jobs in queue %v\n", r.LeftQueued, r.Settings["queue"])
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "error %s\t%d\n", code, r.Errors[code])
	}
	if r.ErrorExample != "" {
		fmt.Fprintf(w, "such as\t%s\n", printable(r.ErrorExample))
	}
	fmt.Fprintf(w, "made by\tcommit %s, %s, %d CPUs, load %s → %s, %s\n",
		r.Commit, r.Go, r.Machine.CPUs, r.Machine.LoadBefore, r.Machine.LoadAfter, r.Started.Format(time.RFC3339))
	if err := w.Flush(); err != nil {
		return err
	}
	return r.writeLatencies(to)
}

func (r *Report) writeLatencies(to io.Writer) error {
	if len(r.Latencies) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nlatency, ms\tcount\tp50\tp90\tp99\tp99.9\tmax\t")
	for _, name := range slices.Sorted(maps.Keys(r.Latencies)) {
		l := r.Latencies[name]
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", name, l.Count, l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	return w.Flush()
}

// printable replaces control characters, by which a server's text could control the terminal, with spaces.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
}

// builtFrom is the commit, for a build without version control's stamp:
// -ldflags "-X <this package>.builtFrom=$(git rev-parse HEAD)".
var builtFrom string

// commit is what this program was built from; "unknown" without either stamp.
func commit() string {
	if builtFrom != "" {
		return builtFrom
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "unknown", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "+changes"
		}
	}
	return revision + dirty
}

// load is the machine's load average over one, five and fifteen minutes; empty
// without /proc.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
