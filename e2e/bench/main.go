// Command bench runs River and ForgeQueue in turn on one PostgreSQL server, and
// prints the ratios of PERFORMANCE.md's bars. `make peers` builds and runs it.
//
//	PostgreSQL, Redis (children) ▶ per round: a fresh database, core, gateway
//	        ▶ River's measure, ours, River's, ours, … ▶ per round: idle, snapshots, backlog
//	        ▶ ratios, median over rounds
//
// With -hatchet it also runs three servers in turn, each on a fresh database, with a worker
// and callers of its Go SDK: ForgeQueue, Hatchet with RabbitMQ, Hatchet on PostgreSQL alone.
//
// Absolute figures move by half within minutes on a shared machine; what was run
// in turn on the same server can be compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	rounds       int
	singles      int
	timed        time.Duration
	workJobs     int
	snapshotJobs int
	tenants      int
	depth        int
	budget       time.Duration
	quick        bool
	json         string
	only         string
	hatchet      string
}

// Parts of it.
const (
	partTurns   = "turns"
	partSingle  = "single"
	partServers = "servers"
)

// part says whether a part is measured. Servers are only where their peer is given, or where they are asked for.
func (o *options) part(name string) bool {
	if o.only == "" {
		return name != partServers || o.hatchet != ""
	}
	return o.only == name
}

// idleJobs is how many jobs are submitted to an idle server.
func (o *options) idleJobs() int {
	if o.quick {
		return 50
	}
	return 200
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of the measures that are run in turn")
	flag.IntVar(&o.singles, "single-rounds", 3, "rounds of those that need no peer, as far as the budget goes")
	flag.DurationVar(&o.timed, "t", 3*time.Second, "length of a timed run")
	flag.IntVar(&o.workJobs, "jobs", 100_000, "jobs to work off in a run")
	flag.IntVar(&o.snapshotJobs, "snapshot-jobs", 200_000, "jobs pushed through beside an old snapshot; the bar's is 500000")
	flag.IntVar(&o.tenants, "tenants", 1000, "tenants of the snapshot run that has many")
	flag.IntVar(&o.depth, "depth", 1_000_000, "deepest backlog; the bar's is 5000000")
	flag.DurationVar(&o.budget, "budget", 15*time.Minute, "time for all of it: what does not fit is left out, and said to be")
	flag.BoolVar(&o.quick, "quick", false, "four minutes, eight with servers: shorter runs, smaller numbers")
	flag.StringVar(&o.json, "json", "", "also write the results to this file")
	flag.StringVar(&o.only, "only", "", "turns, single or servers: only the measures of this part")
	flag.StringVar(&o.hatchet, "hatchet", "", "clone of hatchet-dev/hatchet, bare or not: the peer of servers, which is built in the user's cache")
	flag.Parse()
	if !slices.Contains([]string{"", partTurns, partSingle, partServers}, o.only) {
		fmt.Fprintf(os.Stderr, "-only %s: must be turns, single or servers\n", o.only)
		os.Exit(2)
	}
	if o.quick {
		o.timed, o.workJobs, o.snapshotJobs, o.tenants, o.depth, o.budget = time.Second, 20_000, 20_000, 200, 50_000, 4*time.Minute
		o.singles = 1
		if o.part(partServers) {
			o.budget *= 2 // an engine that was killed takes a minute
		}
	}
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) (err error) {
	m, err := newMachine(ctx, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.budget) // of what follows the builds
	defer cancel()
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	if err := m.start(ctx); err != nil {
		return err
	}
	results := newResults(ctx, o)
	if m.hatchet != nil {
		results.Hatchet = m.hatchet.commit
	}
	if o.part(partTurns) {
		for round := range o.rounds {
			if err := turns(ctx, m, o, round, results); err != nil {
				results.note("round %d: %v", round+1, err)
				break
			}
		}
	}
	if o.part(partSingle) {
		for round := range o.singles {
			single(ctx, m, o, round, results)
		}
	}
	if o.part(partServers) {
		for round := range o.rounds {
			servers(ctx, m, o, round, results)
		}
	}
	results.print(os.Stdout)
	if o.json != "" {
		err = results.write(o.json)
	}
	return errors.Join(err, results.complete(o.only != ""))
}

// root is the repository's: this program is started in e2e/bench by the Makefile.
func root() (string, error) {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil {
		return "", fmt.Errorf("start it in e2e/bench, as `make peers` does: %w", err)
	}
	return dir, nil
}
