package main

import (
	"context"
	"fmt"
	"strconv"
)

// Names of the measures that are run in turn.
const (
	riverInsert = "River: best single insert"
	riverBench  = "River: bench"
	riverWorked = "River: worked at 2 ms cooldown"

	submitCore    = "single submits to core"
	submitGateway = "single submits through gateway and core, limits on"
	e2eBatch      = "end to end, batches of 500"
	e2eSingle     = "end to end, single submits"
	drain         = "drain by 100"
	workerTen     = "Go SDK worker, 10 at once"
	workerHundred = "Go SDK worker, 100 at once"
	idleP50       = "idle submit to worker, p50 ms"
)

// turns runs each of River's measures and ours that are divided by it, one after the
// other, on fresh databases of one server.
func turns(ctx context.Context, m *machine, o *options, round int, into *results) error {
	p, err := newPeer(ctx, m)
	if err != nil {
		return err
	}
	defer p.close()
	s, err := startStack(ctx, m, false)
	if err != nil {
		return err
	}
	defer s.stop()
	timed, jobs := o.timed.String(), strconv.Itoa(o.workJobs)
	for _, step := range []struct {
		name string
		run  func() (float64, error)
	}{
		{riverInsert, func() (float64, error) { return p.bestInsert(ctx, o.timed/2) }},
		{submitCore, s.rate(ctx, into, submitCore, "submit", "--core", s.coreURL, "--closed", "--concurrency", "64", "--duration", timed)},
		{submitGateway, s.rate(ctx, into, submitGateway, "submit", "--closed", "--concurrency", "64", "--limits", "--duration", timed)},
		{riverBench, func() (float64, error) { return p.bench(ctx, 2*o.timed) }},
		{e2eBatch, s.rate(ctx, into, e2eBatch, "e2e", "--closed", "--batch", "500", "--claim-batch", "500", "--concurrency", "4", "--consumers", "4", "--jobs", jobs, "--duration", "1m")},
		{e2eSingle, s.rate(ctx, into, e2eSingle, "e2e", "--closed", "--batch", "1", "--claim-batch", "100", "--concurrency", "64", "--consumers", "4", "--duration", timed)},
		{riverWorked, func() (float64, error) { return p.worked(ctx, o.workJobs) }},
		{drain, s.rate(ctx, into, drain, "drain", "--claim-batch", "100", "--consumers", "8", "--jobs", jobs)},
		{workerTen, s.rate(ctx, into, workerTen, "worker", "--concurrency", "10", "--jobs", jobs)},
		{workerHundred, s.rate(ctx, into, workerHundred, "worker", "--concurrency", "100", "--jobs", jobs)},
		{idleP50, s.figure(ctx, into, idleP50, func(r report) float64 { return r.Latencies["start"].P50 }, "idle-latency", "--jobs", "200")},
	} {
		before := s.cpu()
		value, err := step.run()
		used := s.cpu().since(before)
		if err != nil {
			if ctx.Err() != nil {
				into.cut = true
				return ctx.Err()
			}
			into.note("round %d: %s: %v", round+1, step.name, err)
			continue // the others can still be compared
		}
		fmt.Printf("round %d\t%-52s %12.2f%s\n", round+1, step.name, value, used)
		into.add(round, step.name, value)
		into.addCPU(round, step.name, used)
	}
	return nil
}

// rate is a measure of ours in jobs a second.
func (s *stack) rate(ctx context.Context, into *results, name string, args ...string) func() (float64, error) {
	return s.figure(ctx, into, name, func(r report) float64 { return r.JobsPerSecond }, args...)
}

func (s *stack) figure(ctx context.Context, into *results, name string, of func(report) float64, args ...string) func() (float64, error) {
	into.command(name, args)
	return func() (float64, error) {
		r, err := s.bench(ctx, args...)
		return of(r), err
	}
}
