package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// bar is one line of PERFORMANCE.md: a measure, what it is divided by, and what is
// to be reached.
type bar struct {
	name, measure, by string
	reach, stretch    float64
	// least says that less is better.
	least bool
}

// bars are in PERFORMANCE.md's order. Those of the gateway against nginx need nginx
// and are not here.
func bars() []bar {
	return []bar{
		{"single submits to core ÷ River's best single insert", submitCore, riverInsert, 4, 4.5, false},
		{"single submits through gateway + core, limits on ÷ the same", submitGateway, riverInsert, 2.5, 3, false},
		{"end to end (batches of 500) ÷ river bench", e2eBatch, riverBench, 1.6, 2.2, false},
		{"end to end, single submits ÷ river bench", e2eSingle, riverBench, 0.5, 0.8, false},
		{"drain by 100 ÷ River worked at 2 ms cooldown", drain, riverWorked, 1.3, 2, false},
		{"Go SDK worker, 10 at once ÷ drain by 100", workerTen, drain, 0.4, 0.6, false},
		{"Go SDK worker, 100 at once ÷ drain by 100", workerHundred, drain, 0.8, 0.95, false},
		{"claim p50 at the deepest backlog ÷ at 10k", backlogRatio, "", 1.5, 1.2, true},
		{"old snapshot: last ÷ first slice, ÷ without", snapshotRatio, "", 0.8, 0.95, false},
		{"the same with many tenants and caps", snapshotMany, "", 0.9, 0.97, false},
		{"idle submit → worker has it, p50 ms", idleP50, "", 3.5, 2.5, true},
		{"core's memory at the deepest backlog, MiB", coreMemory, "", 200, 128, true},
		{"gateway's memory at the deepest backlog, MiB", gatewayMemory, "", 256, 128, true},
		{"idle statements a second", idleStatements, "", 5, 2, true},
	}
}

// results are what was measured, by name and round.
type results struct {
	Commit     string                     `json:"commit"`
	Go         string                     `json:"go_version"`
	CPUs       int                        `json:"cpus"`
	Started    time.Time                  `json:"started_at"`
	LoadBefore string                     `json:"load_before"`
	Options    string                     `json:"options"`
	Measures   map[string]map[int]float64 `json:"measures"`
	Commands   map[string]string          `json:"commands"`
	// CPU is the CPU time of each measure, by kind of process, of those that run in turn.
	CPU map[string]map[int]cpuSeconds `json:"cpu_seconds"`
	// Reduced are measures made at a smaller size than their bar's, with what it was.
	Reduced map[string]string `json:"reduced"`
	Bars    []outcome         `json:"bars"`
	// Servers is the table of the servers; Hatchet is the commit of the one that was built.
	Servers []serverRow `json:"servers,omitempty"`
	Hatchet string      `json:"hatchet_commit,omitempty"`
	Notes   []string    `json:"notes"`
	// cut says that the budget was used up.
	cut bool
}

// outcome is a bar with what came of it.
type outcome struct {
	Bar     string    `json:"bar"`
	Ratio   float64   `json:"ratio"`
	Runs    []float64 `json:"runs"`
	Reach   float64   `json:"to_reach"`
	Stretch float64   `json:"stretch"`
	Verdict string    `json:"verdict"`
	Command string    `json:"command"`
}

func newResults(ctx context.Context, o *options) *results {
	r := &results{
		Commit: commit(ctx), Go: runtime.Version(), CPUs: runtime.NumCPU(), Started: time.Now().UTC(), LoadBefore: load(),
		Options:  fmt.Sprintf("rounds=%d t=%v jobs=%d snapshot-jobs=%d tenants=%d depth=%d", o.rounds, o.timed, o.workJobs, o.snapshotJobs, o.tenants, o.depth),
		Measures: map[string]map[int]float64{}, Commands: map[string]string{}, CPU: map[string]map[int]cpuSeconds{}, Reduced: map[string]string{},
	}
	if o.depth < barDepth {
		r.Reduced[backlogRatio] = fmt.Sprintf("at %d, not %d", o.depth, barDepth)
	}
	if o.depth < barMemory {
		r.Reduced[coreMemory] = fmt.Sprintf("at %d, not %d", o.depth, barMemory)
		r.Reduced[gatewayMemory] = r.Reduced[coreMemory]
	}
	if o.snapshotJobs < barSnapshot {
		r.Reduced[snapshotRatio] = fmt.Sprintf("%d jobs, not %d", o.snapshotJobs, barSnapshot)
		r.Reduced[snapshotMany] = fmt.Sprintf("%d jobs, %d tenants", o.snapshotJobs, o.tenants)
	}
	return r
}

