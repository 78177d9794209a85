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
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// run is one run of a scenario.
type run struct {
	settings
	id       string
	begun    time.Time
	url      string
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

// gcPercent is GOGC of the generator. Its live heap is small, so the collector would run often, at the cost of the
// services on the same machine.
const gcPercent = 400

// target is the server of a run, with its credentials.
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
			return t, errors.New("FORGEQUEUE_API_KEY is not set, and no `forgequeue up` started by your user runs here, or more than one; " +
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

// prepare makes the tenants of a run; end revokes the platform's key.
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

// useQueue sends all further jobs to a queue of the run, and warms it up.
func (r *run) useQueue(ctx context.Context, suffix string) {
	r.queue = r.baseQueue + suffix
	r.endpoint.Use(wire.NewShape(r.queue, r.payload, r.types).WithKeys(r.keys))
	r.warm(ctx)
}

// warm does a job for each caller, not measured: the first use of keys, tenants and
// queues reads or makes them.
func (r *run) warm(ctx context.Context) {
	seen, was, unsent := r.rec, r.settings, r.unsent
	defer func() { r.rec, r.settings, r.unsent = seen, was, unsent }()
	r.rec = newRecorder()
	r.jobs, r.duration, r.closed, r.batch, r.items = max(len(r.callers), 2*r.concurrency), warmTime, true, 1, 1
	f := r.newFlow()
	f.pace.grace, f.wait, f.prefix = 0, warmWait, "warm_" // the prefix is part of idempotency keys too
	r.doing("warming up", int64(r.jobs), f.finished.Load)
	ctx, stop := context.WithTimeout(ctx, warmTime)
	defer stop()
	f.all(ctx)
}

// newID is the name of a run, valid as a queue's name.
func newID() string { return "bench-" + strings.ToLower(rand.Text()[:10]) }

// tuneGC sets gcPercent, unless GOGC is set.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// newLink is a sender's connection to the server; the run's recorder counts its errors.
func (r *run) newLink() *wire.Link { return wire.NewLink(r.endpoint, r.begun, r.rec.failed) }

// doing shows the progress of the next step.
func (r *run) doing(what string, total int64, count func() int64) { r.progress.now(what, total, count) }
