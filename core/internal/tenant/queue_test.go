package tenant_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Queues have one order in each process: locks are taken in it.
func TestQueuesAreOrdered(t *testing.T) {
	t.Parallel()
	one, two := uuid.MustParse("00000000-0000-7000-8000-000000000001"), uuid.MustParse("00000000-0000-7000-8000-000000000002")
	want := []tenant.QueueKey{{one, "a"}, {one, "ab"}, {one, "b"}, {two, ""}, {two, "a"}}
	got := []tenant.QueueKey{want[4], want[1], want[3], want[0], want[2]}
	slices.SortFunc(got, tenant.QueueKey.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if same := want[0]; want[0].Compare(same) != 0 {
		t.Error("a queue is not equal to itself")
	}
}

// A secret is sealed for its place, so no two of different queues, or of different kinds, are the same.
func TestPlacesOfSecretsDiffer(t *testing.T) {
	t.Parallel()
	places := map[string]bool{}
	for _, owner := range []tenant.ID{tenant.Platform, uuid.MustParse("00000000-0000-7000-8000-000000000001")} {
		for _, name := range []string{"q", "credentials", "q.credentials"} {
			key := tenant.QueueKey{Tenant: owner, Name: name}
			places[key.SecretPlace()], places[key.CredentialsPlace()] = true, true
		}
	}
	if len(places) != 12 {
		t.Errorf("%d places: %v", len(places), places)
	}
}
