package databasetest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// things is a template with what a schema has.
func things(name string) *Template {
	return &Template{Name: name, Make: func(ctx context.Context, url string) error {
		return execute(ctx, url, `
			CREATE TABLE things (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body json, at timestamptz DEFAULT now());
			CREATE TABLE versions (version bigint GENERATED ALWAYS AS IDENTITY, note text);
			INSERT INTO versions (note) VALUES ('it''s "one"'), (NULL);
			CREATE TABLE days (day date NOT NULL, n integer) PARTITION BY RANGE (day);
			CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')`)
	}}
}

// state is all that a test could see of another one. Autovacuum comes and goes, and the session that gave the database
// back may end a moment after it is leased again.
func state(t *testing.T, url string) (text string) {
	t.Helper()
	conn := connect(t, url)
	const othersSQL = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var others int
		if err := conn.QueryRow(t.Context(), othersSQL).Scan(&others); err != nil {
			t.Fatal(err)
		}
		if others == 0 {
			break
		}
	}
	const sql = `
		SELECT concat_ws(' | ', (SELECT json_agg(t) FROM things t), (SELECT json_agg(v ORDER BY version) FROM versions v), (SELECT json_agg(d) FROM days d),
		  (SELECT json_agg(s ORDER BY sequencename) FROM pg_sequences s), to_regclass('other'), current_setting('work_mem'),
		  (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'),
		  (SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
		   WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()))`
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// Each use leaves something else behind; the next one finds nothing of it.
func TestADatabaseComesBackAsNew(t *testing.T) {
	t.Parallel()
	template := things("as_new")
	fresh := state(t, template.New(t))
	for name, c := range map[string]struct {
		sql     string
		dropped bool
	}{
		"nothing":      {sql: `SELECT 1`},
		"rows":         {sql: `INSERT INTO things (body) SELECT '{}' FROM generate_series(1, 500); INSERT INTO days VALUES ('2026-05-05', 1)`},
		"sequence":     {sql: `SELECT nextval('things_id_seq'), setval('versions_version_seq', 77)`},
		"given rows":   {sql: `UPDATE versions SET note = 'two'; DELETE FROM versions WHERE version = 2`},
		"no rows":      {sql: `DELETE FROM versions`},
		"table":        {sql: `CREATE TABLE other ()`, dropped: true},
		"no partition": {sql: `ALTER TABLE days DETACH PARTITION days_1`, dropped: true},
		"setting":      {sql: `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''7MB''', current_database()); END $$`, dropped: true},
		"large":        {sql: `INSERT INTO things (body) SELECT to_json(repeat('x', 1000)) FROM generate_series(1, 9000)`, dropped: true},
		"removed":      {sql: `DROP TABLE things, versions, days`, dropped: true},
		"session":      {sql: `BEGIN; LOCK TABLE things; SELECT pg_advisory_lock(5)`},
	} {
		t.Run(name, func(t *testing.T) {
			var url string
			var left *pgx.Conn
			t.Run("uses", func(t *testing.T) {
				url = template.Lease(t)
				if got := state(t, url); got != fresh {
					t.Errorf("leased\n%s\nnew\n%s", got, fresh)
				}
				var err error
				if left, err = pgx.Connect(t.Context(), url); err != nil {
					t.Fatal(err)
				}
				if _, err := left.Exec(t.Context(), c.sql); err != nil {
					t.Fatal(err)
				}
			})
			if left.Ping(t.Context()) == nil {
				t.Error("a session that was left goes on")
			}
			err := execute(t.Context(), url, "SELECT 1")
			gone, is := errors.AsType[*pgconn.PgError](err)
			if dropped := is && gone.Code == "3D000"; dropped != c.dropped || err != nil && !dropped {
				t.Errorf("dropped: %v, %v", dropped, err)
			}
		})
	}
}

// Two tests never have the same database at once, and one that has come back is taken again.
func TestDatabasesAreUsedAgain(t *testing.T) {
	t.Parallel()
	template := things("again")
	used := map[string]bool{}
	for range 5 {
		t.Run("pair", func(t *testing.T) {
			one, two := template.Lease(t), template.Lease(t)
			if one == two {
				t.Errorf("both have %s", one)
			}
			used[one], used[two] = true, true
		})
	}
	if len(used) != 2 {
		t.Errorf("%d databases for two at a time", len(used))
	}
}

// On a server that is not for tests alone nothing stays. Not parallel: it changes what all of the process use.
func TestNothingStaysOnAGivenServer(t *testing.T) {
	server := storetest.Postgres(t)
	others := things("given").Lease(t) // as another process of the run has it
	t.Setenv("DATABASE_URL", server)
	t.Setenv(storetest.RunEnv, "")
	templates.Lock()
	kept := templates.made
	templates.made = nil
	templates.Unlock()
	defer func() {
		templates.Lock()
		templates.made, templates.owner = kept, ""
		templates.Unlock()
	}()
	var leased string
	t.Run("test", func(t *testing.T) { leased = things("given").Lease(t) })
	if err := execute(t.Context(), leased, "SELECT 1"); err != nil {
		t.Errorf("the next test could not use it: %v", err)
	}
	for _, owner := range []string{templates.owner, ""} {
		if err := dropOwned(t.Context(), server, owner); (err == nil) == (owner == "") {
			t.Fatalf("what %q owns: %v", owner, err)
		}
	}
	if err := execute(t.Context(), others, "SELECT 1"); err != nil {
		t.Errorf("another process's database is gone: %v", err)
	}
	for _, name := range []string{strings.TrimPrefix(leased[strings.LastIndex(leased, "/fq_"):], "/"), "fq_template_given" + templates.owner} {
		name, _, _ := strings.Cut(name, "?")
		if err := execute(t.Context(), withDatabase(server, name), "SELECT 1"); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// Sessions that end by themselves while a database is given back do not cost the database.
func TestSessionsThatJustEnd(t *testing.T) {
	t.Parallel()
	template := things("just_end")
	used := map[string]bool{}
	for range 20 {
		t.Run("use", func(t *testing.T) {
			url := template.Lease(t)
			used[url] = true
			for range 4 {
				connect(t, url) // closed just before the database is given back
			}
		})
	}
	if len(used) != 1 {
		t.Errorf("%d databases, one after the other", len(used))
	}
}
