package queue_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/queue/queuetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// planOf is the plan that core's sessions have for a statement: the generic one,
// whatever the arguments.
func (f *fixture) planOf(conn *pgx.Conn, sql string) string {
	f.Helper()
	rewritten, args, err := pgx.NamedArgs{}.RewriteQuery(f.Context(), conn, sql, nil)
	if err != nil {
		f.Fatal(err)
	}
	given := ""
	if len(args) > 0 {
		given = "(NULL" + strings.Repeat(", NULL", len(args)-1) + ")"
	}
	for _, statement := range []string{"DEALLOCATE ALL", "PREPARE planned AS " + rewritten} {
		if _, err := conn.Exec(f.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			f.Fatalf("%v: %s", err, rewritten)
		}
	}
	rows, err := conn.Query(f.Context(), "EXPLAIN EXECUTE planned"+given, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		f.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Every statement stays on its indexes, with statistics and without: 20,000 dead
// letters here, a million in the long lane, which shows what each costs as well.
func TestPlansOfRedrives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn := queuetest.Connect(t, f.URL)
	for _, setting := range []string{"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off"} {
		if _, err := conn.Exec(t.Context(), "SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for sql, indexes := range queue.Planned() {
			plan := f.planOf(conn, sql)
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s: a walk over a whole table:\n%s\n%s", when, sql, plan)
			}
			for _, index := range indexes {
				if !strings.Contains(plan, index) {
					t.Errorf("%s: %s is not used:\n%s\n%s", when, index, sql, plan)
				}
			}
		}
	}
	check("empty")
	n := 20_000
	if os.Getenv("FORGEQUEUE_FAULTS") == "long" {
		n = 1_000_000
	}
	f.bury(n, grave{})
	check("full, without statistics")
	f.steps(fmt.Sprint(n, " without statistics"))
	f.Exec("ANALYZE")
	check("full, with statistics")
	f.steps(fmt.Sprint(n, " with statistics"))
}

// steps shows what the parts of a redrive cost.
func (f *fixture) steps(when string) {
	f.Helper()
	timed := func(what string, do func() error) {
		f.Helper()
		begun := time.Now()
		if err := do(); err != nil {
			f.Fatal(err)
		}
		f.Logf("%s: %s took %v", when, what, time.Since(begun).Round(100*time.Microsecond))
	}
	timed("count", func() error {
		_, err := f.Store.Matching(f.Context(), f.Tenant, "", api.DeadLetterFilter{})
		return err
	})
	timed("groups", func() error {
		_, err := f.Store.DeadLetterGroups(f.Context(), f.Tenant, "", api.DeadLetterFilter{}, 50)
		return err
	})
	for what, filter := range map[string]api.DeadLetterFilter{"a step": {}, "a step that finds nothing": {Type: "none"}} {
		made := f.redrive(api.ActionRedrive, filter, nil)
		timed(what, func() error {
			_, err := f.Store.StepRedrive(f.Context(), uuid.MustParse(made.ID), nil, 0.5)
			return err
		})
		if _, err := f.Store.CancelRedrive(f.Context(), f.Tenant, "", uuid.MustParse(made.ID)); err != nil {
			f.Fatal(err)
		}
	}
}
