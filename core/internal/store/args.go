package store

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Args are the named arguments of a statement: all of its names and no others, as
// pgx.StrictNamedArgs, which looks for the names in the text at each call. The text of a statement
// is looked through once here, so statements must be constants, or few.
type Args map[string]any

// rewritten has each statement's positional form.
var rewritten sync.Map // of string to positional

type positional struct {
	sql   string
	names []string // in the order of their numbers
}

// RewriteQuery is a pgx.QueryRewriter's.
func (a Args) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	known, ok := rewritten.Load(sql)
	if !ok {
		var err error
		if known, err = toPositional(ctx, conn, sql, a); err != nil {
			return "", nil, err
		}
		rewritten.Store(sql, known)
	}
	form := known.(positional) //nolint:forcetypeassert // nothing else is stored
	values := make([]any, len(form.names))
	for i, name := range form.names {
		value, given := a[name]
		if !given || len(a) != len(form.names) {
			return pgx.StrictNamedArgs(a).RewriteQuery(ctx, conn, sql, nil) //nolint:forbidigo // its error names what is wrong
		}
		values[i] = value
	}
	return form.sql, values, nil
}

// toPositional gives the positional form: with each name as its own value, the values are the names
// in order.
func toPositional(ctx context.Context, conn *pgx.Conn, sql string, a Args) (positional, error) {
	itself := pgx.StrictNamedArgs{} //nolint:forbidigo // the names are looked for here
	for name := range a {
		itself[name] = name
	}
	text, values, err := itself.RewriteQuery(ctx, conn, sql, nil)
	if err != nil {
		return positional{}, err
	}
	form := positional{sql: text, names: make([]string, len(values))}
	for i, value := range values {
		form.names[i], _ = value.(string) // as given above
	}
	return form, nil
}
