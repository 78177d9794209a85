package bench

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Options are what the command needs of its program. None is optional.
type Options struct {
	// Getenv reads the environment.
	Getenv func(name string) string
	// Local finds a `forgequeue up` that runs on this machine.
	Local func() (Server, bool)
	// Program is the path of forgequeue, which --up runs.
	Program func() (string, error)
	// Environment marks an error of the machine or its settings.
	Environment func(error) error
}

// Server is a `forgequeue up` that runs on this machine.
type Server struct {
	// Gateway is the URL of the public API.
	Gateway             string
	APIKey, OperatorKey string
	// Data is its data folder.
	Data string
}

// New makes the command.
func New(options Options) *cobra.Command {
	command := &cobra.Command{
		Use:   "forgequeue-bench",
		Short: "Load-test a server",
		Long: `Load-test a server: throughput, latencies, errors.

It goes through the gateway (FORGEQUEUE_URL, FORGEQUEUE_API_KEY, and FORGEQUEUE_OPERATOR_KEY where tenants are made),
with --core URL past it (FORGEQUEUE_HOP_SECRET), or with --up to a stack of its own. Jobs go to a queue of the run's own,
and what a run leaves there stays. Only this machine is loaded, unless --allow-remote says otherwise.

Load is open-loop: a request is meant to start at its time, and its latency counts from there, sent late or not.
With --closed the next is sent when the last is answered; throughput is then all that it tells.`,
		Example: `  forgequeue-bench submit --up --rate 2000
  forgequeue-bench e2e --closed --batch 500 --claim-batch 500 --jobs 200000 --json
  forgequeue-bench backlog --core http://127.0.0.1:8081 --depths 10k,1M,5M
  forgequeue-bench snapshot --up --jobs 500000`,
	}
	for _, one := range scenarios() {
		command.AddCommand(newScenario(one, options))
	}
	return command
}

func newScenario(one scenario, options Options) *cobra.Command {
	s := defaultSettings()
	if one.defaults != nil {
		one.defaults(&s)
	}
	command := &cobra.Command{Use: one.name, Short: one.short, Long: one.long, Args: cobra.NoArgs}
	definitions := s.definitions()
	for _, name := range slices.Concat(always(), one.flags) {
		definitions[name](command.Flags())
	}
	// Before it runs, so that its error is one of the command line.
	command.PreRunE = func(*cobra.Command, []string) error { return s.check() }
	command.RunE = func(command *cobra.Command, _ []string) error {
		return s.execute(command, one, options)
	}
	return command
}

var errErrors = errors.New("too much was refused for the figures to mean anything: see the errors above")

func (s *settings) execute(command *cobra.Command, one scenario, options Options) error {
	ctx := command.Context()
	note := func(text string) { _, _ = io.WriteString(command.ErrOrStderr(), text+"\n") }
	tuneGC()
	shown := &progress{to: terminal(command.ErrOrStderr(), options)}
	hide := shown.start()
	defer hide()
	t, stop, err := s.locate(ctx, options, shown, note, command.ErrOrStderr())
	if err != nil {
		return options.Environment(err)
	}
	defer stop()
	r := &run{settings: *s, id: newID(), begun: time.Now(), url: t.url, rec: newRecorder(), progress: shown, environment: options.Environment}
	if r.endpoint, err = s.open(ctx, t, lookUp); err != nil {
		return options.Environment(err)
	}
	r.baseQueue = r.id
	if r.queue != "" {
		r.baseQueue = r.queue
	}
	r.databaseURL = t.databaseURL
	end, err := r.prepare(ctx, one.many)
	if err != nil {
		return err
	}
	defer end()
	if r.keyRunning > 0 {
		for i := range r.callers {
			if err := r.endpoint.LimitKeys(ctx, &r.callers[i], r.baseQueue, r.keyRunning); err != nil {
				return r.environment(err)
			}
		}
	}
	r.useQueue(ctx, "")
	if err := r.measure(ctx, one, t, command.Flags()); err != nil {
		return err
	}
	shown.now("", 0, nil)
	write := r.report.writeTable
	if s.json {
		write = r.report.writeJSON
	}
	if err := write(command.OutOrStdout()); err != nil {
		return err
	}
	if r.report.failed() && ctx.Err() == nil {
		return errErrors
	}
	return context.Cause(ctx)
}

// locate finds the server, or starts one.
func (s *settings) locate(ctx context.Context, options Options, shown *progress, note func(string), errs io.Writer) (target, func(), error) {
	if !s.up {
		t, err := s.find(options, note)
		return t, func() {}, err
	}
	if runtime.GOOS == "windows" {
		return target{}, nil, errors.New("--up needs Linux or macOS: start a server in WSL2 or with Docker Compose, and name it with FORGEQUEUE_URL and FORGEQUEUE_API_KEY")
	}
	program, err := options.Program()
	if err != nil {
		return target{}, nil, err
	}
	shown.now("starting a stack", 0, nil)
	return startStack(ctx, program, errs)
}

func (r *run) measure(ctx context.Context, one scenario, t target, flags *pflag.FlagSet) error {
	name := "gateway"
	if t.core {
		name = "core"
	}
	r.report = newReport(one.name, name, shownSettings(flags, r.queue), time.Now())
	if err := one.run(ctx, r); err != nil {
		return err
	}
	r.report.Unsent = r.unsent
	r.report.close(r.rec)
	return nil
}

// shownSettings are the flags with their values; a database's URL may hold a password.
func shownSettings(flags *pflag.FlagSet, queue string) map[string]any {
	shown := map[string]any{}
	flags.VisitAll(func(flag *pflag.Flag) {
		switch flag.Name {
		case "help", "json", "database-url", "allow-remote":
		default:
			shown[flag.Name] = flag.Value.String()
		}
	})
	shown["queue"] = queue
	return shown
}

// terminal is the stream if it is a terminal, else nil.
func terminal(stream io.Writer, options Options) io.Writer {
	file, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || options.Getenv("TERM") == "dumb" {
		return nil
	}
	return stream
}
