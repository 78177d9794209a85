package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
)

// run executes the program without any environment.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	root := newRoot(cli.Options{
		Getenv: func(string) string { return "" },
		Local:  func() (up.Running, bool) { return up.Running{}, false },
	})
	var stdout, stderr bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(""))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code = cli.Execute(t.Context(), root)
	return code, stdout.String(), stderr.String()
}

// each visits every command that users see, with the words that name it.
func each(command *cobra.Command, words []string, visit func(command *cobra.Command, words []string)) {
	for _, child := range command.Commands() {
		if child.Hidden || child.Name() == "help" {
			continue
		}
		named := append(append([]string{}, words...), child.Name())
		visit(child, named)
		each(child, named, visit)
	}
}

func TestEveryCommandHelpsAndRefuses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	root := newRoot(cli.Options{})
	root.InitDefaultCompletionCmd()
	each(root, nil, func(command *cobra.Command, words []string) {
		name := strings.Join(words, " ")
		seen[name] = true
		if command.Short == "" || strings.HasSuffix(command.Short, ".") {
			t.Errorf("%s: its short help is %q", name, command.Short)
		}
		code, out, _ := run(t, append(words, "--help")...)
		if code != 0 || !strings.Contains(out, "Usage:") {
			t.Errorf("%s --help: exit code %d\n%s", name, code, out)
		}
		code, out, errs := run(t, append(words, "--no-such-flag")...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, name) && command.HasParent() || !strings.Contains(errs, "--help") {
			t.Errorf("%s --no-such-flag: exit code %d\n%s%s", name, code, out, errs)
		}
		if command.HasSubCommands() {
			if code, _, errs := run(t, append(words, "no-such-command")...); code != cli.ExitUsage {
				t.Errorf("%s no-such-command: exit code %d\n%s", name, code, errs)
			}
		}
	})
	for _, name := range []string{
		"up", "core", "core migrate", "gateway", "submit", "job get", "job watch", "job cancel", "job attempts", "job redrive", "jobs",
		"dead-letters list", "dead-letters redrive", "dead-letters discard", "queues", "queues list", "queues get", "queues set",
		"queues pause", "queues resume", "workers", "worker run", "tenant create", "tenant list", "tenant set", "key create", "key list",
		"key revoke", "plan get", "plan set", "limits", "whoami", "doctor", "completion bash", "completion zsh", "completion fish",
	} {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"no-such-command"},
		{"job"},
		{"job", "get"},
		{"job", "get", "a", "b"},
		{"submit"},
		{"worker"},
		{"worker", "run"},
		{"completion"},
		{"up", "surplus"},
		{"doctor", "surplus"},
		{"jobs", "--limit", "many"},
		{"submit", "x", "--delay", "soon"},
		{"whoami", "-o", "yaml"},
		{"up", "-o", "json"},
		{"tenant", "create"},
		{"key", "revoke"},
		{"plan", "set"},
		{"queues", "fly"},
	} {
		if code, out, errs := run(t, args...); code != cli.ExitUsage || out != "" || errs == "" {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	if code, out, _ := run(t); code != 0 || !strings.Contains(out, "Available Commands") {
		t.Errorf("without arguments: %d\n%s", code, out)
	}
	// Without a key nothing can be called: the environment is wrong.
	for _, args := range [][]string{{"whoami"}, {"jobs"}, {"submit", "x"}, {"tenant", "list"}, {"doctor"}} {
		if code, _, errs := run(t, args...); code != cli.ExitEnvironment || !strings.Contains(errs, "FORGEQUEUE_") {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := run(t, "completion", shell); code != 0 || !strings.Contains(out, "forgequeue") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
	if code, out, _ := run(t, "__complete", "jobs", "--state", "q"); code != 0 || !strings.Contains(out, "queued") {
		t.Errorf("states: %d %s", code, out)
	}
}
