package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/interrupt"
)

// The commands are tested on the real thing: one `up` in this process, started by
// the first test that asks for it.
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

// asProgram makes this test binary the program, for tests that send it signals.
const asProgram = "FORGEQUEUE_CLI_TEST_PROGRAM"

func program() int {
	ctx, stop := interrupt.Context(context.Background())
	defer stop()
	root := &cobra.Command{Use: "forgequeue"}
	root.AddCommand(cli.New(cli.Options{}).Commands()...)
	return cli.Execute(ctx, root)
}

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program())
	}
	code := m.Run()
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
	if os.Getenv("FORGEQUEUE_REDIS_TIMEOUT") == "" { // a slow machine's Redis is not away
		_ = os.Setenv("FORGEQUEUE_REDIS_TIMEOUT", "10s")
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.started, s.Ready.Data = stop, true, dir
	out, in := io.Pipe()
	go func() {
		err := up.Run(ctx, up.Options{Data: dir, Listen: "127.0.0.1:0", JSON: true, Out: in, Err: os.Stderr})
		_ = in.CloseWithError(errors.Join(io.EOF, err))
		s.ended <- err
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.Ready)
	}
	s.err = err
}

// fixture is one test's view of the stack.
type fixture struct {
	*testing.T
	*stack
	env   map[string]string
	local func() (up.Running, bool)
	usual string // where to call when FORGEQUEUE_URL is unset
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	shared.once.Do(shared.start)
	if missing, ok := errors.AsType[*up.MissingPostgresError](shared.err); ok && os.Getenv("CI") == "" {
		t.Skip(missing)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &fixture{
		T: t, stack: shared, usual: "http://127.0.0.1:1", local: func() (up.Running, bool) { return up.Running{}, false },
		env: map[string]string{
			"FORGEQUEUE_URL": shared.Ready.Gateway, "FORGEQUEUE_API_KEY": shared.Ready.APIKey,
			"FORGEQUEUE_OPERATOR_KEY": shared.Ready.OperatorKey,
		},
	}
}

// with gives a fixture with other environment variables; an empty one is unset.
func (f *fixture) with(name, value string) *fixture {
	other := *f
	other.env = map[string]string{name: value}
	for n, v := range f.env {
		if n != name {
			other.env[n] = v
		}
	}
	return &other
}

type result struct {
	code     int
	out, err string
}

func (f *fixture) run(args ...string) result { return f.runWith(f.Context(), "", args...) }

func (f *fixture) runWith(ctx context.Context, stdin string, args ...string) result {
	var out, errs buffer
	code := f.command(&out, &errs, stdin)(ctx, args...)
	return result{code, out.String(), errs.String()}
}

func (f *fixture) command(out, errs io.Writer, stdin string) func(ctx context.Context, args ...string) int {
	return func(ctx context.Context, args ...string) int {
		root := &cobra.Command{Use: "forgequeue"}
		root.AddCommand(cli.New(cli.Options{Getenv: func(name string) string { return f.env[name] }, Local: f.local, DefaultURL: f.usual}).Commands()...)
		root.SetIn(strings.NewReader(stdin))
		root.SetOut(out)
		root.SetErr(errs)
		root.SetArgs(args)
		return cli.Execute(ctx, root)
	}
}

// must runs a command that has to succeed, and gives its output.
func (f *fixture) must(args ...string) string {
	f.Helper()
	r := f.run(args...)
	if r.code != 0 {
		f.Fatalf("%v: exit code %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

// want runs a command that has to end with a code, and to say each of the texts.
func (f *fixture) want(code int, texts []string, args ...string) result {
	f.Helper()
	r := f.run(args...)
	if r.code != code {
		f.Errorf("%v: exit code %d, want %d\n%s%s", args, r.code, code, r.out, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			f.Errorf("%v does not say %q:\n%s%s", args, text, r.out, r.err)
		}
	}
	return r
}

func decodeAs[T any](f *fixture, text string) T {
	f.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		f.Fatalf("%v in %s", err, text)
	}
	return value
}

// submitted submits a job and gives its id.
func (f *fixture) submitted(args ...string) string {
	f.Helper()
	return decodeAs[api.SubmitResponse](f, f.must(append([]string{"submit", "-o", "json"}, args...)...)).ID
}

func (f *fixture) client() *client.Client {
	f.Helper()
	c, err := client.New(client.Options{URL: f.Ready.Gateway, APIKey: f.Ready.APIKey})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.CloseIdleConnections)
	return c
}

var counter atomic.Int64

// queue names a queue of this test's own.
func (f *fixture) queue() string { return fmt.Sprintf("q%d", counter.Add(1)) }

func (f *fixture) eventually(what string, done func() bool) {
	f.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("not in time: %s", what)
		}
	}
}

// buffer is written and read by several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
