package examples_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/outbox"
)

// The page's SQL does what it says, and its Go compiles.
func TestExampleOutbox(t *testing.T) {
	t.Parallel()
	database := stack.NewDatabase(t)
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, sql := range []string{
		outbox.Schema(), `CREATE TABLE accounts (id integer PRIMARY KEY, plan text); INSERT INTO accounts VALUES (17, 'free')`,
		block(t, "api-docs/outbox.md", "## In SQL", "sql", 0),
	} {
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
	rows := stack.Query[string](t.Context(), t, database, `SELECT job ->> 'type' || ' ' || (job ->> 'queue') || ' ' || ordering_key || ' ' || plan FROM forgequeue_outbox, accounts`)
	if len(rows) != 1 || rows[0] != "email.send mail account-17 pro" {
		t.Errorf("%v", rows)
	}

	dir := t.TempDir()
	file := write(t, dir, "shop.go", block(t, "api-docs/outbox.md", "## In Go", "go", 0))
	root, err := filepath.Abs(stack.Repository())
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "shared", "outbox", "shop", "shop.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	command := goCommand(t, root, "build", "-overlay", write(t, dir, "overlay.json", string(overlay)), "./shared/outbox/shop")
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
