package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	defaultConcurrency = 10
	defaultWait        = 20 * time.Second
	defaultGrace       = 20 * time.Second
	defaultUnknownType = 30 * time.Second
)

// Options say what a worker takes and how much of it at once.
type Options struct {
	// Client calls the server; its key needs the scope work. Required.
	Client *client.Client
	// WorkerID names this worker, 1 to 128 printable ASCII characters, no two
	// alike at a time; "host-pid-random" if empty.
	WorkerID string
	// Queues are claimed from; "default" if empty.
	Queues []string
	// Tags are what this worker can do: it is given jobs whose tags are all among them.
	Tags []string
	// Concurrency is how many handlers run at once; 10 if 0. Behind quick handlers up to ten times as many jobs may be
	// leased for a moment: see the package's text on jobs claimed ahead.
	Concurrency int
	// Metadata is shown in the list of workers.
	Metadata map[string]string
	// Logger gets one line for each attempt; slog.Default() if nil.
	Logger *slog.Logger
	// Wait is how long a claim waits for the first job, at most 25 s; 20 s if 0.
	Wait time.Duration
	// Grace is how long running handlers may go on once Run's context has ended;
	// 20 s if 0, none if negative. Run returns at most 8 s after it.
	Grace time.Duration
	// UnknownTypeDelay is for how long a job is put back whose type has no handler
	// here, so that another worker gets it; 30 s if 0.
	UnknownTypeDelay time.Duration
}

// Worker claims jobs and runs their handlers. Make it with New, give it
// handlers with Handle, then Run it once.
type Worker struct {
	client      *client.Client
	id          string
	queues      []string
	tags        []string
	concurrency int
	metadata    map[string]string
	logger      *slog.Logger
	wait        time.Duration
	grace       time.Duration
	unknown     time.Duration

	mu         sync.Mutex
	handlers   map[string]HandlerFunc
	options    map[string]handlerOptions
	middleware []func(HandlerFunc) HandlerFunc
	faults     []error
	started    bool
}

// New makes a worker. Nothing starts before Run. The error has every problem of the
// options.
func New(options Options) (*Worker, error) {
	w := &Worker{
		client: options.Client, id: options.WorkerID,
		queues: slices.Clone(options.Queues), tags: slices.Clone(options.Tags),
		concurrency: options.Concurrency, metadata: options.Metadata,
		logger: options.Logger, wait: options.Wait, grace: options.Grace,
		unknown:  options.UnknownTypeDelay,
		handlers: map[string]HandlerFunc{}, options: map[string]handlerOptions{},
	}
	w.defaults()
	if err := w.check(); err != nil {
		return nil, err
	}
	w.logger = w.logger.With("worker_id", w.id)
	return w, nil
}

// ID is the worker's name in the server's list.
func (w *Worker) ID() string { return w.id }

func (w *Worker) defaults() {
	if w.id == "" {
		w.id = ownID()
	}
	if len(w.queues) == 0 {
		w.queues = []string{api.DefaultQueue}
	}
	if w.tags == nil {
		w.tags = []string{} // null would mean "as registered"
	}
	if w.concurrency == 0 {
		w.concurrency = defaultConcurrency
	}
	if w.logger == nil {
		w.logger = slog.Default()
	}
	if w.wait == 0 {
		w.wait = defaultWait
	}
	if w.grace == 0 {
		w.grace = defaultGrace
	}
	if w.unknown == 0 {
		w.unknown = defaultUnknownType
	}
}

func (w *Worker) check() error {
	var faults []error
	if w.client == nil {
		faults = append(faults, errors.New("worker: Client is nil"))
	}
	if w.wait < 0 || w.wait > api.MaxWait {
		faults = append(faults, fmt.Errorf("worker: Wait is %v, and 0 to %v are allowed", w.wait, api.MaxWait))
	}
	if w.unknown < 0 || w.unknown > api.MaxDelay {
		faults = append(faults, fmt.Errorf("worker: UnknownTypeDelay is %v, and 0 to %v are allowed", w.unknown, api.MaxDelay))
	}
	registration := w.registration()
	if fields := registration.Validate(); len(fields) > 0 {
		faults = append(faults, fmt.Errorf("worker: %w", problem.Invalid(fields...)))
	}
	return errors.Join(faults...)
}

// registration is the worker's registration.
func (w *Worker) registration() api.WorkerRequest {
	return api.WorkerRequest{
		WorkerID: w.id, Queues: w.queues, Types: typesOf(w.handlers), Tags: w.tags, Concurrency: &w.concurrency, Metadata: w.metadata,
	}
}

// ownID identifies the process in the list of workers.
func ownID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return '-'
		}
		return c
	}, host)
	return fmt.Sprintf("%s-%d-%s", host[:min(len(host), 64)], os.Getpid(), strings.ToLower(rand.Text()[:8]))
}
