//go:build unix

package up

import (
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
)

// findRunning finds those on data folders, in the folders' order.
func findRunning(dirs ...string) (found []localup.Running) {
	for _, one := range localup.Find() {
		if slices.Contains(dirs, one.Data) { // others run on this machine
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b localup.Running) int { return slices.Index(dirs, a.Data) - slices.Index(dirs, b.Data) })
	return found
}

// What `up` writes is what commands find: each `up` that is ready, wherever its data lies.
func TestFindRunning(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dirs := []string{t.TempDir(), t.TempDir()}
	ends := make([]func(), len(dirs))
	for i, dir := range dirs {
		f, err := openFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.close)
		kept, err := f.loadCredentials()
		if err != nil {
			t.Fatal(err)
		}
		kept.APIKey, kept.Gateway, kept.DatabaseURL = "fq_key", "http://127.0.0.1:1", "postgres://d"
		if err := f.saveCredentials(kept); err != nil {
			t.Fatal(err)
		}
		if found := findRunning(dirs...); len(found) != i {
			t.Fatalf("found before it is ready: %+v", found)
		}
		if ends[i], err = localup.Register(f.path); err != nil {
			t.Fatal(err)
		}
		want := localup.Running{Gateway: kept.Gateway, APIKey: "fq_key", OperatorKey: kept.OperatorKey, DatabaseURL: "postgres://d", Data: dir}
		if found := findRunning(dirs...); len(found) != i+1 || found[i] != want {
			t.Fatalf("%+v, want %+v", found, want)
		}
	}
	for i, end := range ends {
		end()
		if found := findRunning(dirs...); len(found) != len(ends)-i-1 {
			t.Fatalf("found after its end: %+v", found)
		}
	}
}
