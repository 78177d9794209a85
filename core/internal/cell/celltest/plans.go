package celltest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PlanOf is the plan of core's sessions for a statement: the generic one, for all arguments.
func PlanOf(tb testing.TB, conn *pgx.Conn, sql string) string {
	tb.Helper()
	ctx := tb.Context()
	rewritten, args, err := pgx.NamedArgs{}.RewriteQuery(ctx, conn, sql, nil)
	if err != nil {
		tb.Fatal(err)
	}
	given := ""
	if len(args) > 0 {
		given = "(NULL" + strings.Repeat(", NULL", len(args)-1) + ")"
	}
	for _, statement := range []string{"DEALLOCATE ALL", "PREPARE planned AS " + rewritten} {
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			tb.Fatalf("%v: %s", err, rewritten)
		}
	}
	rows, err := conn.Query(ctx, "EXPLAIN EXECUTE planned"+given, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// CheckPlans fails the test where a statement scans a whole table, or does not use one of its
// indexes; planned are the statements with theirs.
func (f *Fixture) CheckPlans(when string, planned map[string][]string) {
	f.Helper()
	conn := Connect(f, f.URL)
	for _, setting := range []string{"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off"} {
		if _, err := conn.Exec(f.Context(), "SET "+setting); err != nil {
			f.Fatal(err)
		}
	}
	for sql, indexes := range planned {
		plan := PlanOf(f, conn, sql)
		if strings.Contains(plan, "Seq Scan") {
			f.Errorf("%s: a scan of a whole table:\n%s\n%s", when, sql, plan)
		}
		for _, index := range indexes {
			if !strings.Contains(plan, index) {
				f.Errorf("%s: %s is not used:\n%s\n%s", when, index, sql, plan)
			}
		}
	}
}
