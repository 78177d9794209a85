package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/execute"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/syncwriter"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// workFlags are the flags of worker run.
type workFlags struct {
	queues, types, tags               []string
	id                                string
	concurrency                       int
	timeout, snooze, killAfter, grace time.Duration
	silent                            bool
}

func newWorkerRun(a *cli.App) *cobra.Command {
	var f workFlags
	command := &cobra.Command{
		Use:   "run --queue QUEUE -- COMMAND [ARGUMENT...]",
		Short: "Run a command for each job of a queue",
		Long: `Run a command for each job of a queue. The payload comes on its standard input, what it writes to standard
output is the result (JSON where it is JSON, else a text), and its exit code is the outcome:

  0          completed
  75         not now: back after --snooze, no attempt is spent
  65         failed permanently: a dead letter at once
  any other  failed, with the end of standard error; retried while attempts are left

What it writes to standard output and standard error is also sent to the job's output as it comes, which "forgequeue job logs"
shows (--silent sends none of it); standard error is written to this worker's too.

Heartbeats are sent while it runs. When the job is cancelled, its lease is lost or its time is up, the
command and all that it started get SIGTERM, and SIGKILL after --kill-after. Nothing that a command has
started outlives it, unless it leaves the process group; a worker that is itself ended by SIGKILL takes the
command with it (on Linux), but not what that has started. SIGTERM or Ctrl-C drains: no more jobs are taken, those that run have --grace to end; finally the
worker deregisters and is no longer listed. On Windows the command gets Ctrl-Break instead of SIGTERM, and a killed worker
takes all that it has started with it.

The command's environment has FORGEQUEUE_JOB_ID, _TYPE, _QUEUE, _ATTEMPT, _MAX_ATTEMPTS, _EPOCH, _PRIORITY, _TENANT, _USER,
_TAGS, _METADATA (JSON), _DEADLINE, _CREATED_AT, _CORRELATION_ID, _TRACEPARENT, _WORKFLOW and _WORKFLOW_REF, and
TRACEPARENT, where OpenTelemetry's tools look for it. The results of the jobs before it come from
"forgequeue job parents $FORGEQUEUE_JOB_ID -o json". With OTEL_EXPORTER_OTLP_ENDPOINT set, each execution is a span, and TRACEPARENT and FORGEQUEUE_TRACEPARENT
name that span.`,
		Example: `  forgequeue worker run --queue thumbnails --concurrency 4 -- ./thumbnail.sh
  forgequeue worker run -q mail --type welcome --timeout 2m -- python3 mail.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the command to run, after --")
			}
			return nil
		},
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error { return work(ctx, a, s, &f, args) }),
	}
	flags := command.Flags()
	flags.SetInterspersed(false) // flags after the command's name are the command's
	flags.StringSliceVarP(&f.queues, "queue", "q", nil, "queues to claim from; needed, unless --type is given, which alone claims from default")
	flags.StringSliceVar(&f.types, "type", nil, "claim only these types of jobs (default all)")
	flags.StringSliceVar(&f.tags, "tag", nil, "what this worker can do: it also gets the jobs that ask for these tags")
	flags.StringVar(&f.id, "worker-id", "", "this worker's name, no two alike at a time (default host, process and random)")
	flags.IntVar(&f.concurrency, "concurrency", 1, "commands that run at once")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time for one execution, in addition to the job's own")
	flags.DurationVar(&f.snooze, "snooze", 30*time.Second, "for how long exit code 75 puts a job back")
	flags.DurationVar(&f.killAfter, "kill-after", 5*time.Second, "time between SIGTERM and SIGKILL; at most 1.5s when the worker stops")
	flags.DurationVar(&f.grace, "grace", 20*time.Second, "how long commands may still run when the worker stops")
	flags.BoolVar(&f.silent, "silent", false, "do not send what commands write to the output of their jobs")
	return command
}

func (f *workFlags) check() error {
	switch {
	case len(f.queues) == 0 && len(f.types) == 0:
		return cli.Usage("name the queues with --queue, or the types of jobs with --type: without both the command would get every job of the queue default")
	case f.concurrency < 1:
		return cli.Usage("--concurrency %d: must be at least 1", f.concurrency)
	case f.timeout < 0, f.snooze < 0, f.killAfter < 0, f.grace < 0:
		return cli.Usage("a duration must not be negative")
	}
	if len(f.queues) == 0 {
		f.queues = []string{api.DefaultQueue}
	}
	for _, jobType := range f.types {
		if !api.ValidName(jobType) {
			return cli.Usage("--type %q: cannot be a job's type", jobType)
		}
	}
	return nil
}

func work(ctx context.Context, a *cli.App, s *cli.Session, f *workFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return cli.Environment(fmt.Errorf("the command cannot be run: %w", err))
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// For good: neither a line of the log nor the error that the program ends with may end it by SIGPIPE.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// The log and all commands write to it. Without a reader of it the worker drains.
	stderr := syncwriter.New(&readWriter{to: s.Err, gone: func() { end(errNoReader) }})
	grace := f.grace
	if grace == 0 {
		grace = -1 // none, to the SDK
	}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	w, err := worker.New(worker.Options{
		Client: s.Client, WorkerID: f.id, Queues: f.queues, Tags: f.tags, Concurrency: f.concurrency, Grace: grace,
		Metadata: map[string]string{"command": cutMetadata(args[0])}, Logger: logger,
	})
	if err != nil {
		return cli.Usage("%w", err)
	}
	stop, err := traceJobs(ctx, a, w, logger)
	if err != nil {
		return err
	}
	defer stop()
	command := &execute.Command{
		Args: args, Env: os.Environ(), Snooze: f.snooze, Timeout: f.timeout, Grace: f.killAfter, Stderr: stderr, Silent: f.silent,
	}
	if len(f.types) == 0 {
		w.HandleAny(command.Handle)
	}
	for _, jobType := range f.types {
		worker.Handle(w, jobType, command.Handle)
	}
	if err := w.Run(ctx); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), errNoReader) {
		return errNoReader
	}
	return nil
}

// errNoReader ends a worker whose log nobody reads.
var errNoReader = errors.New("standard error has no reader any more: the worker has stopped")

// readWriter calls gone when the reader of a pipe has gone.
type readWriter struct {
	to   io.Writer
	gone func()
}

func (w *readWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.gone()
	}
	return n, err
}

func cutMetadata(text string) string { return text[:min(len(text), api.MaxMetadataValue)] }
