package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

// indexedTextSQL lists the columns of text that an index of the schema has, or whose values it computes from, and that
// are sorted as the database's collation says. A partition's are its table's.
const indexedTextSQL = `
SELECT DISTINCT t.relname || '.' || a.attname
FROM pg_index x
JOIN pg_class t ON t.oid = x.indrelid AND NOT t.relispartition
JOIN pg_attribute a ON a.attrelid = t.oid
WHERE t.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
  AND a.attcollation = (SELECT oid FROM pg_collation WHERE collname = 'default')
  AND a.attname <> 'state' -- one of a few words: nothing asks for their order
  AND (a.attnum = ANY(x.indkey) OR EXISTS (
    SELECT FROM pg_depend d WHERE d.objid = x.indexrelid AND d.refobjid = t.oid AND d.refobjsubid = a.attnum))
ORDER BY 1`

// Keys sort by their bytes, whatever the collation of the database is: a page of a list continues at the same place, and
// no index breaks, if the operating system's collation changes.
func TestKeysSortByTheirBytes(t *testing.T) {
	t.Parallel()
	direct := celltest.Connect(t, celltest.URL(t))
	rows, err := direct.Query(t.Context(), indexedTextSQL)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range found {
		t.Errorf("%s is not COLLATE \"C\"", column)
	}
}
