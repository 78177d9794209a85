package admin_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

func TestQueuesDelete(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	id := f.Submitted("x", "-q", q)
	f.Want(1, []string{"queue_not_empty (409)", "1 queued"}, "queues", "delete", q)
	f.Must("job", "cancel", id)
	for range 2 {
		f.Want(0, []string{"deleted " + q}, "queue", "delete", q)
	}
	f.Want(1, []string{"there is no queue " + q}, "queues", "get", q)
	f.Must("job", "rerun", id)
	f.Want(0, []string{q}, "queues", "get", q)
}
