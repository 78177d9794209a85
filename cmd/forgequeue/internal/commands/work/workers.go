package work

import (
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

func workers(t *cli.Table, all []api.Worker) {
	t.Head("WORKER ID", "STATUS", "LEASES", cli.Least("CONCURRENCY"), cli.Long("QUEUES"), cli.Long("TYPES"), cli.Minor("TAGS"), cli.Least("REGISTERED"), "LAST HEARTBEAT")
	colours := map[string]cli.Colour{api.WorkerActive: cli.Green, api.WorkerStale: cli.Yellow, api.WorkerDead: cli.Red}
	for _, w := range all {
		c, ok := colours[w.Status]
		if !ok {
			c = cli.Plain
		}
		t.Row(w.WorkerID, cli.Coloured(w.Status, c), w.Leases, w.Concurrency, strings.Join(w.Queues, ","), types(w), strings.Join(w.Tags, ","),
			w.RegisteredAt, w.LastHeartbeatAt)
	}
}

// types are those that a worker takes.
func types(w api.Worker) string {
	if w.Types == nil {
		return "all"
	}
	return strings.Join(*w.Types, ",")
}
