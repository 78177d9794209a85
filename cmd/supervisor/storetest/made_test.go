package storetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
)

// The copy is a data folder of its own: PostgreSQL's user owns it, and what was made stays as it was.
func TestACopyOfWhatInitdbMade(t *testing.T) {
	t.Parallel()
	if _, err := supervisor.FindPostgres(t.Context()); err != nil {
		if required() {
			t.Fatalf("CI demands PostgreSQL's programs: %v", err)
		}
		t.Skipf("PostgreSQL's programs are missing: %v", err)
	}
	from, err := made(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "data")
	if !copyMade(t.Context(), to) {
		t.Fatal("no copy")
	}
	for _, folder := range []string{from, to} {
		if _, err := os.Stat(filepath.Join(folder, "postmaster.pid")); err == nil {
			t.Errorf("a server runs in %s", folder)
		}
		info, err := os.Stat(filepath.Join(folder, "PG_VERSION"))
		if err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

// Where there is nothing to copy, nothing is left under the new name: initdb runs there.
func TestACopyThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "none", "data")
	if copyMade(t.Context(), to) {
		t.Fatal("copied into a folder that is not there")
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
