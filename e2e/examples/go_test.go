package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// module makes a module of a user's own, outside the workspace, and gives its
// folder and a way to call go in it.
func module(t *testing.T, files map[string]string) (dir string, call func(args ...string)) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, content)
	}
	call = func(args ...string) {
		t.Helper()
		command := goCommand(t, dir, args...)
		command.Env = append(command.Env, "GOWORK=off")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, output)
		}
	}
	shared, err := filepath.Abs(stack.Repository("shared"))
	if err != nil {
		t.Fatal(err)
	}
	const sdk = "github.com/forgequeue/forgequeue/shared"
	call("mod", "init", "greeter")
	call("mod", "edit", "-require", sdk+"@v0.0.0", "-replace", sdk+"="+shared)
	return dir, call
}

// goCommand calls go, as a user would, but for the flags with which the tests have compiled most of it already.
func goCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	flags := os.Getenv("GOFLAGS")
	for _, flag := range stack.BuildFlags() {
		flags += " '" + flag + "'"
	}
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir, command.Env = dir, append(os.Environ(), "GOFLAGS="+flags)
	return command
}

// The README's worker in Go is built as a user would build it, and works.
func (e *examples) goWorker(t *testing.T) {
	t.Parallel()
	dir, call := module(t, map[string]string{"main.go": block(t, "README.md", "## A worker in Go", "go", 0)})
	call("build", "-o", "greeter", ".")
	c := e.Client(t)
	worker := e.run(t, e.environment(), filepath.Join(dir, "greeter"))
	id := stack.Submit(t, c, api.SubmitRequest{Type: "greet", Queue: "mine", Payload: []byte(`{"name":"Ada"}`)})
	ends(t, c, id, api.StateCompleted, `{"hello":"Ada"}`)
	nobody := stack.Submit(t, c, api.SubmitRequest{Type: "greet", Queue: "mine", Payload: []byte(`{}`)})
	ends(t, c, nobody, api.ReasonPermanent, "null")
	stops(t, worker)
}

// The Go for those who know another queue compiles.
func TestExampleComingFrom(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, heading := range []string{"## River", "## Sidekiq", "## SQS", "## Celery"} {
		name := strings.ToLower(strings.TrimPrefix(heading, "## "))
		files[name+"/"+name+".go"] = "package " + name + "\n" + imports + block(t, "api-docs/coming-from.md", heading, "go", 0)
	}
	_, call := module(t, files)
	call("vet", "./...")
}

// imports are those of the page's pieces; what one does not use is used here.
const imports = `
import (
	"context"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

var (
	_ context.Context
	_ = slices.Max[[]int]
	_ time.Duration
	_ api.Job
	_ client.JobOptions
	_ worker.Options
)

`

// The program of the SDK's page compiles, and its tests pass.
func TestExampleSDK(t *testing.T) {
	t.Parallel()
	_, call := module(t, map[string]string{
		"main.go":      block(t, "api-docs/sdk-go.md", "# The Go SDK", "go", 0),
		"main_test.go": block(t, "api-docs/sdk-go.md", "## Tests", "go", 0),
	})
	call("vet", ".")
	call("test", ".")
}
