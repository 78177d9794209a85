package commandtest

import (
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

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Fixture is one test's environment of the commands that it runs.
type Fixture struct {
	*testing.T
	*stack
	env map[string]string
	// Local finds the `up`s on this machine; none by default.
	Local func() []localup.Running
	// Usual is the server's URL if FORGEQUEUE_URL is unset.
	Usual string
	// Browse opens a URL.
	Browse func(url string) error
	// Config is the user's folder of settings.
	Config string
	// Completion is how long a completion may take.
	Completion time.Duration
}

func (f *Fixture) config() (string, error) { return f.Config, nil }

// New makes the fixture of a test, which then runs in parallel with others.
func New(t *testing.T) *Fixture {
	t.Helper()
	t.Parallel()
	shared.once.Do(shared.start)
	if missing, ok := errors.AsType[*up.MissingPostgresError](shared.err); ok && os.Getenv("CI") == "" {
		t.Skip(missing)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &Fixture{
		T: t, stack: shared, Config: t.TempDir(), Completion: time.Minute, Usual: "http://127.0.0.1:1", Local: func() []localup.Running { return nil },
		env: map[string]string{
			"FORGEQUEUE_URL": shared.Ready.Gateway, "FORGEQUEUE_API_KEY": shared.Ready.APIKey,
			"FORGEQUEUE_OPERATOR_KEY": shared.Ready.OperatorKey,
		},
	}
}

// On is the fixture of a test of a server of its own, which stands in for the services.
func On(t *testing.T, server string) *Fixture {
	t.Helper()
	f := &Fixture{
		T: t, stack: &stack{}, Config: t.TempDir(), Completion: time.Minute, Usual: "http://127.0.0.1:1", Local: func() []localup.Running { return nil },
		env: map[string]string{"FORGEQUEUE_URL": server, "FORGEQUEUE_API_KEY": "fq_test_key"},
	}
	f.Ready.Gateway, f.Ready.APIKey = server, "fq_test_key"
	return f
}

// With is the fixture with another value of an environment variable; an empty one is unset.
func (f *Fixture) With(name, value string) *Fixture {
	other := *f
	other.env = map[string]string{name: value}
	for n, v := range f.env {
		if n != name {
			other.env[n] = v
		}
	}
	return &other
}

// Alone is the fixture with the key of a tenant that no other test uses.
func (f *Fixture) Alone() *Fixture {
	f.Helper()
	tenant := Decode[api.Tenant](f, f.Must("tenant", "create", "alone", "--plan", "unlimited", "-o", "json"))
	key := Decode[api.NewKey](f, f.Must("key", "create", tenant.ID, "--scopes", strings.Join(api.Scopes(), ","), "-o", "json"))
	return f.With("FORGEQUEUE_API_KEY", key.Secret)
}

// Result is what a command ended with and wrote.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command to its end.
func (f *Fixture) Run(args ...string) Result { return f.RunWith(f.Context(), "", args...) }

// RunWith is Run with standard input.
func (f *Fixture) RunWith(ctx context.Context, stdin string, args ...string) Result {
	var out, errs Buffer
	code := f.Start(&out, &errs, stdin)(ctx, args...)
	return Result{code, out.String(), errs.String()}
}

// Start makes a function that runs a command with these outputs.
func (f *Fixture) Start(out, errs io.Writer, stdin string) func(ctx context.Context, args ...string) int {
	return func(ctx context.Context, args ...string) int {
		root := &cobra.Command{Use: "forgequeue"}
		root.AddCommand(commands.New(cli.Options{Getenv: func(name string) string { return f.env[name] }, Local: f.Local, DefaultURL: f.Usual, ConfigDir: f.config, Browse: f.Browse, CompletionTime: f.Completion})...)
		root.SetIn(strings.NewReader(stdin))
		root.SetOut(out)
		root.SetErr(errs)
		root.SetArgs(args)
		return cli.Execute(ctx, root)
	}
}

// Must runs a command that has to succeed, and returns its output.
func (f *Fixture) Must(args ...string) string {
	f.Helper()
	r := f.Run(args...)
	if r.Code != 0 {
		f.Fatalf("%v: exit code %d\n%s%s", args, r.Code, r.Out, r.Err)
	}
	return r.Out
}

// Want runs a command that has to end with a code, and to write each of the texts.
func (f *Fixture) Want(code int, texts []string, args ...string) Result {
	f.Helper()
	r := f.Run(args...)
	if r.Code != code {
		f.Errorf("%v: exit code %d, want %d\n%s%s", args, r.Code, code, r.Out, r.Err)
	}
	for _, text := range texts {
		if !strings.Contains(r.Out+r.Err, text) {
			f.Errorf("%v does not say %q:\n%s%s", args, text, r.Out, r.Err)
		}
	}
	return r
}

// Decode reads a command's JSON.
func Decode[T any](f *Fixture, text string) T {
	f.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		f.Fatalf("%v in %s", err, text)
	}
	return value
}

// Compact is JSON without white space.
func Compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Errorf("%v: %q", err, raw)
	}
	return b.String()
}

// Client calls the API directly.
func (f *Fixture) Client() *client.Client {
	f.Helper()
	c, err := client.New(client.Options{URL: f.Ready.Gateway, APIKey: f.Ready.APIKey})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.CloseIdleConnections)
	return c
}

var counter atomic.Int64

// Queue is the name of a queue that no other test uses.
func (f *Fixture) Queue() string { return fmt.Sprintf("q%d", counter.Add(1)) }

// Eventually waits until done is true.
func (f *Fixture) Eventually(what string, done func() bool) {
	f.Helper()
	pause := 10 * time.Millisecond
	for deadline := time.Now().Add(5 * time.Minute); !done(); pause = min(pause*3/2, 250*time.Millisecond) {
		time.Sleep(pause)
		if time.Now().After(deadline) {
			f.Fatalf("not in time: %s", what)
		}
	}
}

// Buffer is written and read by several goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
