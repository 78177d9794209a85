package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/bench"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/shared/interrupt"
)

// benchStack is what `bench` is tried on: one `up` in this process, and beside it a core on the same
// database whose address is known. The first test that asks for it starts it.
type benchStack struct {
	once  sync.Once
	err   error
	stops []func() error

	Gateway     string `json:"gateway"`
	APIKey      string `json:"api_key"`
	OperatorKey string `json:"operator_key"`
	DatabaseURL string `json:"database_url"`

	core string
}

var theBenchStack benchStack

const (
	// asProgram makes this test binary the program, for --up.
	asProgram  = "FORGEQUEUE_BENCH_TEST_PROGRAM"
	hopSecret  = "of a core that only this test knows of"
	notRunning = "no `forgequeue up` started by your user runs here"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(asUp())
	}
	code := m.Run()
	for _, stop := range slices.Backward(theBenchStack.stops) {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// asUp is `forgequeue up` with the flags that --up gives it.
func asUp() int {
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	options := up.Options{Out: os.Stdout, Err: os.Stderr}
	flags.StringVar(&options.Data, "data-dir", "", "")
	flags.StringVar(&options.Listen, "listen", "", "")
	flags.BoolVar(&options.Demo, "demo", true, "")
	flags.BoolVar(&options.JSON, "json", false, "")
	_ = flags.Parse(os.Args[2:]) // ExitOnError
	ctx, stop := interrupt.Context(context.Background())
	defer stop()
	if err := up.Run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (f *benchStack) start() error {
	// Not a test's TempDir: PostgreSQL's user could not enter it.
	dir, err := os.MkdirTemp("", "fq-bench-test-")
	if err != nil {
		return err
	}
	f.stops = append(f.stops, func() error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	_ = os.Setenv("XDG_STATE_HOME", dir) // it is not registered where the user's commands look
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := up.Run(ctx, up.Options{Data: dir, Listen: "127.0.0.1:0", JSON: true, Out: in, Err: os.Stderr})
		_ = in.CloseWithError(errors.Join(io.EOF, err))
		ended <- err
	}()
	f.stops = append(f.stops, func() error { stop(); return <-ended })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, f); err != nil {
		return err
	}
	return f.startCore()
}

func (f *benchStack) startCore() error {
	cfg, err := coreapp.Parse(map[string]string{"DATABASE_URL": f.DatabaseURL, "FORGEQUEUE_HOP_SECRET": hopSecret, "FORGEQUEUE_LOG_LEVEL": "error"})
	if err != nil {
		return err
	}
	for _, listener := range []*net.Listener{&cfg.Listener, &cfg.MetricsListener} {
		if *listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	f.core = "http://" + cfg.Listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- coreapp.Run(ctx, cfg) }()
	f.stops = append(f.stops, func() error { stop(); return <-ended })
	return nil
}

func onBenchStack(t *testing.T) *benchStack {
	t.Helper()
	theBenchStack.once.Do(func() { theBenchStack.err = theBenchStack.start() })
	if missing, ok := errors.AsType[*up.MissingPostgresError](theBenchStack.err); ok && os.Getenv("CI") == "" {
		t.Skip(missing)
	}
	if theBenchStack.err != nil {
		t.Fatal(theBenchStack.err)
	}
	return &theBenchStack
}

// runBench runs the command without any environment but this.
func runBench(ctx context.Context, env map[string]string, args ...string) (code int, out, errs string) {
	root := newRoot(cli.Options{
		Getenv: func(name string) string { return env[name] },
		Local:  func() []localup.Running { return nil },
	}, os.Executable)
	var stdout, stderr bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = cli.Execute(ctx, root)
	return code, stdout.String(), stderr.String()
}

// measureBench runs a scenario that has to succeed without an error. On a slow machine
// requests may stay unsent.
func measureBench(t *testing.T, env map[string]string, args ...string) bench.Report {
	t.Helper()
	code, out, errs := runBench(t.Context(), env, append(args, "--json")...)
	var r bench.Report
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
	}
	if len(r.Errors) > 0 || r.Jobs == 0 || r.Seconds <= 0 || r.JobsPerSecond <= 0 {
		t.Errorf("%v: %s", args, out)
	}
	return r
}

