package work_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func TestWorkerHealth(t *testing.T) {
	f := commandtest.New(t)
	f.Want(1, []string{"no worker nobody"}, "worker", "health", "nobody")
	c, err := client.New(client.Options{URL: f.Ready.Gateway, APIKey: f.Ready.APIKey})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	if _, err := c.Register(t.Context(), api.WorkerRequest{WorkerID: "healthy"}); err != nil {
		t.Fatal(err)
	}
	f.Want(0, []string{"healthy", "ACTIVE"}, "worker", "health", "healthy")
}
