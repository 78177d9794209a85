package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// .ci/release refuses what would be no release of this source, and changes nothing then. What it makes is tried by
// .ci/run release.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	stack.Need(t, "git")
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@localhost"}, args...)...)
		command.Dir = dir
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, text)
		}
	}
	for name, text := range map[string]string{
		".ci/release":                  read(t, ".ci/release"),
		"shared/server/build/build.go": "package build\n\nconst Release = \"1.2.3\"\n",
		"CHANGELOG.md":                 "## Unreleased\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	refuses := func(version, want string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, ".ci", "release"), version)
		command.Dir = dir
		if text, err := command.CombinedOutput(); err == nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: %s", version, err, text)
		}
	}
	refuses("1.2.3", "has changes")
	git("add", ".")
	git("commit", "-qm", "one")
	refuses("", "usage:")
	refuses("1.2", "usage:")
	refuses("v1.2.4", `this source is "1.2.3"`)
	refuses("1.2.3", "has no heading for 1.2.3")
	git("tag", "v1.2.3")
	refuses("v1.2.3", "is there already")
}
