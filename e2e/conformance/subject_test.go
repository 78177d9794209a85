package conformance_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// subject is one client that is held to the cases.
type subject struct {
	name string
	// program is what runs its driver; empty is this test binary.
	program string
	args    []string
}

func subjects() []subject {
	return []subject{
		{name: "Go"},
		{"TypeScript", "node", []string{"driver.mjs"}},
		{"Python", "python3", []string{"driver.py"}},
		{"Python asyncio", "python3", []string{"driver.py", "--async"}},
	}
}

// driver is a running driver.
type driver struct {
	process *stack.Process
	input   io.WriteCloser

	mu      sync.Mutex
	last    int
	answers map[int]chan line
	events  []line
	// ended is closed when the driver has ended.
	ended chan struct{}
}

// start starts a driver; the test is skipped, and fails under CI, where its program is not installed.
func (s subject) start(t *testing.T) *driver {
	t.Helper()
	program, args := os.Args[0], s.args
	if s.program != "" {
		program = stack.Need(t, s.program)
		file, err := filepath.Abs(filepath.Join("testdata", args[0]))
		if err != nil {
			t.Fatal(err)
		}
		args = append([]string{file}, args[1:]...)
	}
	process := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	process.Env = append(os.Environ(), driverEnv+"=1", "FORGEQUEUE_API_KEY=", "GOMAXPROCS=2")
	input, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{input: input, answers: map[int]chan line{}, ended: make(chan struct{})}
	d.process = stack.StartCommand(t, process)
	go d.read()
	return d
}

// read passes on what the driver says, until it ends.
func (d *driver) read() {
	defer close(d.ended)
	for {
		text, err := d.process.FirstLine(time.Hour)
		if err != nil {
			return
		}
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			panic("a driver said " + text)
		}
		d.mu.Lock()
		if l.Event != "" {
			d.events = append(d.events, l)
		} else {
			d.answers[l.ID] <- l
		}
		d.mu.Unlock()
	}
}

// begin sends a command.
func (d *driver) begin(t *testing.T, c command) (id int, answer <-chan line) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	c.ID = d.last
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan line, 1)
	d.answers[c.ID] = waiting
	if _, err := d.input.Write(append(text, '\n')); err != nil {
		t.Fatalf("the driver has ended: %v\n%s", err, d.process.Output())
	}
	return c.ID, waiting
}

// answered waits for the answer to a command.
func (d *driver) answered(t *testing.T, what string, answer <-chan line) line {
	t.Helper()
	select {
	case l := <-answer:
		return l
	case <-d.ended:
		t.Fatalf("the driver has ended without an answer to %s\n%s", what, d.process.Output())
		return line{}
	case <-time.After(stack.Patience(time.Minute)):
		t.Fatalf("no answer to %s\n%s", what, d.process.Output())
		return line{}
	}
}

// alive ends the test where the driver has ended.
func (d *driver) alive(t *testing.T) {
	t.Helper()
	select {
	case <-d.ended:
		t.Fatalf("the driver has ended\n%s", d.process.Output())
	default:
	}
}

// event waits for an event.
func (d *driver) event(t *testing.T, what string, wanted func(line) bool) line {
	t.Helper()
	var found line
	stack.Eventually(t, time.Minute, what, func() bool {
		d.alive(t)
		d.mu.Lock()
		defer d.mu.Unlock()
		i := slices.IndexFunc(d.events, wanted)
		if i >= 0 {
			found = d.events[i]
		}
		return i >= 0
	})
	return found
}
