package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

// stack is ForgeQueue as it runs in production: core and gateway, a process each,
// on a database of their own.
type stack struct {
	m           *machine
	database    string
	core        *exec.Cmd
	gateway     *exec.Cmd
	environment []string
	coreURL     string
	gatewayURL  string
	operatorKey string
}

const startTime = 30 * time.Second

// startStack starts one. counted lets PostgreSQL count its statements.
func startStack(ctx context.Context, m *machine, counted bool) (*stack, error) {
	database, err := m.database(ctx, "forgequeue")
	if err == nil && counted {
		err = m.count(ctx, database)
	}
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	s := &stack{
		m: m, database: database, coreURL: "http://" + address(0), gatewayURL: "http://" + address(1),
		operatorKey: "fq_operator_" + rand.Text() + rand.Text(),
	}
	s.environment = append(clean(os.Environ()),
		"DATABASE_URL="+database, "REDIS_URL="+m.redisURL(),
		"FORGEQUEUE_CORE_LISTEN="+address(0), "FORGEQUEUE_CORE_METRICS_LISTEN="+address(2),
		"FORGEQUEUE_LISTEN="+address(1), "FORGEQUEUE_METRICS_LISTEN="+address(3),
		"FORGEQUEUE_CORE_URL="+s.coreURL, "FORGEQUEUE_URL="+s.gatewayURL,
		"FORGEQUEUE_HOP_SECRET="+rand.Text()+rand.Text(), "FORGEQUEUE_KEY_SECRET="+rand.Text()+rand.Text(),
		"FORGEQUEUE_OPERATOR_KEY="+s.operatorKey, "FORGEQUEUE_GRACE=2s", "FORGEQUEUE_LOG_LEVEL=warn",
	)
	migrate := s.command(ctx, "core", "migrate")
	if out, err := migrate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("core migrate: %w\n%s", err, out)
	}
	if err := s.launch(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// launch starts core and gateway; they are ready when it returns.
func (s *stack) launch(ctx context.Context) (err error) {
	if s.core, err = s.service(ctx, "core"); err != nil {
		return err
	}
	if s.gateway, err = s.service(ctx, "gateway"); err != nil {
		return err
	}
	return errors.Join(ready(ctx, s.coreURL), ready(ctx, s.gatewayURL))
}

// clean drops settings of ForgeQueue's that the environment has.
func clean(environment []string) []string {
	var kept []string
	for _, pair := range environment {
		if !strings.HasPrefix(pair, "FORGEQUEUE_") && !strings.HasPrefix(pair, "DATABASE_URL=") && !strings.HasPrefix(pair, "REDIS_URL=") {
			kept = append(kept, pair)
		}
	}
	return kept
}

func (s *stack) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, s.m.program, args...)
	command.Env = s.environment
	return command
}

// service starts core or gateway; its log goes to the machine's folder.
func (s *stack) service(ctx context.Context, name string) (*exec.Cmd, error) {
	command := s.command(context.WithoutCancel(ctx), name)
	return command, s.m.logged(command, name)
}

// logged starts a program whose log goes to the machine's folder.
func (m *machine) logged(command *exec.Cmd, name string) error {
	log, err := os.OpenFile(filepath.Join(m.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	if command.Stderr = log; command.Stdout == nil {
		command.Stdout = log
	}
	return command.Start()
}

// tail is the end of a program's log.
func (m *machine) tail(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.dir, name+".log")) // none: it said nothing
	return "\n" + string(text[max(0, len(text)-2000):])
}

func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := (&http.Client{}).Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%s is not ready: %w", url, err)
		}
	}
}

// stop ends both services, the gateway first.
func (s *stack) stop() {
	end(syscall.SIGTERM, s.gateway)
	end(syscall.SIGTERM, s.core)
}

// end ends a program that was started, if it was, and waits for its end.
func end(by syscall.Signal, command *exec.Cmd) {
	if command == nil || command.Process == nil {
		return
	}
	_ = command.Process.Signal(by)
	late := time.AfterFunc(startTime, func() { _ = command.Process.Kill() })
	_ = command.Wait() // what it had to say is in its log
	late.Stop()
}

// report is as much of a bench's report as is needed here.
type report struct {
	JobsPerSecond float64              `json:"jobs_per_second"`
	Latencies     map[string]latency   `json:"latencies_ms"`
	Figures       map[string]float64   `json:"figures"`
	Slices        map[string][]float64 `json:"slices"`
	Errors        map[string]int64     `json:"errors"`
}

type latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// bench runs forgequeue-bench on the stack.
func (s *stack) bench(ctx context.Context, args ...string) (report, error) {
	command := exec.CommandContext(ctx, s.m.bencher, append(args, "--json")...)
	command.Env = s.environment
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	var r report
	if err := command.Run(); err != nil {
		return r, fmt.Errorf("bench %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("bench %s: %w", strings.Join(args, " "), err)
	}
	for code, n := range r.Errors {
		fmt.Fprintf(os.Stderr, "bench %s: %d × %s\n", strings.Join(args, " "), n, code)
	}
	return r, nil
}

// freePorts are ports that nobody listens on now; taken together, so that they differ.
func freePorts(n int) (ports []int, err error) {
	var taken []net.Listener
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		taken = append(taken, listener)
	}
	for _, listener := range taken {
		if at, ok := listener.Addr().(*net.TCPAddr); ok {
			ports = append(ports, at.Port)
		}
		_ = listener.Close() // its port is what was wanted
	}
	return ports, nil
}
