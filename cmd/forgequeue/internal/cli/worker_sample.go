package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/sample"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

func (a *App) workerSample() *cobra.Command {
	options := worker.Options{Concurrency: 4}
	command := &cobra.Command{
		Use:   "sample",
		Short: "Run the sample worker: hash.sha256, text.stats and flaky",
		Long: `Run the sample worker of "forgequeue up" by itself. It serves hash.sha256, text.stats and flaky. Its id is this
machine's name, so that "forgequeue worker health" in the same container finds it.`,
		Args: cobra.NoArgs,
		RunE: a.asTenant(func(ctx context.Context, s *session, _ []string) error {
			id, err := ownID(options.WorkerID)
			if err != nil {
				return err
			}
			options.Client, options.WorkerID = s.client, id
			options.Logger = slog.New(slog.NewTextHandler(s.err, nil))
			w, err := worker.New(options)
			if err != nil {
				return usage("%w", err)
			}
			stop, err := traceJobs(ctx, s.getenv, w, options.Logger)
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

func (a *App) workerHealth() *cobra.Command {
	return &cobra.Command{
		Use:   "health [WORKER_ID]",
		Short: "Say whether the server hears of a worker; exits 1 if not",
		Long: `Say whether the server hears of a worker, by default of the one named like this machine. The server counts
one as active that claims or sends heartbeats: this is the health check of a container that runs one.`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			id, err := ownID(append(args, "")[0])
			if err != nil {
				return err
			}
			list, err := collect(paging{}, func(p client.PageRequest) (api.Page[api.Worker], error) { return s.client.Workers(ctx, p) })
			if err != nil {
				return err
			}
			at := slices.IndexFunc(list.Items, func(w api.Worker) bool { return w.WorkerID == id })
			if at < 0 {
				return fmt.Errorf("the server knows no worker %s", visible(id))
			}
			if status := list.Items[at].Status; status != api.WorkerActive {
				return fmt.Errorf("the worker %s is %s", visible(id), status)
			}
			return s.show(list.Items[at], func(t *table) { workers(t, list.Items[at:at+1]) })
		}),
	}
}

// ownID is a worker's name if none is given: a container's is its own.
func ownID(given string) (string, error) {
	host, err := os.Hostname()
	if id := cmp.Or(given, host); id != "" {
		return id, nil
	}
	return "", Environment(fmt.Errorf("this machine has no name, so give the worker's: %w", err))
}
