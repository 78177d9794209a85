//go:build unix

package up

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
)

// findRunning finds the one on a data folder.
func findRunning(dir string) (localup.Running, bool) {
	for _, r := range localup.Find() {
		if r.Data == dir {
			return r, true
		}
	}
	return localup.Running{}, false
}

func TestFindRunning(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	remove, err := localup.Register(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if _, ok := findRunning(dir); ok {
		t.Fatal("found in an empty folder")
	}
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	kept, err := f.loadCredentials()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := findRunning(dir); ok {
		t.Fatal("found before it is ready")
	}
	kept.APIKey, kept.Gateway = "fq_key", "http://127.0.0.1:1"
	if err := f.saveCredentials(kept); err != nil {
		t.Fatal(err)
	}
	r, ok := findRunning(dir)
	if !ok || r.Gateway != kept.Gateway || r.APIKey != "fq_key" || r.OperatorKey != kept.OperatorKey || r.Data != dir {
		t.Fatalf("%+v", r)
	}
	// Its holder has ended: no process has this id.
	if err := os.WriteFile(f.join("lock"), []byte("4194305\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := findRunning(dir); ok {
		t.Fatal("found although nobody runs")
	}
}

// registered is how many files the registry has.
func registered(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_STATE_HOME"), "forgequeue", "up", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// Commands find each `up` that runs, wherever its data lies.
func TestFindRunningAnywhere(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	var removes []func()
	found := func() (folders []string) {
		for _, r := range localup.Find() {
			if strings.HasPrefix(r.Data, os.TempDir()) { // root's default folder may be in use
				folders = append(folders, r.Data)
			}
		}
		return folders
	}
	var want []string
	for range 2 {
		f, err := openFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.close)
		kept, err := f.loadCredentials()
		if err != nil {
			t.Fatal(err)
		}
		kept.APIKey, kept.Gateway = "fq_key", "http://127.0.0.1:1"
		if err := f.saveCredentials(kept); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second time changes nothing
			remove, err := localup.Register(f.path)
			if err != nil {
				t.Fatal(err)
			}
			removes = append(removes, remove)
		}
		want = append(want, f.path)
	}
	slices.Sort(want)
	if got := found(); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("found %q, want %q", got, want)
	}
	// One has been killed: its file stays, and names nothing that runs.
	if err := os.WriteFile(filepath.Join(want[0], "lock"), []byte("4194305\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := found(); !slices.Equal(got, want[1:]) {
		t.Errorf("found %q, want %q", got, want[1:])
	}
	// A folder that has gone takes its file with it.
	gone := filepath.Join(t.TempDir(), "gone")
	if _, err := localup.Register(gone); err != nil {
		t.Fatal(err)
	}
	localup.Find()
	if n := registered(t); n != len(want) {
		t.Errorf("%d are registered, want %d", n, len(want))
	}
	for _, remove := range removes {
		remove()
	}
	if got := found(); len(got) > 0 || registered(t) > 0 {
		t.Errorf("found %q after all have ended", got)
	}
}