// What PERFORMANCE.md's bars ask for: a ratio at a smaller size proves less.
const (
	barDepth    = 5_000_000
	barMemory   = 1_000_000
	barSnapshot = 500_000
)

func (r *results) add(round int, name string, value float64) {
	if r.Measures[name] == nil {
		r.Measures[name] = map[int]float64{}
	}
	r.Measures[name][round] = value
}

func (r *results) addCPU(round int, name string, used cpuSeconds) {
	if used == nil {
		return
	}
	if r.CPU[name] == nil {
		r.CPU[name] = map[int]cpuSeconds{}
	}
	r.CPU[name][round] = used
}

func (r *results) command(name string, args []string) {
	text := strings.Join(args, " ")
	if !strings.HasPrefix(text, "(") {
		text = "forgequeue-bench " + text
	}
	r.Commands[name] = text
}

func (r *results) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(os.Stderr, text)
	r.Notes = append(r.Notes, text)
}

// judge divides each round's measure by the peer's of the same round: they were run
// in turn, and the machine may be another one minutes later.
func (r *results) judge(b bar) outcome {
	o := outcome{Bar: b.name, Reach: b.reach, Stretch: b.stretch, Command: r.Commands[b.measure], Verdict: "not measured"}
	for _, round := range sortedRounds(r.Measures[b.measure]) {
		value := r.Measures[b.measure][round]
		if b.by != "" {
			peer := r.Measures[b.by][round]
			if peer == 0 {
				continue
			}
			value /= peer
		}
		o.Runs = append(o.Runs, value)
	}
	if len(o.Runs) == 0 {
		return o
	}
	o.Ratio = median(o.Runs)
	reached := func(goal float64) bool { return o.Ratio >= goal != b.least || o.Ratio == goal }
	switch {
	case reached(b.stretch):
		o.Verdict = "stretch"
	case reached(b.reach):
		o.Verdict = "reached"
	default:
		o.Verdict = "NOT REACHED"
	}
	if smaller := r.Reduced[b.measure]; smaller != "" {
		o.Verdict += " (" + smaller + ")"
	}
	return o
}

func sortedRounds(of map[int]float64) []int {
	var rounds []int
	for round := range of {
		rounds = append(rounds, round)
	}
	slices.Sort(rounds)
	return rounds
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// missing are the bars that were not measured.
func (r *results) missing() (names []string) {
	for _, b := range bars() {
		if len(r.judge(b).Runs) == 0 {
			names = append(names, b.name)
		}
	}
	return names
}

// complete says whether bars were not measured: none at all, or, unless a part was asked for, one of them. Servers alone
// are complete without a bar, unless the budget was used up.
func (r *results) complete(part bool) error {
	missing, servers := r.missing(), len(r.serverRows()) > 0
	switch {
	case len(missing) == len(bars()) && !servers:
		return errors.New("nothing was measured: see the notes")
	case len(missing) == len(bars()) && part && r.cut:
		return errors.New("not all servers were measured: see the notes, and give more with -budget")
	case len(missing) == len(bars()) && part:
		return nil
	case len(missing) > 0 && (!part || r.cut):
		return fmt.Errorf("not measured: %s; see the notes, and give more with -budget if that was used up", strings.Join(missing, ", "))
	}
	return nil
}

func (r *results) print(to io.Writer) {
	r.Bars = nil
	fmt.Fprintf(to, "\ncommit %s, %s, %d CPUs, %s, load %s → %s\n%s\n\n",
		r.Commit, r.Go, r.CPUs, r.Started.Format(time.RFC3339), r.LoadBefore, load(), r.Options)
	if r.printServers(to); len(r.Servers) == 0 || len(r.missing()) < len(bars()) {
		r.printBars(to)
	}
	fmt.Fprintln(to, "\nMEASURE\tMEDIAN\tRUNS\tCOMMAND")
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, name := range sortedNames(r.Measures) {
		var runs []float64
		for _, round := range sortedRounds(r.Measures[name]) {
			runs = append(runs, r.Measures[name][round])
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%s\n", name, median(runs), runs, r.Commands[name])
	}
	_ = w.Flush()
	for _, note := range r.Notes {
		fmt.Fprintln(to, "note:", note)
	}
}

func (r *results) printBars(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BAR\tRATIO\tRUNS\tTO REACH\tSTRETCH\tVERDICT")
	for _, b := range bars() {
		o := r.judge(b)
		r.Bars = append(r.Bars, o)
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%g\t%g\t%s\n", o.Bar, o.Ratio, o.Runs, o.Reach, o.Stretch, o.Verdict)
	}
	_ = w.Flush() // nobody to be told
}

func sortedNames(of map[string]map[int]float64) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *results) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
