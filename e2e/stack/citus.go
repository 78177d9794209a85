package stack

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // makes the databases that the tests run on

	"github.com/forgequeue/forgequeue/cmd/supervisor"
)

const (
	// citusEnv names the connection string of a coordinator with workers, for tests that need one. With
	// citusAllEnv=1 every cluster has its database there, as a distributed schema.
	citusEnv    = "FORGEQUEUE_TEST_CITUS"
	citusAllEnv = "FORGEQUEUE_TEST_CITUS_ALL"
	// citusRequiredEnv=required makes a test fail that needs Citus and finds none.
	citusRequiredEnv = "FORGEQUEUE_CITUS"
	citusWorkers     = 2
)

// Citus gives the connection string of a Citus coordinator with two workers: that of FORGEQUEUE_TEST_CITUS, or, with
// FORGEQUEUE_CITUS=required, of servers of this test. Otherwise the test is skipped.
func Citus(tb testing.TB) string {
	tb.Helper()
	if given := os.Getenv(citusEnv); given != "" {
		return given
	}
	if os.Getenv(citusRequiredEnv) != "required" {
		tb.Skip("runs on Citus only: set " + citusEnv + " to the connection string of a coordinator with two workers, or " +
			citusRequiredEnv + "=required where Citus is installed beside PostgreSQL")
	}
	binaries, err := supervisor.FindPostgres(tb.Context())
	if err != nil {
		tb.Fatalf("stack: %v", err)
	}
	if _, err := os.Stat(filepath.Join(binaries.Dir, "..", "lib", "citus.so")); err != nil {
		tb.Fatalf("stack: Citus is not installed beside PostgreSQL in %s", binaries.Dir)
	}
	return startCitus(tb, binaries)
}

func startCitus(tb testing.TB, binaries supervisor.PostgresBinaries) string {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	var coordinator string
	var hosts []string
	for i := range citusWorkers + 1 {
		server, err := supervisor.StartPostgres(ctx, supervisor.PostgresOptions{
			Binaries: binaries, DataDir: filepath.Join(Folder(tb), fmt.Sprintf("citus-%d", i)), Settings: map[string]string{
				"shared_preload_libraries": "citus", "wal_level": "logical", "max_prepared_transactions": "400", "max_connections": "200",
				"shared_buffers": "32MB", "citus.node_conninfo": "sslmode=disable",
			},
		})
		if err != nil {
			tb.Fatalf("stack: citus: %v", err)
		}
		tb.Cleanup(func() { _ = server.Stop(ctx) })
		runSQL(tb, server.URL("postgres"), `CREATE EXTENSION citus`)
		u, err := url.Parse(server.URL("postgres"))
		if err != nil {
			tb.Fatal(err)
		}
		hosts = append(hosts, u.Query().Get("host"))
		// What a move does on the node itself goes to localhost, and there is a socket only.
		runSQL(tb, server.URL("postgres"), fmt.Sprintf(`ALTER SYSTEM SET citus.local_hostname = '%s'`, hosts[i]))
		runSQL(tb, server.URL("postgres"), `SELECT pg_reload_conf()`)
		if i == 0 {
			coordinator = u.String()
		}
	}
	runSQL(tb, coordinator, fmt.Sprintf(`SELECT citus_set_coordinator_host('%s', 5432)`, hosts[0]))
	for _, host := range hosts[1:] {
		runSQL(tb, coordinator, fmt.Sprintf(`SELECT citus_add_node('%s', 5432)`, host))
	}
	return coordinator
}

func runSQL(tb testing.TB, databaseURL, sql string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		tb.Fatalf("stack: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		tb.Fatalf("stack: %s: %v", sql, err)
	}
}

// citusRole is core's role: no superuser, as it should be. The statement makes it on all nodes.
const (
	citusRole    = "forgequeue_core"
	citusRoleSQL = `
DO $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('` + citusRole + `'));
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '` + citusRole + `') THEN
    CREATE ROLE ` + citusRole + ` LOGIN;
  END IF;
  EXECUTE format('GRANT CREATE ON DATABASE %I TO ` + citusRole + `', current_database());
END $$`
)

//nolint:gochecknoglobals // names have to differ in the whole process
var schemas atomic.Int64

