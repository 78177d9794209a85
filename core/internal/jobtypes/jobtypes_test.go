package jobtypes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobtypes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

func described(text string) jobtypes.Definition {
	return jobtypes.Definition{JobTypeRequest: api.JobTypeRequest{Description: text, PayloadSchema: json.RawMessage(`{ "type": "object" }`)}}
}

// A change makes a version, the same again none, and only the newest versions are kept. A type that was deleted and is
// made again begins at version 1, with a revision that no earlier one had.
func TestVersionsOfAType(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	types := f.Store.JobTypes
	var last int64
	for i := 1; i <= api.MaxTypeVersions+2; i++ {
		for _, again := range []bool{false, true} {
			stored, changed, err := types.PutType(t.Context(), f.Tenant, "mail", described(fmt.Sprint(i)))
			if err != nil || stored.Version != i || (changed == 0) != again {
				t.Fatalf("put %d, again %v: version %d, changed %d, %v", i, again, stored.Version, changed, err)
			}
			if !again && changed <= last {
				t.Fatalf("the tenant's version was %d, is %d", last, changed)
			}
			last = max(last, changed)
		}
	}
	kept, err := types.TypeVersions(t.Context(), f.Tenant, "mail", 1<<30, 100)
	if err != nil || len(kept) != api.MaxTypeVersions || kept[0].Version != api.MaxTypeVersions+2 || kept[len(kept)-1].Version != 3 {
		t.Fatalf("%d versions are kept: %v", len(kept), err)
	}
	newest, revision, err := types.Type(t.Context(), f.Tenant, "mail", 0)
	if err != nil || newest.Version != api.MaxTypeVersions+2 || string(newest.PayloadSchema) != `{"type":"object"}` {
		t.Fatalf("%+v %v", newest, err)
	}
	if _, _, err := types.Type(t.Context(), f.Tenant, "mail", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a version that is not kept: %v", err)
	}
	if _, err := types.DeleteType(t.Context(), f.Tenant, "mail", true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := types.PutType(t.Context(), f.Tenant, "mail", described("again")); err != nil {
		t.Fatal(err)
	}
	if again, of, err := types.Type(t.Context(), f.Tenant, "mail", 0); err != nil || again.Version != 1 || of <= revision {
		t.Errorf("made again: version %d, revision %d after %d, %v", again.Version, of, revision, err)
	}
}

// A tenant has at most so many types and bytes of them; what is refused changes nothing, and another tenant is not
// concerned.
func TestBoundsOfATenantsTypes(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	types := f.Store.JobTypes
	f.Exec(`INSERT INTO job_types (tenant_id, type, version, revision, newest, description, check_results, sensitive, examples, defaults, size, created_at)
		SELECT $1, 't' || n, 1, n, true, '', false, false, '[]', '{}', 4, statement_timestamp() FROM generate_series(1, $2) n`, f.Tenant, api.MaxTypes)
	if _, _, err := types.PutType(t.Context(), f.Tenant, "more", described("x")); !errors.Is(err, jobtypes.ErrTooManyTypes) {
		t.Errorf("one type too many: %v", err)
	}
	if _, _, err := types.PutType(t.Context(), f.Tenant, "t1", described("a change of one that is there")); err != nil {
		t.Error(err)
	}
	f.Exec(`UPDATE job_types SET size = $1 WHERE type = 't2'`, api.MaxTypeBytes-1000)
	if _, _, err := types.PutType(t.Context(), f.Tenant, "t3", described(strings.Repeat("x", 2000))); !errors.Is(err, jobtypes.ErrTooLarge) {
		t.Errorf("too many bytes: %v", err)
	}
	if one, _, err := types.Type(t.Context(), f.Tenant, "t3", 0); err != nil || one.Version != 1 {
		t.Errorf("what was refused changed it: %+v %v", one, err)
	}
	other := f.NewTenant()
	if _, _, err := types.PutType(t.Context(), other, "more", described("x")); err != nil {
		t.Error(err)
	}
	if _, _, err := types.Type(t.Context(), other, "t1", 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant's type: %v", err)
	}
	// Page by page each type once, by name.
	var names []string
	for after := ""; ; {
		page, err := types.ListTypes(t.Context(), f.Tenant, after, 90)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, one := range page {
			names = append(names, one.Type)
		}
		after = names[len(names)-1]
	}
	if len(names) != api.MaxTypes {
		t.Errorf("%d names", len(names))
	}
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			t.Fatalf("%s before %s", names[i-1], names[i])
		}
	}
}
