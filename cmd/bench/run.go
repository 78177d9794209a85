package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/cmd/bench/internal/wire"
	"github.com/forgequeue/forgequeue/shared/identity"
)

// run is one run of a scenario.
type run struct {
	settings
	id       string
	begun    time.Time
	endpoint wire.Endpoint
	rec      *recorder
	// callers submit and consumer claims; with many tenants that is the platform.
	callers  []wire.Caller
	consumer wire.Caller
	report   *Report
	unsent   int64
	progress *progress
	// environment marks an error of the machine or its settings.
	environment func(error) error
	// baseQueue is what the names of the run's queues begin with.
	baseQueue string
}

const (
	// warmTime bounds the warm-up.
	warmTime = 10 * time.Second
	warmWait = 50 * time.Millisecond
)

// gcPercent is how much garbage may pile up, in percent of what is live: little is,
// and the collector would take the time of the services on this machine.
const gcPercent = 400

// target is where a run goes and what it knows of it.
type target struct {
	url         string
	core        bool
	keys        wire.Keys
	hopSecret   string // for core
	databaseURL string
}

// find takes the target from the flags and the environment.
func (s *settings) find(options Options, note func(string)) (target, error) {
	t := target{
		databaseURL: s.databaseURL, hopSecret: options.Getenv("FORGEQUEUE_HOP_SECRET"),
		keys: wire.Keys{API: options.Getenv("FORGEQUEUE_API_KEY"), Operator: options.Getenv("FORGEQUEUE_OPERATOR_KEY")},
	}
	if t.databaseURL == "" {
		t.databaseURL = options.Getenv("DATABASE_URL")
	}
	if s.core != "" {
		t.url, t.core = s.core, true
		if len(t.hopSecret) < identity.MinSecretBytes {
			return t, fmt.Errorf("FORGEQUEUE_HOP_SECRET: must have at least %d bytes, and be core's own", identity.MinSecretBytes)
		}
		return t, nil
	}
	t.url = options.Getenv("FORGEQUEUE_URL")
	if t.keys.API == "" && t.keys.Operator == "" && t.url == "" {
		local, ok := options.Local()
		if !ok {
			return t, errors.New("FORGEQUEUE_API_KEY is not set, and no `forgequeue up` of yours runs here on its usual data folder; " +
				"set it, or start a stack for this run with --up")
		}
		note("FORGEQUEUE_API_KEY is not set: using the keys of the `forgequeue up` that runs here (" + local.Data + ")")
		t.url, t.keys.API, t.keys.Operator = local.Gateway, local.APIKey, local.OperatorKey
	}
	if t.keys.API == "" && t.keys.Operator == "" {
		return t, errors.New("FORGEQUEUE_API_KEY is not set: FORGEQUEUE_URL alone is not enough")
	}
	if t.url == "" {
		t.url = "http://127.0.0.1:8080"
	}
	return t, nil
}

// open makes the endpoint of a target.
func (s *settings) open(ctx context.Context, t target, look resolver) (wire.Endpoint, error) {
	base, err := url.Parse(strings.TrimRight(t.url, "/"))
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("%q is not like http://127.0.0.1:8080", t.url)
	}
	if !s.allowRemote {
		if err := onlyLoopback(ctx, base, look); err != nil {
			return nil, err
		}
	}
	if t.core {
		return wire.NewCore(base, t.hopSecret, s.tenant), nil
	}
	return wire.NewGateway(base, t.keys), nil
}

// prepare makes the tenants that a run wants, and gives what undoes it.
func (r *run) prepare(ctx context.Context, many bool) (end func(), err error) {
	end = func() {}
	own, known := r.endpoint.Own()
	plan := wire.AllLimits()
	if !r.limits {
		plan = nil
	}
	switch n := r.tenants; {
	case n == 0 && known && !r.limits:
		r.callers = []wire.Caller{own}
	default:
		r.doing("making tenants", int64(max(n, 1)), nil)
		if r.callers, err = r.endpoint.MakeCallers(ctx, max(n, 1), plan); err != nil {
			return end, r.environment(err)
		}
	}
	if many || len(r.callers) > 1 {
		if r.consumer, end, err = r.endpoint.Platform(ctx); err != nil {
			return func() {}, r.environment(err)
		}
		return end, nil
	}
	r.consumer = r.callers[0]
	return end, nil
}

// useQueue sends the jobs from now on to a queue of the run's, and warms it up.
func (r *run) useQueue(ctx context.Context, suffix string) {
	r.queue = r.baseQueue + suffix
	r.endpoint.Use(wire.NewShape(r.queue, r.payload))
	r.warm(ctx)
}

// warm does a job for each caller, seen by nobody: keys, tenants and queues are read
// and made at their first use, and that is not what a scenario is about.
func (r *run) warm(ctx context.Context) {
	seen, was, unsent := r.rec, r.settings, r.unsent
	defer func() { r.rec, r.settings, r.unsent = seen, was, unsent }()
	r.rec = newRecorder()
	r.jobs, r.duration, r.closed, r.batch, r.items = max(len(r.callers), 2*r.concurrency), warmTime, true, 1, 1
	f := r.newFlow()
	f.pace.grace, f.wait, f.prefix = 0, warmWait, "warm_" // keys of its own too
	r.doing("warming up", int64(r.jobs), f.finished.Load)
	ctx, stop := context.WithTimeout(ctx, warmTime)
	defer stop()
	f.all(ctx)
}

// newID names a run: short, and of letters that any name may have.
func newID() string { return "bench-" + strings.ToLower(rand.Text()[:10]) }

// tuneGC lets garbage pile up, unless the environment says how it is to be.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// newLink is a sender's connection to the server; the run's recorder counts its errors.
func (r *run) newLink() *wire.Link { return wire.NewLink(r.endpoint, r.begun, r.rec.failed) }

// doing shows what is under way, and how far it has come.
func (r *run) doing(what string, total int64, count func() int64) { r.progress.now(what, total, count) }
