package store_test

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Args are what pgx.StrictNamedArgs are, on the first call of a statement and on later ones.
func TestArgsAreStrictNamedArgs(t *testing.T) {
	t.Parallel()
	const sql = `SELECT @b::text, @a::text, '@c', @b::integer -- @d`
	for range 2 {
		for _, given := range []map[string]any{
			{"a": 1, "b": nil},
			{"a": "b", "b": []string{"x"}},
			{"a": 1},
			{"a": 1, "b": 2, "c": 3},
			{"a": 1, "c": 2},
			{},
		} {
			text, values, err := store.Args(given).RewriteQuery(t.Context(), nil, sql, nil)
			wantText, wantValues, wantErr := pgx.StrictNamedArgs(given).RewriteQuery(t.Context(), nil, sql, nil)
			if (err == nil) != (wantErr == nil) { // of several faults, each may be the one that is named
				t.Errorf("%v: %v, want %v", given, err, wantErr)
			}
			if err == nil && (text != wantText || !reflect.DeepEqual(values, wantValues)) {
				t.Errorf("%v: %s with %v, want %s with %v", given, text, values, wantText, wantValues)
			}
		}
	}
}
