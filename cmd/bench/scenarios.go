package bench

import (
	"context"
	"errors"
	"time"
)

// scenario is one kind of load.
type scenario struct {
	name, short, long string
	// flags it takes beside those of every scenario.
	flags    []string
	defaults func(*settings)
	// many tenants' jobs are claimed, with a platform key.
	many bool
	run  func(context.Context, *run) error
}

// defaultSettings are those of a scenario without defaults of its own.
func defaultSettings() settings {
	return settings{
		rate: 1000, concurrency: 64, consumers: 8, batch: 1, claimBatch: 100, items: 1, types: 1, duration: 10 * time.Second,
		payload: 200, lead: 20_000, claims: 200, backlog: 50_000, depths: depths{10_000, 100_000},
	}
}

func scenarios() []scenario { //nolint:funlen // one table
	return []scenario{
		{
			name: "submit", short: "Submit jobs, and nothing else",
			long: `Submit jobs at --rate, and time the answers. The jobs stay queued: give the run a stack of its own.
latency submit              from the intended start to the answer
        submit_from_sending from when it was really sent: what a generator that waits would have told
        generator_lag       how late this program itself woke up`,
			flags: []string{"rate", "closed", "concurrency", "batch", "items", "tenants", "limits", "keyed"},
			run:   runSubmit,
		},
		{
			name: "drain", short: "Queue jobs, then claim and complete them as fast as can be",
			long: `Queue --jobs jobs beforehand, then claim and complete them as fast as can be. Closed-loop by nature: the
figure is the throughput.`,
			flags: []string{"consumers", "claim-batch", "types", "limits"}, defaults: func(s *settings) { s.jobs, s.duration = 50_000, time.Minute },
			run: runDrain,
		},
		{
			name: "worker", short: "Queue jobs, then run them with a worker of the Go SDK",
			long: `Queue --jobs jobs beforehand, then run them with a worker of the Go SDK that runs --concurrency at once and does
nothing in each, or waits for --work. Divide by drain to see what a worker costs.`,
			flags: []string{"concurrency", "limits", "work"}, defaults: func(s *settings) { s.concurrency, s.jobs, s.duration = 10, 50_000, time.Minute },
			run: runWorker,
		},
		{
			name: "e2e", short: "Submit, claim and complete side by side",
			long: `Submit, claim and complete side by side.
latency start  from the intended start of the submit to a worker having the job
        end    from there to its completion being answered`,
			flags: []string{"rate", "closed", "concurrency", "batch", "items", "consumers", "claim-batch", "types", "keys", "key-max-running", "tenants", "limits", "keyed", "lead"},
			run:   runE2E,
		},
		{
			name: "idle-latency", short: "A job now and then: how soon a waiting worker has it",
			long: `A job now and then on an idle stack, with workers that wait: latency start is from the intended start of the
submit to a worker having the job.`,
			flags: []string{"rate", "concurrency", "consumers", "limits", "keyed"},
			defaults: func(s *settings) {
				s.rate, s.concurrency, s.consumers, s.claimBatch, s.jobs, s.duration = 50, 4, 1, 1, 500, 15*time.Second
			},
			run: runE2E,
		},
		{
			name: "backlog", short: "Claim at ever greater depth",
			long: `Queue jobs up to each of --depths and time claims there, one after the other. A design that looks for work at
the head of an index, or counts, gets slower with depth. What is left stays queued.`,
			flags:    []string{"depths", "claims", "claim-batch", "limits"},
			defaults: func(s *settings) { s.claimBatch, s.consumers, s.duration = 10, 1, time.Minute },
			run:      runBacklog,
		},
		{
			name: "snapshot", short: "Push jobs through while an old snapshot is held open",
			long: `Push --jobs jobs through while a REPEATABLE READ transaction stays open, so that PostgreSQL can remove no
dead row; the rate of the last slice is divided by that of the first. The same without it first, to divide by: a table
that fills from empty slows down as well.`,
			flags: []string{"concurrency", "batch", "items", "consumers", "claim-batch", "tenants", "limits", "keyed", "lead", "slice", "compare", "database-url"},
			defaults: func(s *settings) {
				s.closed, s.compare, s.jobs, s.batch, s.concurrency, s.consumers, s.duration = true, true, 500_000, 500, 4, 4, 5*time.Minute
			},
			run: runSnapshot,
		},
		{
			name: "fairness", short: "One hostile tenant with a backlog, many quiet ones", many: true,
			long: `One tenant has --backlog jobs queued; --tenants others submit now and then (--rate is of all of them). Workers
with a platform key serve all. Latency start is of the quiet ones: first alone, then beside the hostile one.`,
			flags: []string{"rate", "concurrency", "consumers", "claim-batch", "tenants", "limits", "backlog", "work"},
			defaults: func(s *settings) {
				s.tenants, s.rate, s.concurrency, s.consumers, s.claimBatch, s.work = 20, 100, 16, 2, 10, 5*time.Millisecond
			},
			run: runFairness,
		},
		{
			name: "tenants", short: "A thousand tenants with caps, side by side", many: true,
			long:  `Jobs of --tenants tenants in turn, every rate and cap on; workers with a platform key serve all.`,
			flags: []string{"rate", "closed", "concurrency", "batch", "items", "consumers", "claim-batch", "tenants", "limits", "keyed", "lead"},
			defaults: func(s *settings) {
				s.tenants, s.limits, s.rate, s.batch = 1000, true, 2000, 10
			},
			run: runE2E,
		},
	}
}

