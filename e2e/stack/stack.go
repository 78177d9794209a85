// Package stack starts ForgeQueue for black-box tests: the real program, as its
// users start it, with stores of its own.
package stack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // makes the databases that the tests run on

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/e2e/contract"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Repository is the path of what lies under the repository's root, from the folder of
// any package of tests.
func Repository(path ...string) string {
	root := "."
	for range 5 {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			break
		}
		root = filepath.Join(root, "..")
	}
	return filepath.Join(append([]string{root}, path...)...)
}

// Main runs the tests, stops the stores that they shared and removes what was
// built. An answer of a gateway that is not as its document has it fails the run.
func Main(m *testing.M) int {
	http.DefaultTransport = contract.Transport(http.DefaultTransport) // what tests send by themselves
	code := storetest.Main(m)
	for _, violation := range contract.Violations() {
		fmt.Fprintln(os.Stderr, "not as api-docs/gateway.json has it:", violation)
		code = max(code, 1)
	}
	for _, built := range []*binary{&forgequeue, &otherClock, &bridge, &kubernetes, &promql} {
		built.remove()
	}
	return code
}

// Folder gives an empty data folder that PostgreSQL's user can reach, removed at
// the end: a test's own TempDir is closed to everybody but root.
func Folder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fq-")
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Ready is what `up --json` prints.
type Ready struct {
	Gateway     string `json:"gateway"`
	APIKey      string `json:"api_key"`
	OperatorKey string `json:"operator_key"`
	PlatformKey string `json:"platform_key"`
	DatabaseURL string `json:"database_url"`
	Redis       struct {
		Mode string `json:"mode"`
		URL  string `json:"url"`
	} `json:"redis"`
	Data    string `json:"data"`
	Metrics struct {
		Gateway string `json:"gateway"`
		Core    string `json:"core"`
	} `json:"metrics"`
}

// Stack is a running `forgequeue up`.
type Stack struct {
	Ready
	process *Process
}

// Up starts `forgequeue up --json` with a free port and more arguments, and waits
// until it is ready.
func Up(tb testing.TB, data string, args ...string) *Stack {
	tb.Helper()
	process := Start(tb, append([]string{"up", "--json", "--listen", "127.0.0.1:0", "--data-dir", data}, args...)...)
	s := &Stack{process: process}
	line, err := process.FirstLine(90 * time.Second)
	if err == nil {
		err = json.Unmarshal([]byte(line), &s.Ready)
	}
	if err != nil {
		tb.Fatalf("stack: up is not ready: %v\n%s", err, process.Output())
	}
	return s
}

// SecondDatabase makes a database beside up's own, whose core would reap there, and
// gives its URL.
func (s *Stack) SecondDatabase(tb testing.TB) string {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), s.DatabaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(tb.Context()) }()
	if _, err := conn.Exec(tb.Context(), "CREATE DATABASE beside"); err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(s.DatabaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	u.Path = "/beside"
	return u.String()
}

// Client gives a client with the default key.
func (s *Stack) Client(tb testing.TB) *client.Client { return s.ClientFor(tb, s.APIKey) }

// ClientFor gives a client with another key.
func (s *Stack) ClientFor(tb testing.TB, key string) *client.Client {
	tb.Helper()
	c := newClient(tb, s.Gateway, key)
	tb.Cleanup(c.CloseIdleConnections)
	return c
}

// newClient makes a client whose answers are held to the gateway's document.
func newClient(tb testing.TB, url, key string) *client.Client {
	tb.Helper()
	c, err := client.New(client.Options{URL: url, APIKey: key, HTTPClient: &http.Client{
		Transport:     contract.Transport(&http.Transport{MaxIdleConnsPerHost: 100}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Pid is the process's.
func (s *Stack) Pid() int { return s.process.Pid() }

// Kill ends the process by SIGKILL and waits for it.
func (s *Stack) Kill() { s.process.Kill() }

// Stop ends the process by SIGTERM and gives its exit code.
func (s *Stack) Stop(tb testing.TB) int { return s.process.Stop(tb) }

// Output is what it wrote to standard error.
func (s *Stack) Output() string { return s.process.Output() }

// Process is a child that ends with its test at the latest.
type Process struct {
	command *exec.Cmd
	lines   chan string
	errors  output
	ended   chan struct{}
}

// output collects what a process writes while others read it.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// Start starts the program with arguments. Its stores are its own, also where the tests
// were given some: these are shared, and what is done to a program's stores is not for
// others.
func Start(tb testing.TB, args ...string) *Process {
	tb.Helper()
	command := exec.CommandContext(context.WithoutCancel(tb.Context()), Binary(tb), args...)
	// The machine may be slow: Redis that answers late is not away.
	// Commands that look for an `up` on this machine do not find that of a test.
	command.Env = append([]string{"FORGEQUEUE_REDIS_TIMEOUT=2s", "XDG_STATE_HOME=" + tb.TempDir()}, slices.DeleteFunc(os.Environ(), func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return name == "DATABASE_URL" || name == "REDIS_URL" || name == "XDG_STATE_HOME"
	})...)
	return StartCommand(tb, command)
}

// StartCommand starts any command as a child of the test.
func StartCommand(tb testing.TB, command *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{command: command, lines: make(chan string, 1000), ended: make(chan struct{})}
	stdout, err := command.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	command.Stderr = &p.errors
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	go p.read(stdout)
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("%s wrote:\n%s", filepath.Base(command.Path), p.Output())
		}
	})
	return p
}

// read passes lines on until the process has closed its output, then collects it.
func (p *Process) read(stdout io.Reader) {
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		select {
		case p.lines <- scanner.Text():
		default: // nobody reads that many
		}
	}
	close(p.lines)
	_ = p.command.Wait() // the state is read from the command
	close(p.ended)
}

// FirstLine waits for the next line of standard output; Patience(within) is the guard
// against a hang.
func (p *Process) FirstLine(within time.Duration) (string, error) {
	select {
	case line, open := <-p.lines:
		if !open {
			return "", errors.New("the process ended")
		}
		return line, nil
	case <-time.After(Patience(within)):
		return "", fmt.Errorf("no line within %v", Patience(within))
	}
}

// Lines gives the further lines of standard output until its end; within is the wait for each.
func (p *Process) Lines(within time.Duration) (lines []string) {
	for {
		line, err := p.FirstLine(within)
		if err != nil {
			return lines
		}
		lines = append(lines, line)
	}
}

// Pid is the process's.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// Running says whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process by SIGKILL and waits for it; one that has ended stays so.
func (p *Process) Kill() {
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Wait waits for the end and gives the exit code, -1 for a signal; Patience(within) is
// the guard against a hang.
func (p *Process) Wait(tb testing.TB, within time.Duration) int {
	tb.Helper()
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode()
	case <-time.After(Patience(within)):
		tb.Fatalf("the process has not ended within %v\n%s", Patience(within), p.Output())
		return -1
	}
}

// Stop ends the process by SIGTERM and gives its exit code.
func (p *Process) Stop(tb testing.TB) int {
	tb.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Wait(tb, time.Minute)
}

// Output is what the process wrote to standard error.
func (p *Process) Output() string { return p.errors.String() }

// Alive says whether a process runs.
func Alive(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(content, []byte(") Z "))
}

// Need gives the path of a program, and skips the test where it is not installed. CI
// has all of them.
func Need(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatalf("CI needs %s: see .ci/install", name)
		}
		tb.Skipf("%s is not installed", name)
	}
	return path
}
