package up

import (
	"os"
	"testing"
)

func TestFindRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
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