func runSubmit(ctx context.Context, r *run) error {
	f := r.newFlow()
	r.doing("submitting", f.pace.total*int64(f.batch*f.items), f.submitted.Load)
	begun := time.Now()
	f.produce(ctx)
	r.report.Seconds, r.report.Jobs = time.Since(begun).Seconds(), f.submitted.Load()
	return nil
}

func runDrain(ctx context.Context, r *run) error {
	queued, err := r.fill(ctx, r.jobs, r.callers)
	if err != nil {
		return err
	}
	f := r.newFlow()
	f.target.Store(queued)
	r.doing("draining", queued, f.finished.Load)
	ctx, stop := context.WithTimeout(ctx, r.duration)
	defer stop()
	begun := time.Now()
	f.consume(ctx)
	f.end(time.Now())
	r.report.Seconds, r.report.Jobs = f.ended.Sub(begun).Seconds(), f.finished.Load()
	return nil
}

func runE2E(ctx context.Context, r *run) error {
	f := r.newFlow()
	if f.pace.every == 0 {
		f.lead = int64(r.lead)
	}
	r.doing("jobs finished", f.pace.total*int64(f.batch*f.items), f.finished.Load)
	r.report.Seconds = f.all(ctx).Seconds()
	r.report.Jobs = f.finished.Load()
	return nil
}

func runSnapshot(ctx context.Context, r *run) error {
	if r.jobs == 0 {
		return errors.New("--jobs says how many are pushed through: 0 is none")
	}
	if r.databaseURL == "" {
		return r.environment(errors.New("the database on which to hold the snapshot: give --database-url, DATABASE_URL or --up"))
	}
	ratios, speeds := map[string]float64{}, map[string]float64{}
	pass := func(name string) {
		r.useQueue(ctx, "-"+name)
		f := r.newFlow()
		f.lead, f.prefix = int64(r.lead), name+"_"
		size := r.slice
		if size == 0 {
			size = max(r.jobs/10, 1)
		}
		f.slices = newSliceTimes(min(size, r.jobs), time.Now())
		r.doing(name+" snapshot: jobs finished", int64(r.jobs), f.finished.Load)
		f.pace.total = 0
		took := f.steady(ctx, r.jobs).Seconds()
		r.report.Seconds += took
		r.report.Jobs += f.finished.Load()
		speeds[name] = float64(f.finished.Load()) / max(took, 1e-6)
		r.report.Figures["jobs_per_second_"+name] = speeds[name]
		rates := f.slices.rates()
		r.report.Slices[name] = rates
		if len(rates) > 1 {
			ratios[name] = rates[len(rates)-1] / rates[0]
			r.report.Figures["last_over_first_"+name] = ratios[name]
		}
	}
	if r.compare {
		pass("without")
	}
	release, err := openSnapshot(ctx, r.databaseURL)
	if err != nil {
		return r.environment(err)
	}
	defer release()
	pass("with")
	if ratios["without"] > 0 && ratios["with"] > 0 {
		r.report.Figures["held_over_free"] = ratios["with"] / ratios["without"]
		// The ratio of ratios does not show a run that is slow from beginning to end; this does.
		r.report.Figures["throughput_with_over_without"] = speeds["with"] / speeds["without"]
	}
	return nil
}
