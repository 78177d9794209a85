// Package commandtest runs commands as tests see them: the whole command line, on the real services. A package of
// tests has one `forgequeue up`, in its own process, which the first test starts and [Main] stops.
package commandtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/shared/interrupt"
)

// stack is the `up` of the tests.
type stack struct {
	once    sync.Once
	started bool
	stop    context.CancelFunc
	ended   chan error
	err     error
	Ready   struct {
		Gateway     string `json:"gateway"`
		APIKey      string `json:"api_key"`
		OperatorKey string `json:"operator_key"`
		DatabaseURL string `json:"database_url"`
		Redis       struct {
			URL string `json:"url"`
		} `json:"redis"`
		Data string `json:"data"`
	}
}

var shared = &stack{ended: make(chan error, 1)}

// asProgram is the variable that makes a test binary the program: see [Fixture.Process].
const asProgram = "FORGEQUEUE_CLI_TEST_PROGRAM"

func program(root *cobra.Command) int {
	ctx, stop := interrupt.Context(context.Background())
	defer stop()
	return cli.Execute(ctx, root)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "forgequeue"}
	root.AddCommand(commands.New(cli.Options{})...)
	return root
}

// Main is the TestMain of a package whose tests use a [Fixture].
func Main(m *testing.M, stops ...func()) { MainOf(m, newRoot, stops...) }

// MainOf is Main where [Fixture.Process] runs another program.
func MainOf(m *testing.M, root func() *cobra.Command, stops ...func()) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program(root()))
	}
	code := m.Run()
	for _, stop := range stops {
		stop()
	}
	if shared.started {
		shared.stop()
		if err := <-shared.ended; err != nil {
			fmt.Fprintln(os.Stderr, "up:", err)
			code = 1
		}
		_ = os.RemoveAll(shared.Ready.Data)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func (s *stack) start() {
	// Not a test's TempDir: PostgreSQL's user could not enter it.
	dir, err := os.MkdirTemp("", "fq-cli-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		s.err = err
		return
	}
	if os.Getenv("FORGEQUEUE_REDIS_TIMEOUT") == "" { // a slow machine's Redis must not count as unreachable
		_ = os.Setenv("FORGEQUEUE_REDIS_TIMEOUT", "10s")
	}
	_ = os.Setenv("XDG_STATE_HOME", dir) // it is not registered where the user's commands look
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.started, s.Ready.Data = stop, true, dir
	out, in := io.Pipe()
	go func() {
		err := up.Run(ctx, up.Options{Data: dir, Listen: "127.0.0.1:0", JSON: true, Out: in, Err: os.Stderr, Brokers: []coreapp.Broker{rabbitmq.Protocol()}})
		_ = in.CloseWithError(errors.Join(io.EOF, err))
		s.ended <- err
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.Ready)
	}
	s.err = err
}
