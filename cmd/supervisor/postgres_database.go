package supervisor

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs, https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	codeNoDatabase = "3D000"
	codeDuplicate  = "42P04"
)

// ensureDatabase creates a database unless it exists.
func (p *Postgres) ensureDatabase(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	err := p.execute(ctx, name, "")
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != codeNoDatabase {
		return err
	}
	err = p.execute(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == codeDuplicate {
		return nil
	}
	return err
}

// execute connects and runs one statement that returns nothing; an empty one is an attempt to connect.
func (p *Postgres) execute(ctx context.Context, database, sql string) error {
	conn, err := pgconn.Connect(ctx, p.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql).ReadAll()
	return errors.Join(err, conn.Close(ctx))
}
