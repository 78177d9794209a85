package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// What a coordinator of Citus reports of its workers, raised by PostgreSQL itself.
func TestErrorsOfCitus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	raise := func(code, message string) error {
		_, err := f.Direct.Exec(t.Context(), `DO $$ BEGIN RAISE EXCEPTION '`+message+`' USING ERRCODE = '`+code+`'; END $$`)
		return err
	}
	if err := store.Classify(raise("08006", "connection to the remote node failed")); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("a lost worker: %v", err)
	}
	if err := store.Classify(raise("CIINF", "Query could not find the intermediate result file")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a schema that was moved meanwhile: %v", err)
	}
	made := 0
	f.Store.OnMissingPartition(func(context.Context) error { made++; return nil })
	got, err := store.Query(t.Context(), f.Store.Store, pgx.RowTo[int], `SELECT 1`, store.Args{})
	if err != nil || len(got) != 1 || made != 0 {
		t.Fatalf("%v %v, made %d", got, err, made)
	}
	f.Exec(`CREATE FUNCTION copied() RETURNS integer LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'no partition of relation "attempts_1" found for row' USING ERRCODE = 'XX000'; END $$`)
	if _, err := store.Query(t.Context(), f.Store.Store, pgx.RowTo[int], `SELECT copied()`, store.Args{}); err == nil || made != 1 {
		t.Errorf("partitions were made %d times for %v", made, err)
	}
}
