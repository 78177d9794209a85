package celltest

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// PlanNode is a node of EXPLAIN's JSON.
type PlanNode struct {
	Node      string `json:"Node Type"`
	Parent    string `json:"Parent Relationship"`
	Relation  string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	IndexCond string `json:"Index Cond"`
	Removed   int    `json:"Rows Removed by Filter"`
	// Rows, JoinRemoved and Removed are for each loop.
	Rows        float64 `json:"Actual Rows"`
	JoinRemoved float64 `json:"Rows Removed by Join Filter"`
	Loops       float64 `json:"Actual Loops"`
	Hit         int     `json:"Shared Hit Blocks"`
	Read        int     `json:"Shared Read Blocks"`
	Plans       []PlanNode
}

// Walk visits the node and all below it.
func (n *PlanNode) Walk(visit func(*PlanNode)) {
	visit(n)
	for i := range n.Plans {
		n.Plans[i].Walk(visit)
	}
}

// Work is how many rows the nodes of the plan together have returned or removed.
func (n *PlanNode) Work() (rows float64) {
	n.Walk(func(one *PlanNode) { rows += (one.Rows + one.JoinRemoved + float64(one.Removed)) * one.Loops })
	return rows
}

var plainInsert = regexp.MustCompile(`(?s)INSERT INTO (usage_log|rate_log|idempotency_keys|usage_counts)`)

// Explain runs a statement and rolls it back. Statements that EXPLAIN does not accept are not on
// the hot path.
func Explain(t testing.TB, conn *pgx.Conn, sql string, args []any) (*PlanNode, bool) {
	t.Helper()
	trimmed := strings.ToUpper(strings.TrimSpace(regexp.MustCompile(`(?m)^\s*--.*$`).ReplaceAllString(sql, "")))
	if !slices.ContainsFunc([]string{"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}, func(verb string) bool { return strings.HasPrefix(trimmed, verb) }) {
		return nil, false
	}
	ctx := t.Context()
	args = slices.DeleteFunc(slices.Clone(args), func(arg any) bool { _, mode := arg.(pgx.QueryExecMode); return mode }) // how pgx sends it
	if len(args) == 1 {
		if rewriter, named := args[0].(pgx.QueryRewriter); named {
			var err error
			if sql, args, err = rewriter.RewriteQuery(ctx, conn, sql, args); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	described, err := conn.Prepare(ctx, "", sql)
	if err != nil {
		t.Fatalf("%v in\n%s", err, sql)
	}
	literals := make([]string, len(args))
	for i, arg := range args {
		if literals[i], err = literal(conn, described.ParamOIDs[i], arg); err != nil {
			t.Fatalf("%v in\n%s", err, sql)
		}
	}
	call := "EXECUTE hot"
	if len(literals) > 0 {
		call += "(" + strings.Join(literals, ", ") + ")"
	}
	analyze := "(ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "
	if plainInsert.MatchString(sql) { // its rows exist already
		analyze = "(FORMAT JSON) "
	}
	var raw []byte
	for _, one := range []string{"PREPARE hot AS " + sql, "SAVEPOINT hot", "EXPLAIN " + analyze + call, "DEALLOCATE hot"} {
		results, err := conn.PgConn().Exec(ctx, one).ReadAll()
		if store.IsUnique(err) { // likewise
			results, err = conn.PgConn().Exec(ctx, "ROLLBACK TO hot; EXPLAIN (FORMAT JSON) "+call).ReadAll()
			results = results[len(results)-1:]
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, sql)
		}
		if len(results[0].Rows) > 0 {
			raw = results[0].Rows[0][0]
		}
	}
	var plans []struct{ Plan PlanNode }
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	return &plans[0].Plan, true
}

// literal is an argument as SQL writes it.
func literal(conn *pgx.Conn, oid uint32, arg any) (string, error) {
	text, err := conn.TypeMap().Encode(oid, pgx.TextFormatCode, arg, []byte{})
	if err != nil || text == nil {
		return "NULL", err
	}
	return "'" + strings.ReplaceAll(string(text), "'", "''") + "'", nil
}
