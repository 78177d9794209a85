package admin_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestTenantsAndKeys(t *testing.T) {
	f := commandtest.New(t)
	tenant := commandtest.Decode[api.Tenant](f, f.Must("tenant", "create", "Shop Berlin", "--weight", "3", "-o", "json"))
	f.Want(0, []string{tenant.ID, "Shop Berlin", "standard"}, "tenant", "list", "--limit", "0")
	f.Want(0, []string{"Shop Hamburg", "max_active=5", "ada:max_running=2"}, "tenant", "set", tenant.ID, "--name", "Shop Hamburg",
		"max_active=5", "jobs-per-second=2.5", "--user-limit", "ada:max_running=2")
	set := commandtest.Decode[api.Tenant](f, f.Must("tenant", "set", tenant.ID, "max_active=none", "--weight", "7", "-o", "json"))
	if set.Weight != 7 || set.Overrides.MaxActive != nil || *set.Overrides.JobsPerSecond != 2.5 || *set.Overrides.Users["ada"].MaxRunning != 2 {
		t.Errorf("%+v", set)
	}
	set = commandtest.Decode[api.Tenant](f, f.Must("tenant", "set", tenant.ID, "--reset-limits", "-o", "json"))
	if set.Overrides.JobsPerSecond != nil || len(set.Overrides.Users) != 0 {
		t.Errorf("%+v", set.Overrides)
	}
	f.Want(2, []string{"say what to change"}, "tenant", "set", tenant.ID)
	f.Want(2, []string{"limits are requests_per_second"}, "tenant", "set", tenant.ID, "nonsense=1")
	f.Want(2, []string{"USER:NAME"}, "tenant", "set", tenant.ID, "--user-limit", "max_active=1")
	f.Want(1, []string{"not_found (404)"}, "tenant", "set", "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10", "max_active=1")

	key := commandtest.Decode[api.NewKey](f, f.Must("key", "create", tenant.ID, "--scopes", "read,submit", "--user", "ada", "--expires", "24h", "-o", "json"))
	f.Want(0, []string{key.KeyID, "ada", "read"}, "key", "list", tenant.ID)
	if out := f.Must("key", "list", tenant.ID, "-o", "json"); strings.Contains(out, key.Secret) {
		t.Error("the list shows the key")
	}
	other := f.With("FORGEQUEUE_API_KEY", key.Secret)
	other.Want(0, []string{tenant.ID, "ada", key.KeyID}, "whoami")
	other.Want(1, []string{"forbidden (403)"}, "queues", "pause", "x")
	f.Want(1, []string{"not_found (404)", "--operator"}, "key", "revoke", key.KeyID) // of another tenant
	f.Want(0, []string{"is revoked"}, "key", "revoke", "--operator", key.KeyID)
	f.Want(0, nil, "key", "revoke", "--operator", key.KeyID, "-o", "json")
	other.Want(3, []string{"unauthenticated (401)"}, "whoami")

	// A key with the scope admin does the same in its own tenant.
	owner := commandtest.Decode[api.NewKey](f, f.Must("key", "create", tenant.ID, "--scopes", "admin", "-o", "json"))
	own := f.With("FORGEQUEUE_API_KEY", owner.Secret).With("FORGEQUEUE_OPERATOR_KEY", "")
	made := commandtest.Decode[api.NewKey](f, own.Must("key", "create", "--expires", "24h", "-o", "json"))
	if strings.Join(made.Scopes, ",") != "submit,read,work,manage,payload" || *made.Tenant != tenant.ID {
		t.Errorf("%+v", made.Key)
	}
	own.Want(0, []string{made.KeyID, owner.KeyID}, "key", "list")
	own.Want(2, []string{"-o name"}, "key", "create", "-o", "name")
	own.Want(1, []string{"forbidden (403)", "cannot revoke itself"}, "key", "revoke", owner.KeyID)
	own.Want(0, []string{"have ended"}, "key", "end-sessions")
	own.Want(0, []string{"is revoked"}, "key", "revoke", made.KeyID)
	f.With("FORGEQUEUE_API_KEY", made.Secret).Want(3, []string{"unauthenticated (401)"}, "key", "list")

	f.Want(0, []string{"Shop Hamburg"}, "tenant", "get", tenant.ID)
	f.Want(2, []string{"pass --yes"}, "tenant", "delete", tenant.ID)
	for range 2 {
		f.Want(0, []string{tenant.ID, "running; ", "rows removed"}, "tenant", "delete", tenant.ID, "--yes")
	}
	f.Want(1, []string{"forbidden (403)", "deleted"}, "key", "create", tenant.ID, "--scopes", "read")
	f.Want(1, []string{"not_found (404)"}, "tenant", "delete", "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10", "--yes")

	platform := commandtest.Decode[api.NewKey](f, f.Must("key", "create", "--platform", "-o", "json"))
	f.With("FORGEQUEUE_API_KEY", platform.Secret).Want(0, []string{"platform key"}, "whoami")
	f.Want(2, []string{"cannot be combined"}, "key", "create", tenant.ID, "--platform")
	f.Want(1, []string{"scopes[0]"}, "key", "create", tenant.ID, "--scopes", "everything")
	f.With("FORGEQUEUE_OPERATOR_KEY", "").Want(3, []string{"FORGEQUEUE_OPERATOR_KEY is not set"}, "tenant", "list")
	f.With("FORGEQUEUE_OPERATOR_KEY", f.Ready.APIKey).Want(1, []string{"forbidden"}, "tenant", "list")
}