func TestBenchRunsEveryScenario(t *testing.T) {
	t.Parallel()
	f := onBenchStack(t)
	tried := map[string]bool{}
	for _, test := range []struct {
		args string
		// latencies and figures that must be there.
		latencies, figures []string
		jobs, left         int64
	}{
		{"submit --rate 100 --jobs 50", []string{"submit", "submit_from_sending"}, nil, 50, 50},
		{"submit --closed --batch 10 --jobs 100 --concurrency 4 --keyed", []string{"submit"}, nil, 100, 100},
		{"submit --closed --jobs 40 --concurrency 4 --limits", []string{"submit"}, nil, 40, 40},
		{"drain --jobs 300 --claim-batch 50 --consumers 2", []string{"claim", "complete", "end"}, nil, 300, 0},
		{"worker --jobs 300 --concurrency 4", nil, nil, 300, 0},
		{"e2e --rate 100 --jobs 50", []string{"submit", "start", "end"}, nil, 50, 0},
		{"e2e --closed --batch 20 --claim-batch 20 --jobs 200 --concurrency 2 --tenants 3", []string{"start", "end"}, nil, 200, 0},
		{"idle-latency --jobs 20", []string{"start"}, nil, 20, 0},
		{"backlog --depths 200,400 --claims 5", []string{"claim_at_200", "claim_at_400"}, []string{"p50_deepest_over_first"}, 100, 350},
		{"snapshot --jobs 400 --batch 50 --slice 200 --database-url DATABASE", []string{"with_end", "without_end"}, []string{"held_over_free"}, 0, 0},
		{"fairness --tenants 3 --rate 50 --duration 1s --backlog 300 --concurrency 4", []string{"alone_start", "beside_start"}, []string{"p99_beside_over_alone"}, 0, -1},
		{"tenants --tenants 10 --rate 200 --duration 1s --concurrency 8", []string{"start", "end"}, nil, 0, 0},
	} {
		words := strings.Fields(strings.ReplaceAll(test.args, "DATABASE", f.DatabaseURL))
		tried[words[0]] = true
		for _, through := range []string{"gateway", "core"} {
			if through == "core" && words[0] == "worker" { // it calls the public API
				continue
			}
			t.Run(test.args+" through "+through, func(t *testing.T) {
				t.Parallel()
				env := map[string]string{"FORGEQUEUE_URL": f.Gateway, "FORGEQUEUE_API_KEY": f.APIKey, "FORGEQUEUE_OPERATOR_KEY": f.OperatorKey}
				args := words
				if through == "core" {
					env = map[string]string{"FORGEQUEUE_HOP_SECRET": hopSecret}
					args = append(slices.Clone(words), "--core", f.core)
				}
				r := measureBench(t, env, args...)
				if r.Target != through || r.Scenario != words[0] || test.jobs > 0 && r.Jobs != test.jobs || test.left >= 0 && r.LeftQueued != test.left {
					t.Errorf("%s through %s: %d jobs, %d left", r.Scenario, r.Target, r.Jobs, r.LeftQueued)
				}
				for _, name := range test.latencies {
					if l := r.Latencies[name]; l.Count == 0 || l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.Max {
						t.Errorf("%s: %+v", name, l)
					}
				}
				for _, name := range test.figures {
					if r.Figures[name] <= 0 {
						t.Errorf("%s is %v", name, r.Figures[name])
					}
				}
			})
		}
	}
	for _, scenario := range newRoot(cli.Options{}, os.Executable).Commands() {
		if !tried[scenario.Name()] {
			t.Errorf("%s has not been tried", scenario.Name())
		}
	}
}

func TestBenchCallersShareACallToCore(t *testing.T) {
	t.Parallel()
	f := onBenchStack(t)
	r := measureBench(t, map[string]string{"FORGEQUEUE_HOP_SECRET": hopSecret},
		"submit", "--closed", "--items", "5", "--tenants", "10", "--jobs", "100", "--concurrency", "2", "--keyed", "--core", f.core)
	if r.Jobs != 100 || r.Latencies["submit"].Count != 20 {
		t.Errorf("%d jobs in %d calls", r.Jobs, r.Latencies["submit"].Count)
	}
}

func TestBenchTellsRefusalsByTheirCode(t *testing.T) {
	t.Parallel()
	f := onBenchStack(t)
	env := map[string]string{"FORGEQUEUE_URL": f.Gateway, "FORGEQUEUE_API_KEY": "fq_live_nobody"}
	code, out, errs := runBench(t.Context(), env, "submit", "--rate", "50", "--jobs", "10")
	if code != cli.ExitFailed || !strings.Contains(out, "unauthenticated") || !strings.Contains(errs, "refused") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	// No operator key: tenants cannot be made, and that is the environment's fault.
	env = map[string]string{"FORGEQUEUE_URL": f.Gateway, "FORGEQUEUE_API_KEY": f.APIKey}
	if code, _, errs := runBench(t.Context(), env, "tenants"); code != cli.ExitEnvironment || !strings.Contains(errs, "FORGEQUEUE_OPERATOR_KEY") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

func TestBenchStartsAStackOfItsOwn(t *testing.T) {
	onBenchStack(t) // skips where there is no PostgreSQL
	t.Setenv(asProgram, "1")
	r := measureBench(t, nil, "snapshot", "--up", "--jobs", "100", "--batch", "10", "--slice", "50", "--compare=false")
	if r.Jobs < 100 || r.Figures["last_over_first_with"] <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestBenchCommandLine(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"nothing", "submit surplus", "submit --batch 0", "submit --batch 1001", "submit --rate 0", "submit --rate -1", "submit --duration 0s",
		"submit --duration 2h", "submit --concurrency 0", "submit --queue a/b", "submit --up --core http://127.0.0.1:1", "submit --items 2",
		"backlog --depths 5,4", "drain --rate 5", "submit --tenant x", "snapshot --jobs -1",
	} {
		if code, out, errs := runBench(t.Context(), nil, strings.Fields(args)...); code != cli.ExitUsage || out != "" || errs == "" {
			t.Errorf("%s: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	for args, says := range map[string]string{
		"submit":                             notRunning,
		"submit --core http://127.0.0.1:1":   "FORGEQUEUE_HOP_SECRET",
		"snapshot --core http://127.0.0.1:1": "FORGEQUEUE_HOP_SECRET",
	} {
		if code, _, errs := runBench(t.Context(), nil, strings.Fields(args)...); code != cli.ExitEnvironment || !strings.Contains(errs, says) {
			t.Errorf("%s: exit code %d\n%s", args, code, errs)
		}
	}
	remote := map[string]string{"FORGEQUEUE_URL": "http://192.0.2.1", "FORGEQUEUE_API_KEY": "k"}
	if code, _, errs := runBench(t.Context(), remote, "submit"); code != cli.ExitEnvironment || !strings.Contains(errs, "--allow-remote") {
		t.Errorf("another machine: exit code %d\n%s", code, errs)
	}
}
