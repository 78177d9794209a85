package databasetest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// origin is what a database must have when it is leased.
type origin struct {
	// Catalogs is a summary of all that statements such as CREATE, ALTER and DROP change.
	Catalogs string `json:"catalogs"`
	// Rows are those of the tables that are not empty, by name, as JSON.
	Rows map[string]string `json:"rows"`
	// Sequences are the last values of the sequences that were used, by name.
	Sequences map[string]int64 `json:"sequences"`
}

// A copy has its template's rows with their transaction ids, so that a row that is new or was changed has
// another; a removed one is not counted. VACUUM and ANALYZE change pg_class in place, and no xmin.
// pg_statistic is not in it: statistics stay.
const catalogsSQL = `
SELECT concat_ws(' ',
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_class),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_attribute),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_attrdef),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_index),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_constraint),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_trigger),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_proc),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_inherits),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_namespace),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_extension),
  (SELECT count(*) || ':' || max(xmin::text::bigint) FROM pg_sequence),
  (SELECT count(*) FROM pg_policy), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_statistic_ext),
  (SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_default_acl),
  (SELECT datdba || ' ' || datallowconn || ' ' || datconnlimit || ' ' || COALESCE(datacl::text, '') FROM pg_database WHERE datname = current_database()),
  (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())),
  (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
  (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()))`

// Tables whose file is empty have no row.
const tablesSQL = `
SELECT format('%I.%I', n.nspname, c.relname) AS name, pg_relation_size(c.oid) AS size
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND pg_relation_size(c.oid) > 0
ORDER BY name`

const sequencesSQL = `SELECT format('%I.%I', schemaname, sequencename), COALESCE(last_value, 0) FROM pg_sequences ORDER BY 1`

// Not ALTER SEQUENCE … RESTART, which gives it another file and so changes pg_class.
const setSequenceSQL = `
SELECT CASE WHEN $2 > 0 THEN setval($1::regclass, $2) ELSE setval($1::regclass, seqstart, false) END
FROM pg_sequence WHERE seqrelid = $1::regclass`

// largest is the size of a table in bytes from which a new database costs less than to empty this one,
// whose dead rows would make later tests slow.
const largest = 8 << 20

func originOf(ctx context.Context, conn *pgx.Conn) (origin, error) {
	o := origin{Rows: map[string]string{}, Sequences: map[string]int64{}}
	tables, err := tablesOf(ctx, conn)
	if err != nil {
		return o, err
	}
	for _, t := range tables {
		rows, err := rowsOf(ctx, conn, t.name)
		if err != nil {
			return o, err
		}
		if rows != "" {
			o.Rows[t.name] = rows
		}
	}
	if o.Sequences, err = sequencesOf(ctx, conn); err != nil {
		return o, err
	}
	return o, conn.QueryRow(ctx, catalogsSQL).Scan(&o.Catalogs)
}

// restore empties the connection's database of what tests have left. False: it cannot be made as new.
func (o *origin) restore(ctx context.Context, conn *pgx.Conn) (restored bool, err error) {
	if err := endSessions(ctx, conn); err != nil {
		return false, err
	}
	var catalogs string
	if err := conn.QueryRow(ctx, catalogsSQL).Scan(&catalogs); err != nil || catalogs != o.Catalogs {
		return false, err
	}
	tables, err := tablesOf(ctx, conn)
	if err != nil {
		return false, err
	}
	for _, t := range tables {
		if t.size > largest {
			return false, nil
		}
	}
	if err := o.restoreRows(ctx, conn, tables); err != nil {
		return false, err
	}
	return true, o.restoreSequences(ctx, conn)
}

// endSessions ends the others of the database, and waits for their ends. One that ends by itself meanwhile is no process
// to pg_terminate_backend: it says false, as where the time is over, so the sessions are asked for again.
func endSessions(ctx context.Context, conn *pgx.Conn) error {
	const sql = `
SELECT pid, pg_terminate_backend(pid, 60000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`
	for range 10 {
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return err
		}
		running := false
		var pid int
		var ended bool
		if _, err := pgx.ForEachRow(rows, []any{&pid, &ended}, func() error {
			running = running || !ended
			return nil
		}); err != nil || !running {
			return err
		}
	}
	return fmt.Errorf("a session of %s does not end", conn.Config().Database)
}

type table struct {
	name string
	size int64
}

func tablesOf(ctx context.Context, conn *pgx.Conn) ([]table, error) {
	rows, err := conn.Query(ctx, tablesSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t table, err error) {
		return t, row.Scan(&t.name, &t.size)
	})
}

func sequencesOf(ctx context.Context, conn *pgx.Conn) (map[string]int64, error) {
	rows, err := conn.Query(ctx, sequencesSQL)
	if err != nil {
		return nil, err
	}
	last := map[string]int64{}
	var name string
	var value int64
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		last[name] = value
		return nil
	})
	return last, err
}

// rowsOf returns a table's rows as a JSON array in a fixed order, "" without any.
func rowsOf(ctx context.Context, conn *pgx.Conn, table string) (rows string, err error) {
	err = conn.QueryRow(ctx, "SELECT COALESCE(json_agg(t ORDER BY t::text)::text, '') FROM "+table+" t").Scan(&rows)
	return rows, err
}

// restoreRows removes all rows that are not the template's, in one transaction.
func (o *origin) restoreRows(ctx context.Context, conn *pgx.Conn, tables []table) error {
	var sql strings.Builder
	for _, t := range tables {
		want := o.Rows[t.name]
		if want == "" {
			sql.WriteString("DELETE FROM " + t.name + ";\n")
			continue
		}
		rows, err := rowsOf(ctx, conn, t.name)
		if err != nil {
			return err
		}
		if rows != want {
			fmt.Fprintf(&sql, "DELETE FROM %[1]s; %[2]s", t.name, insert(t.name, want))
		}
	}
	for name := range o.Rows { // a table that has lost its file's last page
		if !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			sql.WriteString(insert(name, o.Rows[name]))
		}
	}
	if sql.Len() == 0 {
		return nil
	}
	_, err := conn.Exec(ctx, sql.String())
	return err
}

func (o *origin) restoreSequences(ctx context.Context, conn *pgx.Conn) error {
	now, err := sequencesOf(ctx, conn)
	if err != nil {
		return err
	}
	for name, value := range now {
		if value == o.Sequences[name] {
			continue
		}
		if _, err := conn.Exec(ctx, setSequenceSQL, name, o.Sequences[name]); err != nil {
			return err
		}
	}
	return nil
}

// insert is a statement that inserts rows as rowsOf has returned them.
func insert(table, rows string) string {
	return fmt.Sprintf("INSERT INTO %[1]s OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::%[1]s, %[2]s);\n", table, literal(rows))
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
