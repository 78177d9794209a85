package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// descendants lists the processes below pid, from /proc.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended in the meantime
		}
		// "pid (command) state ppid …"; the command may hold anything
		_, rest, _ := bytes.Cut(content[bytes.LastIndexByte(content, ')'):], []byte(" "))
		fields := strings.Fields(string(rest))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], child)
	}
	var all []int
	for next := children[pid]; len(next) > 0; {
		all = append(all, next...)
		var below []int
		for _, child := range next {
			below = append(below, children[child]...)
		}
		next = below
	}
	return all
}

func TestKillLeavesNoOrphanAndLosesNothing(t *testing.T) {
	t.Parallel()
	data := stack.Folder(t)
	s := stack.Up(t, data, "--demo=false")
	id := stack.Submit(t, s.Client(t), api.SubmitRequest{Type: "x"})
	below := descendants(t, s.Pid())
	if len(below) < 3 { // the postmaster, its processes, Redis
		t.Fatalf("only %d processes are below up", len(below))
	}
	s.Kill()
	stack.Eventually(t, time.Minute, "every child of the killed process has ended", func() bool {
		return !slices.ContainsFunc(below, stack.Alive)
	})
	again := stack.Up(t, data, "--demo=false")
	if job := stack.Get(t, again.Client(t), id); job.State != api.StateQueued {
		t.Fatalf("after the kill the job is %s", job.State)
	}
}

func TestSecondUpSaysWhoHoldsTheData(t *testing.T) {
	t.Parallel()
	data := stack.Folder(t)
	s := stack.Up(t, data, "--demo=false")
	second := stack.Start(t, "up", "--json", "--listen", "127.0.0.1:0", "--data-dir", data)
	if code := second.Wait(t, 30*time.Second); code != 3 {
		t.Errorf("exit code %d, want 3 (environment)", code)
	}
	if text := second.Output(); !strings.Contains(text, strconv.Itoa(s.Pid())) || !strings.Contains(text, data) {
		t.Errorf("it does not say who holds the data:\n%s", text)
	}
	stack.Submit(t, s.Client(t), api.SubmitRequest{Type: "x"}) // the first is well
}

func TestPortInUseIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	s := stack.Up(t, stack.Folder(t), "--demo=false")
	second := stack.Start(t, "up", "--listen", strings.TrimPrefix(s.Gateway, "http://"), "--data-dir", stack.Folder(t))
	if code := second.Wait(t, 30*time.Second); code == 0 {
		t.Error("it started")
	}
	if !strings.Contains(second.Output(), "--listen") {
		t.Errorf("no advice:\n%s", second.Output())
	}
}

// PostgreSQL and Redis crash under `up`: both come back, and so does the service.
func TestStoresComeBack(t *testing.T) {
	t.Parallel()
	s := stack.Up(t, stack.Folder(t), "--demo=false")
	c := s.Client(t)
	id := stack.Submit(t, c, api.SubmitRequest{Type: "x"})
	killed := 0
	for _, pid := range descendants(t, s.Pid()) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		argument, _, _ := strings.Cut(string(name), "\x00")
		program := filepath.Base(strings.Fields(argument + " -")[0])
		postmaster := program == "postgres" && strings.Contains(string(name), "-D")
		if postmaster || strings.HasPrefix(program, "redis") || strings.HasPrefix(program, "valkey") {
			process, err := os.FindProcess(pid)
			if err == nil && process.Kill() == nil {
				killed++
			}
		}
	}
	if killed != 2 {
		t.Fatalf("%d stores killed, want PostgreSQL and Redis", killed)
	}
	stack.Eventually(t, time.Minute, "submits are taken again", func() bool {
		_, err := c.Submit(t.Context(), api.SubmitRequest{Type: "x"})
		return err == nil
	})
	if job := stack.Get(t, c, id); job.State != api.StateQueued {
		t.Fatalf("the job is %s", job.State)
	}
	if code := s.Stop(t); code != 0 {
		t.Fatalf("exit code %d\n%s", code, s.Output())
	}
}
