package jobtypes_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Who does not see sensitive values cannot change or delete their type. A deleted type goes on hiding them, and counts on when it
// is made again.
func TestATypeThatHidesOutlivesItsDeletion(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	types, ctx := f.Store.JobTypes, t.Context()
	hides := jobtypes.Definition{JobTypeRequest: api.JobTypeRequest{PayloadSchema: json.RawMessage(`{"x-sensitive":true}`)}, Sensitive: true}
	if _, _, err := types.PutType(ctx, f.Tenant, "mail", hides); err != nil {
		t.Fatal(err)
	}
	if _, _, err := types.PutType(ctx, f.Tenant, "mail", described("shows all")); !errors.Is(err, jobtypes.ErrSensitive) {
		t.Errorf("a change: %v", err)
	}
	if _, err := types.DeleteType(ctx, f.Tenant, "mail", false); !errors.Is(err, jobtypes.ErrSensitive) {
		t.Errorf("a deletion: %v", err)
	}
	shows := described("shows all")
	shows.Reveals = true
	if stored, _, err := types.PutType(ctx, f.Tenant, "mail", shows); err != nil || stored.Version != 2 {
		t.Fatalf("%+v %v", stored, err)
	}
	if hides, err := types.Sensitive(ctx, f.Tenant); err != nil || len(hides) != 1 || hides["mail"] != 2 {
		t.Errorf("the first version hides: %v %v", hides, err)
	}
	if _, err := types.DeleteType(ctx, f.Tenant, "mail", true); err != nil {
		t.Fatal(err)
	}
	for _, of := range []int{0, 1, 2} {
		if _, _, err := types.Type(ctx, f.Tenant, "mail", of); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("version %d after the deletion: %v", of, err)
		}
	}
	if _, err := types.TypeVersions(ctx, f.Tenant, "mail", 1<<30, 10); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("versions after the deletion: %v", err)
	}
	if listed, err := types.ListTypes(ctx, f.Tenant, "", 10); err != nil || len(listed) > 0 {
		t.Errorf("listed: %v %v", listed, err)
	}
	if kept, err := types.Versions(ctx, nil, f.Tenant, "mail"); err != nil || len(kept) != 1 || string(kept[0].PayloadSchema) != `{"x-sensitive":true}` {
		t.Errorf("%+v %v", kept, err)
	}
	if _, err := types.DeleteType(ctx, f.Tenant, "mail", true); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a second deletion: %v", err)
	}
	if stored, _, err := types.PutType(ctx, f.Tenant, "mail", shows); err != nil || stored.Version != 2 {
		t.Errorf("made again: version %d, %v", stored.Version, err)
	}
}