// CitusSchema gives the connection string of a schema that there is not yet, dropped at the end: `core migrate`
// makes it, distributed by Citus or of plain tables on the coordinator.
func CitusSchema(tb testing.TB, coordinator string, distributed bool) string {
	tb.Helper()
	schema := fmt.Sprintf("fq_e2e_%d_%d", os.Getpid(), schemas.Add(1))
	u, err := url.Parse(coordinator)
	if err != nil {
		tb.Fatal(err)
	}
	runSQL(tb, coordinator, citusRoleSQL)
	u.User = url.User(citusRole)
	given := u.Query()
	given.Set("search_path", schema)
	given.Set("citus.enable_schema_based_sharding", map[bool]string{true: "on", false: "off"}[distributed])
	u.RawQuery = given.Encode()
	tb.Cleanup(func() {
		runSQL(tb, coordinator, `SET client_min_messages = error; DROP SCHEMA IF EXISTS `+schema+` CASCADE`)
	})
	return u.String()
}

// NotOnCitus skips a test that looks at what a coordinator of Citus does not show, where each database is a schema there.
func NotOnCitus(tb testing.TB, what string) {
	tb.Helper()
	if OnCitus() {
		tb.Skip("not on Citus: ", what)
	}
}

// OnCitus says whether each database of the tests is a schema on Citus.
func OnCitus() bool { return cmp.Or(os.Getenv(citusAllEnv), "0") == "1" }

// MoveCitusSchemas moves up to so many of the schemas of connection strings to the other worker, one after the other,
// all from the worker that has the first of them. It calls moved after each.
func MoveCitusSchemas(tb testing.TB, coordinator string, databaseURLs []string, most int, moved func(took time.Duration)) {
	tb.Helper()
	conn := connect(tb, coordinator)
	var names []string
	for _, databaseURL := range databaseURLs {
		config, err := pgx.ParseConfig(databaseURL)
		if err != nil {
			tb.Fatal(err)
		}
		names = append(names, config.RuntimeParams["search_path"])
	}
	placed := `
SELECT n.nspname, s.nodename, s.nodeport FROM citus_shards s JOIN pg_class c ON c.oid = s.table_name JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = 'jobs' AND n.nspname = ANY($1)`
	rows, err := conn.Query(tb.Context(), `
WITH placed AS (`+placed+`), chosen AS (SELECT nodename, nodeport FROM placed WHERE nspname = $1[1])
SELECT nspname::text FROM placed JOIN chosen USING (nodename, nodeport) ORDER BY 1 LIMIT $2`, names, most)
	if err != nil {
		tb.Fatal(err)
	}
	chosen, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(chosen) == 0 {
		tb.Fatalf("stack: schemas to be moved: %v %v", chosen, err)
	}
	for _, name := range chosen {
		begun := time.Now()
		if tag, err := conn.Exec(tb.Context(), `
SELECT citus_schema_move($1::text::regnamespace, nodename, nodeport) FROM pg_dist_node
WHERE shouldhaveshards AND (nodename, nodeport) NOT IN (
  SELECT nodename, nodeport FROM citus_shards WHERE table_name = ($1::text || '.jobs')::regclass)
LIMIT 1`, name); err != nil || tag.RowsAffected() != 1 {
			tb.Fatalf("stack: move of %s: %v, %v", name, tag, err)
		}
		moved(time.Since(begun))
	}
}

// RebalanceCitus has Citus move schemas until the workers have the same share, and gives how many it moved.
func RebalanceCitus(tb testing.TB, coordinator string) (moves int) {
	tb.Helper()
	conn := connect(tb, coordinator)
	var job int64
	if err := conn.QueryRow(tb.Context(), `SELECT citus_rebalance_start()`).Scan(&job); err != nil {
		tb.Fatalf("stack: rebalance: %v", err)
	}
	if _, err := conn.Exec(tb.Context(), `SELECT citus_rebalance_wait()`); err != nil {
		tb.Fatalf("stack: rebalance: %v", err)
	}
	var state string
	if err := conn.QueryRow(tb.Context(), `
SELECT state::text, (SELECT count(*) FROM pg_dist_background_task t WHERE t.job_id = j.job_id AND t.status = 'done' AND t.command LIKE '%move%')
FROM pg_dist_background_job j WHERE job_id = $1`, job).Scan(&state, &moves); err != nil || state != "finished" {
		tb.Fatalf("stack: rebalance: %q %v", state, err)
	}
	return moves
}

func connect(tb testing.TB, databaseURL string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), databaseURL)
	if err != nil {
		tb.Fatalf("stack: %v", err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}
