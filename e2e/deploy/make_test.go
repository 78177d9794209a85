package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// fakeGo builds nothing: it says what `go build -v` says, and leaves a program that
// repeats its arguments.
const fakeGo = `#!/bin/sh
[ "$1" != -C ] || shift 2
case $1 in
env) echo go1.999.0 ;;
build)
	echo 'go: downloading example.com/a v1.0.0' >&2
	echo "flags $*" >&2
	for i in $(seq 60); do echo "example.com/a/package$i" >&2; done
	[ -z "$BROKEN" ] || { echo './main.go:1:1: it does not compile' >&2; exit 1; }
	printf '#!/bin/sh\necho "{\\"args\\":\\"$*\\"}"\n' >bin/run/forgequeue
	chmod 755 bin/run/forgequeue
	;;
*) echo "this go cannot $1" >&2; exit 1 ;;
esac
`

// makeRun runs `make run` in a copy of what it needs, with a fake Go.
func makeRun(t *testing.T, environment ...string) (stdout, stderr string, err error) {
	t.Helper()
	return makeRunIn(t, t.TempDir(), func() {}, environment...)
}

// makeRunIn does it in a folder; prepared is called when the files are there.
func makeRunIn(t *testing.T, dir string, prepared func(), environment ...string) (stdout, stderr string, err error) {
	t.Helper()
	program, err := exec.LookPath("make")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("CI needs make: see .ci/install")
		}
		t.Skip("make is not installed")
	}
	files := map[string]string{"fake/go": fakeGo}
	for _, name := range []string{"Makefile", "go.work", ".ci/flags", ".ci/install", ".ci/start"} {
		files[name] = read(t, name)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	prepared()
	var out, problems bytes.Buffer
	command := exec.CommandContext(t.Context(), program, "run", "ARGS=--json --demo=false")
	command.Dir, command.Stdout, command.Stderr = dir, &out, &problems
	// The stores count as given, so that nothing is installed here.
	command.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "fake")+":"+os.Getenv("PATH"),
		"DATABASE_URL=postgres://given", "REDIS_URL=redis://given", "MAKEFLAGS=", "MAKELEVEL=")
	command.Env = append(command.Env, environment...)
	err = command.Run()
	return out.String(), problems.String(), err
}

// `make run` tells on standard error what it does while it builds; standard output is
// the program's alone, so that --json can be read from it.
func TestMakeRunKeepsStandardOutput(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := makeRun(t)
	if want := `{"args":"up --json --demo=false"}` + "\n"; err != nil || stdout != want {
		t.Errorf("standard output is %q, want %q; %v\n%s", stdout, want, err, stderr)
	}
	for _, want := range []string{"install: go 1.999.0", "run: fetching modules", "run: compiling the program", "run: 50 packages compiled"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error does not say %q:\n%s", want, stderr)
		}
	}
}

func TestMakeRunEndsWhereItDoesNotBuild(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := makeRun(t, "BROKEN=yes")
	if err == nil || stdout != "" || !strings.Contains(stderr, "./main.go:1:1: it does not compile") {
		t.Errorf("%v, standard output %q, standard error:\n%s", err, stdout, stderr)
	}
}

// The commit of a release is built with its version; without a tag, or with changes, the program says that it is none.
func TestMakeRunNamesTheReleaseOfItsCommit(t *testing.T) {
	t.Parallel()
	git := stack.Need(t, "git")
	for tag, want := range map[string]bool{"v9.8.7": true, "core/v9.8.7": false} {
		dir := t.TempDir()
		_, stderr, err := makeRunIn(t, dir, func() {
			for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "one"}, {"tag", "-a", tag, "-m", tag}} {
				command := exec.CommandContext(t.Context(), git, append([]string{"-c", "user.name=x", "-c", "user.email=x@localhost"}, args...)...)
				command.Dir = dir
				if text, err := command.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if named := strings.Contains(stderr, "build.version=v9.8.7"); named != want || !strings.Contains(stderr, "build.revision=") {
			t.Errorf("with the tag %s it builds with:\n%s", tag, stderr)
		}
	}
}
