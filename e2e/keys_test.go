package e2e_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// A tenant's key with the scope admin manages the keys of its tenant: they work at every gateway, end everywhere, and
// are no business of another tenant's.
func TestATenantManagesItsKeys(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	acme, other := c.NewTenant(t, "acme"), c.NewTenant(t, "other")
	ctx, owner, stranger := t.Context(), c.Client(t, acme.Key), c.Client(t, other.Key)
	made, err := owner.CreateOwnKey(ctx, api.KeyRequest{Scopes: []string{api.ScopeAdmin, api.ScopeManage}})
	if err != nil || *made.Tenant != acme.ID {
		t.Fatalf("%+v %v", made.Key, err)
	}
	at := func(gateway int) *client.Client {
		made, err := client.New(client.Options{URL: c.Gateways[gateway].URL, APIKey: made.Secret})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.CloseIdleConnections)
		return made
	}
	// It may not submit itself, and makes a key that may.
	second := at(1)
	producer, err := second.CreateOwnKey(ctx, api.KeyRequest{Scopes: []string{api.ScopeSubmit, api.ScopeRead}, User: new("ada")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Submit(ctx, api.SubmitRequest{Type: "t"}); client.Status(err) != http.StatusForbidden {
		t.Errorf("a submit without its scope: %v", err)
	}
	job, err := c.Client(t, producer.Secret).Submit(ctx, api.SubmitRequest{Type: "t"})
	if err != nil || *job.User != "ada" {
		t.Errorf("%+v %v", job, err)
	}

	who, err := owner.Whoami(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{who.KeyID, made.KeyID, producer.KeyID}
	slices.Sort(want)
	if got := keyIDs(t, owner); !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
	if got := keyIDs(t, stranger); len(got) != 1 || slices.Contains(want, got[0]) {
		t.Errorf("another tenant's keys: %v", got)
	}
	for name, refused := range map[string]struct {
		err    error
		status int
	}{
		"another tenant's":     {stranger.RevokeOwnKey(ctx, producer.KeyID), http.StatusNotFound},
		"of another tenant":    {owner.RevokeOwnKey(ctx, keyIDs(t, stranger)[0]), http.StatusNotFound},
		"by a bound key":       {c.Client(t, producer.Secret).RevokeOwnKey(ctx, made.KeyID), http.StatusForbidden},
		"of the key that asks": {second.RevokeOwnKey(ctx, made.KeyID), http.StatusForbidden},
	} {
		if client.Status(refused.err) != refused.status {
			t.Errorf("a revocation %s: %v", name, refused.err)
		}
	}

	log, err := owner.Audit(ctx, api.AuditFilter{KeyID: made.KeyID}, client.PageRequest{})
	if err != nil || len(log.Items) != 1 || log.Items[0].Action != api.AuditKeyCreate || *log.Items[0].Object != producer.KeyID {
		t.Errorf("the audit log of what the key did: %+v %v", log.Items, err)
	}

	if err := owner.RevokeOwnKey(ctx, made.KeyID); err != nil {
		t.Fatal(err)
	}
	if _, err := at(0).OwnKeys(ctx, client.PageRequest{}); client.Status(err) != http.StatusUnauthorized {
		t.Errorf("the revoked key, where it was revoked: %v", err)
	}
	// The other gateway may not know it yet; core does.
	if _, err := second.CreateOwnKey(ctx, api.KeyRequest{Scopes: api.Scopes()}); client.Status(err) != http.StatusForbidden && client.Status(err) != http.StatusUnauthorized {
		t.Errorf("a key that a revoked one makes: %v", err)
	}
	stack.Eventually(t, time.Minute, "the end of the key at the other gateway", func() bool {
		_, err := second.OwnKeys(ctx, client.PageRequest{})
		return client.Status(err) == http.StatusUnauthorized
	})
}

func keyIDs(t *testing.T, c *client.Client) (ids []string) {
	t.Helper()
	page, err := c.OwnKeys(t.Context(), client.PageRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range page.Items {
		ids = append(ids, key.KeyID)
	}
	return ids
}
