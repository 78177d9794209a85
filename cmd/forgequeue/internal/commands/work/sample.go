package work

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/sample"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

func newWorkerSample(a *cli.App) *cobra.Command {
	options := worker.Options{Concurrency: 4}
	command := &cobra.Command{
		Use:   "sample",
		Short: "Run the sample worker: hash.sha256, text.stats and flaky",
		Long: `Run the sample worker of "forgequeue up" alone. It serves hash.sha256, text.stats and flaky. Its id is this
machine's name, so that "forgequeue worker health" in the same container finds it.`,
		Args: cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			id, err := ownID(options.WorkerID)
			if err != nil {
				return err
			}
			options.Client, options.WorkerID = s.Client, id
			options.Logger = slog.New(slog.NewTextHandler(s.Err, nil))
			w, err := worker.New(options)
			if err != nil {
				return cli.Usage("%w", err)
			}
			stop, err := traceJobs(ctx, a, w, options.Logger)
			if err != nil {
				return err
			}
			defer stop()
			sample.Register(w)
			return w.Run(ctx)
		}),
	}
	flags := command.Flags()
	flags.StringSliceVarP(&options.Queues, "queue", "q", []string{api.DefaultQueue}, "queues to claim from")
	flags.StringVar(&options.WorkerID, "worker-id", "", "this worker's name (default the machine's)")
	flags.IntVar(&options.Concurrency, "concurrency", options.Concurrency, "jobs that run at once")
	return command
}

// ownID is the id of a worker: the given one, else the host's name, which is unique to a container.
func ownID(given string) (string, error) {
	host, err := os.Hostname()
	if id := cmp.Or(given, host); id != "" {
		return id, nil
	}
	return "", cli.Environment(fmt.Errorf("this machine has no name, so give the worker's: %w", err))
}
