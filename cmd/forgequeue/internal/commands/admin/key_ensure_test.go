package admin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

// What a deployment does first: a key in a file, made once.
func TestKeyEnsure(t *testing.T) {
	f := commandtest.New(t)
	path := filepath.Join(t.TempDir(), "api_key")
	ensure := []string{"key", "ensure", path, "--tenant-name", "deployed here"}
	f.Want(0, []string{"contains a new key"}, ensure...)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key's file: %v %v", info, err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Want(0, []string{"contains a valid key"}, ensure...)
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, first) {
		t.Errorf("a key that works was replaced (%v)", err)
	}
	f.With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_API_KEY_FILE", path).Want(0, []string{"tenant"}, "whoami")

	// One that the server does not know is replaced, for the same tenant.
	if err := os.WriteFile(path, []byte("fq_live_nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Want(0, []string{"contains a new key"}, ensure...)
	if n := strings.Count(f.Must("tenant", "list", "--limit", "0"), "deployed here"); n != 1 {
		t.Errorf("%d tenants of the name, want 1", n)
	}
	f.With("DATABASE_URL_FILE", path+"x").Want(1, []string{"DATABASE_URL_FILE"}, "doctor")
	f.Want(3, []string{"no such file"}, "key", "ensure", filepath.Join(path, "..", "missing", "api_key"), "--tenant-name", "deployed nowhere")
	// Of several tenants with the name none is taken.
	for range 2 {
		f.Must("tenant", "create", "twice here")
	}
	f.Want(1, []string{"2 tenants have the name twice here", "forgequeue key create TENANT_ID"}, "key", "ensure", filepath.Join(t.TempDir(), "k"), "--tenant-name", "twice here")
	f.With("FORGEQUEUE_OPERATOR_KEY", "").With("FORGEQUEUE_OPERATOR_KEY_FILE", path+"x").Want(3, []string{"FORGEQUEUE_OPERATOR_KEY_FILE"}, ensure...)
}
