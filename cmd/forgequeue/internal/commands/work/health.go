package work

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

func newWorkerHealth(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "health [WORKER_ID]",
		Short: "Check that a worker is alive for the server; exits 1 if not",
		Long: `Check that the server hears from a worker, by default from the one that has this machine's name. A worker that claims
or sends heartbeats is active. Use it as the health check of a container that runs a worker.`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			id, err := ownID(append(args, "")[0])
			if err != nil {
				return err
			}
			list, err := cli.Collect(ctx, cli.Paging{}, s.Client.Workers)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(list.Items, func(w api.Worker) bool { return w.WorkerID == id })
			if at < 0 {
				return fmt.Errorf("the server knows no worker %s", cli.Visible(id))
			}
			if status := list.Items[at].Status; status != api.WorkerActive {
				return fmt.Errorf("the worker %s is %s", cli.Visible(id), status)
			}
			return s.Show(list.Items[at], func(t *cli.Table) { workers(t, list.Items[at:at+1]) })
		}),
	}
}
