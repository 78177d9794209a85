package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// workerEnv makes this test binary a worker process: it claims one job, says
// which on its standard output, and then neither ends it nor sends a heartbeat:
// somebody is going to kill it.
const workerEnv = "FORGEQUEUE_E2E_WORKER"

type workerArgs struct{ URL, Key, WorkerID, Queue string }

func startWorker(t *testing.T, args workerArgs) *stack.Process {
	t.Helper()
	encoded, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	command.Env = append(os.Environ(), workerEnv+"="+string(encoded))
	return stack.StartCommand(t, command)
}

func workerProcess() int {
	var args workerArgs
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	c, err := client.New(client.Options{URL: args.URL, APIKey: args.Key})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	wait := int64(20_000)
	claimed, err := c.Claim(context.Background(), api.ClaimRequest{WorkerID: args.WorkerID, Queues: []string{args.Queue}, WaitMS: &wait})
	if err != nil || len(claimed.Jobs) != 1 {
		fmt.Fprintln(os.Stderr, "claimed", len(claimed.Jobs), err)
		return 1
	}
	line, err := json.Marshal(claimed.Jobs[0])
	if err != nil {
		return 2
	}
	fmt.Println(string(line))
	select {}
}
