package work_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

func TestWorkersAreListed(t *testing.T) {
	f := commandtest.New(t)
	q := f.Queue()
	f.Work("-q", q, "--worker-id", "worker-"+q, "--tag", "gpu", "--concurrency", "2", "--", "true")
	f.Eventually("the worker is listed", func() bool {
		r := f.Run("workers", "--limit", "0")
		return r.Code == 0 && strings.Contains(r.Out, "worker-"+q) && strings.Contains(r.Out, "ACTIVE") && strings.Contains(r.Out, "gpu")
	})
}
