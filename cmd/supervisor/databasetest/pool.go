package databasetest

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// The server's table of templates and leased databases. A database is free, or leased, or its test process
// was killed: then nobody takes it again, and it ends with the server.
const poolTablesSQL = `
SELECT pg_advisory_xact_lock(5520230127);
CREATE TABLE IF NOT EXISTS forgequeue_test_templates (
  name    text PRIMARY KEY,
  origin  json NOT NULL -- what a database that comes back must have: see state
);
CREATE TABLE IF NOT EXISTS forgequeue_test_databases (
  name      text PRIMARY KEY,
  template  text NOT NULL,
  owner     text NOT NULL, -- the test process that drops it at its end; '' where it ends with the server
  free      boolean NOT NULL
)`

// made is a template on one server.
type made struct {
	server, name string
	origin       origin
}

// The templates of this process, by server and name.
//
//nolint:gochecknoglobals // one for the process is the point of it
var templates struct {
	sync.Mutex
	made  map[[2]string]*made
	owner string // of the databases
}

// of returns the template on a server. The first test process that asks makes it; the others wait.
func (t *Template) of(ctx context.Context, server string) (*made, error) {
	templates.Lock()
	defer templates.Unlock()
	key := [2]string{server, t.Name}
	if m := templates.made[key]; m != nil {
		return m, nil
	}
	if templates.made == nil {
		templates.made = map[[2]string]*made{}
		if !storetest.EndsWithTests(server) {
			owner := unique("")
			templates.owner = owner
			storetest.OnEnd(func(ctx context.Context) error { return dropOwned(ctx, server, owner) })
		}
	}
	m := &made{server: server, name: "fq_template_" + t.Name + templates.owner}
	err := connected(ctx, server, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, poolTablesSQL); err != nil {
			return err
		}
		return m.locked(ctx, conn, func() error { return m.make(ctx, conn, t.Make) })
	})
	if err != nil {
		return nil, err
	}
	templates.made[key] = m
	return m, nil
}

// locked holds the lock of the template: PostgreSQL refuses to copy a database that another session uses,
// another copy included.
func (m *made) locked(ctx context.Context, conn *pgx.Conn, do func() error) error {
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, m.name); err != nil {
		return err
	}
	return do() // the lock ends with the session
}

func (m *made) make(ctx context.Context, conn *pgx.Conn, fill func(context.Context, string) error) error {
	err := conn.QueryRow(ctx, `SELECT origin FROM forgequeue_test_templates WHERE name = $1`, m.name).Scan(&m.origin)
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	// A process that was killed may have left a part of it.
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + m.name + " WITH (FORCE)",
		"CREATE DATABASE " + m.name + " ENCODING 'UTF8' TEMPLATE template0",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	url := withDatabase(m.server, m.name)
	if err := fill(ctx, url); err != nil {
		return err
	}
	err = connected(ctx, url, func(conn *pgx.Conn) (err error) {
		m.origin, err = originOf(ctx, conn)
		return err
	})
	if err != nil {
		return err
	}
	if err := awaitNoSessions(ctx, m.server, m.name); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `INSERT INTO forgequeue_test_templates (name, origin) VALUES ($1, $2)`, m.name, m.origin)
	return err
}

// copyTo makes a database.
func (m *made) copyTo(ctx context.Context, name string) error {
	return connected(ctx, m.server, func(conn *pgx.Conn) error {
		return m.locked(ctx, conn, func() error {
			_, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+m.name)
			return err
		})
	})
}

// take returns a free database, which it makes where there is none.
func (m *made) take(ctx context.Context) (name string, err error) {
	const sql = `
UPDATE forgequeue_test_databases SET free = false
WHERE name = (SELECT name FROM forgequeue_test_databases WHERE template = $1 AND owner = $2 AND free LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING name`
	err = connected(ctx, m.server, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql, m.name, templates.owner).Scan(&name)
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		return name, err
	}
	name = unique("pool")
	if err := m.copyTo(ctx, name); err != nil {
		return "", err
	}
	return name, m.list(ctx, name, false)
}

// giveBack makes a database as new and free, or drops it.
func (m *made) giveBack(ctx context.Context, name string) error {
	var restored bool
	err := connected(ctx, withDatabase(m.server, name), func(conn *pgx.Conn) (err error) {
		restored, err = m.origin.restore(ctx, conn)
		return err
	})
	if err == nil && restored {
		return m.list(ctx, name, true)
	}
	// A database that only its test could use, or that it has dropped or closed.
	return errors.Join(drop(ctx, m.server, name), m.unlist(ctx, name))
}

func (m *made) list(ctx context.Context, name string, free bool) error {
	const sql = `
INSERT INTO forgequeue_test_databases (name, template, owner, free) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET free = excluded.free`
	return connected(ctx, m.server, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, name, m.name, templates.owner, free)
		return err
	})
}

func (m *made) unlist(ctx context.Context, name string) error {
	return connected(ctx, m.server, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `DELETE FROM forgequeue_test_databases WHERE name = $1`, name)
		return err
	})
}

// dropOwned removes what a process has made on a server that is not for tests alone. What has no owner is other
// processes' too.
func dropOwned(ctx context.Context, server, owner string) error {
	if owner == "" {
		return errors.New("what has no owner ends with the server")
	}
	const sql = `
WITH databases AS (DELETE FROM forgequeue_test_databases WHERE owner = $1 RETURNING name),
  templates AS (DELETE FROM forgequeue_test_templates WHERE right(name, length($1)) = $1 RETURNING name)
SELECT name FROM databases UNION ALL SELECT name FROM templates`
	return connected(ctx, server, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sql, owner)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, name := range names {
			err = errors.Join(err, drop(ctx, server, name))
		}
		return err
	})
}
