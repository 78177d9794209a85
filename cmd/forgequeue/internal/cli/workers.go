package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func (a *App) workers() *cobra.Command {
	var page paging
	command := &cobra.Command{
		Use:   "workers",
		Short: "List the workers that are known, and whether they are heard of",
		Args:  cobra.NoArgs,
		RunE: a.asTenant(func(ctx context.Context, s *session, _ []string) error {
			list, err := collect(page, func(p client.PageRequest) (api.Page[api.Worker], error) { return s.client.Workers(ctx, p) })
			if err != nil {
				return err
			}
			return showPage(s, list, func(t *table) { workers(t, list.Items) })
		}),
	}
	page.flags(command)
	return command
}

func workers(t *table, all []api.Worker) {
	t.row("WORKER ID", coloured{"STATUS", plain}, "LEASES", "CONCURRENCY", "QUEUES", "TAGS", "REGISTERED", "LAST HEARD OF")
	colours := map[string]colour{api.WorkerActive: green, api.WorkerStale: yellow, api.WorkerDead: red}
	for _, w := range all {
		c, ok := colours[w.Status]
		if !ok {
			c = plain
		}
		t.row(w.WorkerID, coloured{w.Status, c}, w.Leases, w.Concurrency, strings.Join(w.Queues, ","), strings.Join(w.Tags, ","),
			stamp(&w.RegisteredAt), stamp(&w.LastHeartbeatAt))
	}
}
