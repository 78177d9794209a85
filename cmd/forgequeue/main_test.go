package main

import (
	"bytes"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/shared/server/build"
)

// run executes the program without any environment.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	root := newRoot(cli.Options{
		Getenv: func(string) string { return "" },
		Local:  func() []localup.Running { return nil },
		// Where nothing listens.
		DefaultURL: "http://127.0.0.1:1",
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
		"up", "core", "core migrate", "core health", "core tenant move", "gateway", "gateway health", "submit", "job", "job list", "job get", "job watch", "job cancel", "job attempts", "job redrive",
		"dead-letter list", "dead-letter groups", "dead-letter redrive", "dead-letter discard", "redrive list", "redrive get",
		"redrive watch", "redrive cancel", "schedule list", "schedule set", "schedule get", "schedule pause", "schedule resume", "schedule trigger",
		"schedule runs", "schedule delete", "audit", "queue", "queue list", "queue get", "queue set",
		"queue delete", "queue pause", "queue resume", "worker", "worker list", "worker run", "worker sample", "worker health", "tenant create", "tenant list", "tenant set", "tenant get", "tenant delete", "key create", "key ensure", "key list",
		"key revoke", "plan get", "plan list", "plan set", "open", "limits", "whoami", "doctor", "completion bash", "completion zsh", "completion fish",
		"job parents", "job logs", "job signal", "job signal-link", "job rerun", "job delete", "workflow submit", "workflow get", "workflow list", "workflow add", "workflow cancel", "workflow redrive",
		"relay", "relay migrate", "relay schema", "relay status", "relay failed", "relay retry", "relay discard",
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
		{"workflow", "get"},
		{"job", "get"},
		{"job", "get", "a", "b"},
		{"submit"},
		{"worker", "run"},
		{"completion"},
		{"up", "surplus"},
		{"doctor", "surplus"},
		{"jobs", "--limit", "many"},
		{"submit", "x", "--delay", "soon"},
		{"whoami", "-o", "yaml"},
		{"up", "-o", "json"},
		{"tenant", "create"},
		{"core", "tenant", "move", "a"},
		{"key", "revoke"},
		{"plan", "set"},
		{"queues", "fly"},
	} {
		if code, out, errs := run(t, args...); code != cli.ExitUsage || out != "" || errs == "" {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	if code, out, _ := run(t); code != 0 || !strings.Contains(out, "Set up:") {
		t.Errorf("without arguments: %d\n%s", code, out)
	}
	// Without a key nothing can be called: the environment is wrong.
	for _, args := range [][]string{{"whoami"}, {"jobs"}, {"submit", "x"}, {"tenant", "list"}, {"doctor"}} {
		if code, _, errs := run(t, args...); code != cli.ExitEnvironment || !strings.Contains(errs, "FORGEQUEUE_") {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
	}
}

func TestMistypedCommands(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"sumbit":           "forgequeue has no command \"sumbit\"; did you mean submit?",
		"queues gte":       "did you mean get?",
		"dead-letters lst": "did you mean list?",
		"job cancl 17":     "did you mean cancel?",
		"nonsense":         "forgequeue has no command \"nonsense\"; it has ",
	} {
		if code, _, errs := run(t, strings.Fields(words)...); code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d\n%s", words, code, errs)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	_, told, _ := run(t, "version")
	if !strings.HasPrefix(told, "forgequeue "+build.Release+"-dev") || !strings.Contains(told, "revision ") || !strings.Contains(told, runtime.Version()) {
		t.Errorf("%q", told)
	}
	if code, out, _ := run(t, "--version"); code != 0 || out != told {
		t.Errorf("--version: %d %q", code, out)
	}
	if code, out, _ := run(t, "version", "-o", "json"); code != 0 || !strings.Contains(out, `"revision"`) {
		t.Errorf("as JSON: %d %q", code, out)
	}
}

// What up finds wrong with the machine ends it with 3, and says what to do.
func TestUpInAWrongEnvironment(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://u:hunter2@127.0.0.1:1/x")
	t.Setenv("REDIS_URL", "redis://127.0.0.1:1")
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for want, flags := range map[string][]string{
		"--listen HOST:PORT":   {"--data-dir", t.TempDir(), "--listen", taken.Addr().String()},
		"--data-dir DIR":       {"--data-dir", "/dev/null/x"},
		"Correct DATABASE_URL": {"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0"},
	} {
		code, _, errs := run(t, append([]string{"up"}, flags...)...)
		if code != cli.ExitEnvironment || !strings.Contains(errs, want) || strings.Contains(errs, "hunter2") {
			t.Errorf("%v: exit code %d, want the advice %q\n%s", flags, code, want, errs)
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

// A flag of a command with the name of one that its parents give to all would be read in that one's place: --url would
// be both a webhook's target and the server that gets the key.
func TestNoFlagShadowsOneOfAParent(t *testing.T) {
	t.Parallel()
	each(newRoot(cli.Options{}), nil, func(command *cobra.Command, words []string) {
		command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			for parent := command; parent != nil; parent = parent.Parent() {
				if global := parent.PersistentFlags().Lookup(flag.Name); global != nil && global != flag {
					t.Errorf("%s: its --%s shadows the --%[2]s of %s", strings.Join(words, " "), flag.Name, parent.Name())
				}
			}
		})
	})
}
