package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestSweepTakesOnlyWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	held, err := Make(parent, "pre-")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pre-dead", "other"} {
		if err := os.MkdirAll(filepath.Join(parent, name, "deep"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(parent, "other"), filepath.Join(parent, "pre-link")); err != nil {
		t.Fatal(err)
	}
	second, err := Make(parent, "pre-")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		held.Path: true, second.Path: true,
		filepath.Join(parent, "pre-dead"): false, filepath.Join(parent, "other", "deep"): true,
	} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", path, err == nil, want)
		}
	}
	if err := errors.Join(held.Remove(), second.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(held.Path); err == nil {
		t.Error("Remove leaves the folder")
	}
}

func TestKeptFolderStays(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	folder, err := Make(parent, "pre-")
	if err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(parent, "final")
	if err := os.Rename(folder.Path, final); err != nil {
		t.Fatal(err)
	}
	folder.Keep()
	sweep(parent, "pre-")
	if _, err := os.Lstat(final); err != nil {
		t.Error(err)
	}
}

// Makers sweep while others make: none may lose its folder.
func TestMakersDoNotSweepEachOther(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				folder, err := Make(parent, "pre-")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Lstat(folder.Path); err != nil {
					t.Error(err)
				}
				if err := folder.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestMakeInAMissingFolder(t *testing.T) {
	t.Parallel()
	if _, err := Make(filepath.Join(t.TempDir(), "missing"), "pre-"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
