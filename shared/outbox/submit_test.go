package outbox_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // a driver of database/sql

	"github.com/forgequeue/forgequeue/cmd/supervisor/databasetest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/outbox"
)

func TestSubmitCommitsWithItsTransaction(t *testing.T) {
	f := newFixture(t)
	priority := 9
	submit := func(to string) func(pgx.Tx) {
		return func(tx pgx.Tx) {
			options := client.JobOptions{Queue: "mail", Priority: &priority, Delay: time.Hour, User: "ada", Tags: []string{"smtp"}, Metadata: map[string]string{"a": "b"}}
			if _, err := outbox.Submit(t.Context(), tx, email{to}, outbox.With(options), outbox.InOrder("account-1")); err != nil {
				t.Error(err)
			}
		}
	}
	f.in(false, submit("nobody"))
	f.in(true, submit("<ada>"))
	var job api.SubmitRequest
	if err := json.Unmarshal([]byte(value[string](f, `SELECT job FROM forgequeue_outbox WHERE ordering_key = 'account-1'`)), &job); err != nil {
		t.Fatal(err)
	}
	if job.Type != "email.send" || job.Queue != "mail" || *job.Priority != 9 || *job.User != "ada" || job.Tags[0] != "smtp" || job.Metadata["a"] != "b" || string(job.Payload) != `{"to": "<ada>"}` {
		t.Errorf("%+v", job)
	}
	if job.DelayMS != nil || time.Until(job.RunAt.Time) < 50*time.Minute {
		t.Errorf("the delay does not count from the insert: %+v", job)
	}
	f.in(true, func(tx pgx.Tx) {
		ids, err := outbox.SubmitMany(t.Context(), tx, []email{{"a"}, {"b"}, {"c"}})
		if err != nil || len(ids) != 3 || ids[0] >= ids[1] || ids[1] >= ids[2] {
			t.Errorf("%v %v", ids, err)
		}
		if id, err := outbox.SubmitRequest(t.Context(), tx, api.SubmitRequest{Type: "raw"}); err != nil || id <= ids[2] {
			t.Errorf("%v %v", id, err)
		}
	})
	if n := value[int](f, `SELECT count(*) FROM forgequeue_outbox`); n != 5 {
		t.Errorf("%d rows", n)
	}
}

func TestSubmitWithDatabaseSQL(t *testing.T) {
	f := newFixture(t)
	db, err := sql.Open("pgx", f.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := outbox.SubmitSQL(t.Context(), tx, email{"ada"}, outbox.InOrder("k")); err != nil {
			t.Fatal(err)
		}
		if _, err := outbox.SubmitRequestSQL(t.Context(), tx, api.SubmitRequest{Type: "raw"}); err != nil {
			t.Fatal(err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	if got := value[string](f, `SELECT string_agg(job ->> 'type' || coalesce(ordering_key, ''), ' ' ORDER BY id) FROM forgequeue_outbox`); got != "email.sendk raw" {
		t.Errorf("%s", got)
	}
}

// A refusal that Go can see leaves the transaction as it is.
func TestSubmitRefusesWhatTheServerWould(t *testing.T) {
	f := newFixture(t)
	low, wait := -1, int64(5)
	for want, job := range map[string]api.SubmitRequest{
		"type: must be":                 {Type: "no good"},
		"priority: must be":             {Type: "x", Priority: &low},
		"payload: must be at most":      {Type: "x", Payload: json.RawMessage(`"` + strings.Repeat("x", api.MaxPayload) + `"`)},
		"cannot be written as JSON":     {Type: "x", Payload: json.RawMessage(`{`)},
		"must not contain NUL":          {Type: "x", Payload: json.RawMessage(`{"a":"\u0000"}`)},
		"max_wait_ms: cannot be used":   {Type: "x", MaxWaitMS: &wait},
		"metadata: the key":             {Type: "x", Metadata: map[string]string{"a b": ""}},
		"ordering_key: must be 1 to 25": {Type: "x"},
	} {
		f.in(true, func(tx pgx.Tx) {
			key := "k"
			if strings.HasPrefix(want, "ordering_key") {
				key = ""
			}
			if _, err := outbox.SubmitRequest(t.Context(), tx, job, outbox.InOrder(key)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", want, err)
			}
		})
	}
	f.in(true, func(tx pgx.Tx) {
		if _, err := outbox.SubmitRequest(t.Context(), tx, api.SubmitRequest{Type: "x", Payload: json.RawMessage(`{"a":"\\u0000"}`)}); err != nil {
			t.Errorf("an escaped backslash: %v", err)
		}
	})
	if n := value[int](f, `SELECT count(*) FROM forgequeue_outbox`); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// The SQL functions have numbers and sizes of their own: they are those of the API.
func TestSQLFunctionKeepsTheRules(t *testing.T) {
	f := newFixture(t)
	judge := func(refused bool, member string, value any) {
		t.Helper()
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var fault *string
		if err := f.pool.QueryRow(t.Context(), "SELECT forgequeue_outbox_fault($1::jsonb)", fmt.Sprintf(`{"type":"x",`+member+`}`, text)).Scan(&fault); err != nil {
			t.Fatal(err)
		}
		if (fault != nil) != refused {
			t.Errorf(member+": refused %v, want %v", text, fault != nil, refused)
		}
	}
	numbers := func(rule api.Rule, member string) {
		judge(false, member, int64(rule.Min))
		judge(false, member, int64(rule.Max))
		judge(true, member, int64(rule.Min)-1)
		judge(true, member, int64(rule.Max)+1)
	}
	rules := api.Rules()
	for _, field := range []string{"priority", "max_attempts", "timeout_ms", "delay_ms", "expires_after_ms"} {
		numbers(rules["SubmitRequest"][field], `"`+field+`":%s`)
	}
	for _, field := range []string{"base_ms", "cap_ms", "jitter"} {
		numbers(rules["RetryRequest"][field], `"retry":{"`+field+`":%s}`)
	}
	for _, word := range append(rules["RetryRequest"]["curve"].Words, "x") {
		judge(word == "x", `"retry":{"curve":%s}`, word)
	}
	for field, entry := range map[string]string{"tags": "t", "after": "0190a000-0000-7000-8000-000000000000"} {
		most := rules["SubmitRequest"][field].MaxItems
		judge(false, `"`+field+`":%s`, slices.Repeat([]string{entry}, most))
		judge(true, `"`+field+`":%s`, slices.Repeat([]string{entry}, most+1))
	}
}

func TestSQLFunctionRefuses(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct{ arguments, want string }{
		{`'no good'`, "type: must be 1 to 128"},
		{`'-x'`, "type: must be"},
		{`repeat('x', 129)`, "type: must be"},
		{`''`, "type: must be"},
		{`NULL`, "type: is required"},
		{`'x', queue => 'a b'`, "queue: must be"},
		{`'x', to_jsonb(repeat('x', 262143))`, "payload: must be at most 262144 bytes as text; it has 262145"},
		{`'x', (repeat('[', 30) || repeat(']', 30))::jsonb`, "payload: must be nested at most 29"},
		{`'x', (repeat('{"a":', 30) || '1' || repeat('}', 30))::jsonb`, "payload: must be nested at most 29"},
		{`'x', priority => 10`, "priority: must be between 0 and 9"},
		{`'x', run_at => now() + interval '11 years'`, "run_at: must be after 1970 and at most ten years ahead"},
		{`'x', run_at => 'infinity'`, "run_at: must be a time"},
		{`'x', run_at => '1969-01-01'`, "run_at: must be after 1970"},
		{`'x', deadline => now()`, "deadline: has passed"},
		{`'x', max_attempts => 1001`, "max_attempts: must be between 1 and 1000"},
		{`'x', timeout => '8 days'`, "timeout: must be between"},
		{`'x', retry => '{"base_ms": 1.5}'`, "retry: must have"},
		{`'x', retry => '{"curve": "flat"}'`, "retry: must have"},
		{`'x', retry => '{"more": 2}'`, "retry: must have"},
		{`'x', retry => '[]'`, "retry: must have"},
		{`'x', tags => ARRAY['a b']`, "tags: each must be"},
		{`'x', tags => ARRAY[NULL]`, "tags: each must be"},
		{`'x', tags => array_fill('a'::text, ARRAY[17])`, "tags: must be a list of at most 16"},
		{`'x', for_user => 'ü'`, "user: must be 1 to 128 printable ASCII"},
		{`'x', for_user => ''`, "user: must be"},
		{`'x', dedupe_key => repeat('x', 129)`, "dedupe_key: must be"},
		{`'x', dedupe => '{"on_live": "keep"}'`, "dedupe: must have a key"},
		{`'x', dedupe => '{"key": "k", "on_live": "drop"}'`, "dedupe: must have"},
		{`'x', dedupe => '{"key": "k", "on_live": "replace", "max_delay_ms": 1}'`, "dedupe: must have"},
		{`'x', dedupe => '{"key": "k", "more": 1}'`, "dedupe: must have"},
		{`'x', dedupe => '{"key": "k"}', dedupe_key => 'k'`, "dedupe_key: cannot be combined"},
		{`'x', key => ''`, "key: must be"},
		{`'x', key_weight => 100.5`, "key_weight: must be between 0.1 and 100"},
		{`'x', costs => '[]'`, "costs: must be an object"},
		{`'x', costs => '{"a b": 1}'`, "costs: each key"},
		{`'x', costs => '{"a": -1}'`, "costs: each value must be a whole number"},
		{`'x', costs => '{"a": 0.5}'`, "costs: each value must be a whole number"},
		{`'x', metadata => '{"a b": "x"}'`, "metadata: each key"},
		{`'x', metadata => '{"a": 1}'`, "metadata: each value"},
		{`'x', metadata => '{"a": null}'`, "metadata: each value"},
		{`'x', metadata => jsonb_build_object('a', repeat('x', 1025))`, "metadata: each value"},
		{`'x', metadata => (SELECT jsonb_object_agg('k' || i, '') FROM generate_series(1, 33) i)`, "metadata: must be an object of at most 32"},
		{`'x', metadata => '[]'`, "metadata: must be an object"},
		{`'x', after => '{}'`, "after: must be a list"},
		{`'x', ordering_key => ''`, "ordering_key: must be 1 to 255 bytes"},
		{`'x', ordering_key => repeat('x', 256)`, "ordering_key: must be 1 to 255 bytes"},
	} {
		_, err := f.pool.Exec(t.Context(), "SELECT forgequeue_enqueue("+c.arguments+")")
		if err == nil || !strings.Contains(err.Error(), "forgequeue_outbox: "+c.want) {
			t.Errorf("%s: %v", c.arguments, err)
		}
	}
	for _, c := range []struct{ job, want string }{
		{`{"type": "x", "prio": 1}`, "prio: is not known"},
		{`{"type": "x", "priority": 5.0}`, "priority: must be a whole number"},
		{`{"type": "x", "priority": "5"}`, "priority: must be a whole number"},
		{`{"type": "x", "delay_ms": -1}`, "delay: must be"},
		{`{"type": "x", "delay_ms": 1, "run_at": "2026-01-01T00:00:00Z"}`, "run_at: cannot be combined"},
		{`{"type": "x", "run_at": "2026-02-31T00:00:00Z"}`, "run_at: must be a time"},
		{`{"type": "x", "run_at": "tomorrow"}`, "run_at: must be a time"},
		{`{"type": "x", "max_wait_ms": 1}`, "max_wait_ms: cannot be used"},
		{`[]`, "job: must be an object"},
		{`{}`, "type: is required"},
	} {
		_, err := f.pool.Exec(t.Context(), "SELECT forgequeue_enqueue_job($1::jsonb)", c.job)
		if err == nil || !strings.Contains(err.Error(), "forgequeue_outbox: "+c.want) {
			t.Errorf("%s: %v", c.job, err)
		}
	}
}

// What the SQL functions take, the server's own check takes too.
func TestSQLFunctionAccepts(t *testing.T) {
	f := newFixture(t)
	for _, arguments := range []string{
		`'x'`,
		`'email.send', '{"to": "ada@example.com"}', queue => 'mail', priority => 9`,
		`'x', run_at => now() + interval '1 hour', deadline => now() + interval '2 hours', max_attempts => 4, timeout => '5 min'`,
		`'x', retry => '{"base_ms": 5, "curve": "linear", "jitter": 0.5, "cap_ms": 604800000}', tags => ARRAY['gpu', 'eu']`,
		`'x', for_user => 'ada lovelace', metadata => '{"order": "1042"}', dedupe_key => 'welcome ada', key => 'account 17', key_weight => 2.5, costs => '{"openai": 1200}', ordering_key => 'account 17 ü'`,
		`'x', dedupe => '{"key": "welcome ada", "on_live": "extend", "max_delay_ms": 60000}', run_at => now() + interval '5 s'`,
		`'x', to_jsonb(repeat('x', 262142))`,
		`'x', (repeat('[', 29) || '1' || repeat(']', 29))::jsonb`,
		`'x', (repeat('{"a":', 28) || '[]' || repeat('}', 28))::jsonb`,
		`'x', '[1e400, 1.10, 12345678901234567890]', after => '["0190a000-0000-7000-8000-000000000000"]'`,
		`'x', 'null'`,
	} {
		value[int64](f, "SELECT forgequeue_enqueue("+arguments+")")
	}
	value[int64](f, `SELECT forgequeue_enqueue_job('{"type": "x", "delay_ms": 1000, "expires_after_ms": 60000}')`)
	if lives := value[float64](f, `SELECT extract(epoch FROM (job ->> 'deadline')::timestamptz - (job ->> 'run_at')::timestamptz)::float8
		FROM forgequeue_outbox WHERE job ? 'deadline' AND job ->> 'type' = 'x' AND job - 'expires_after_ms' = job ORDER BY id DESC LIMIT 1`); lives < 58.9 || lives > 59.1 {
		t.Errorf("it lives for %v s after it may start", lives)
	}
	rows, err := f.pool.Query(t.Context(), "SELECT job::text FROM forgequeue_outbox")
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range jobs {
		var job api.SubmitRequest
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&job); err != nil {
			t.Errorf("%s: %v", text[:min(len(text), 300)], err)
		}
		if faults := job.Validate("", time.Now()); len(faults) > 0 {
			t.Errorf("%s: %v", text[:min(len(text), 300)], faults)
		}
	}
	if len(jobs) != 12 {
		t.Errorf("%d rows", len(jobs))
	}
}

// The functions find their table, whatever the caller's search_path.
func TestFunctionsInASchemaOfTheirOwn(t *testing.T) {
	t.Parallel()
	database := databasetest.Empty(t)
	f := connected(t, database)
	f.exec("CREATE SCHEMA jobs")
	own := connected(t, with(t, database, "search_path", "jobs"))
	if _, err := own.table.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.exec(`SELECT jobs.forgequeue_enqueue('x')`)
	if n := value[int](f, `SELECT count(*) FROM jobs.forgequeue_outbox`); n != 1 {
		t.Errorf("%d rows", n)
	}
	// As a role that may insert only.
	role := fmt.Sprintf("fq_producer_%d", time.Now().UnixNano())
	f.exec("CREATE ROLE " + role)
	defer f.exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
	f.exec("GRANT USAGE ON SCHEMA jobs TO " + role + "; GRANT INSERT, SELECT (id) ON jobs.forgequeue_outbox TO " + role)
	f.exec("SET ROLE " + role + "; SELECT jobs.forgequeue_enqueue('x'); RESET ROLE")
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	f := connected(t, databasetest.Empty(t))
	c, err := client.New(client.Options{URL: "http://127.0.0.1:1", APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := outbox.NewRelay(outbox.Options{Table: f.table, Client: c})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, outbox.ErrNoSchema) {
		t.Errorf("without tables: %v", err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := f.table.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	f.enqueue("x", "")
	f.exec("ALTER TABLE forgequeue_outbox DISABLE TRIGGER forgequeue_outbox_notify")
	if from, err := f.table.Migrate(t.Context()); err != nil || from != outbox.Version {
		t.Errorf("from %d: %v", from, err)
	}
	if value[int](f, "SELECT count(*) FROM forgequeue_outbox") != 1 || value[string](f, "SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'forgequeue_outbox_notify'") != "D" {
		t.Error("the migration has changed more than it must")
	}
	f.exec("CREATE OR REPLACE FUNCTION forgequeue_outbox_version() RETURNS integer LANGUAGE sql AS 'SELECT 99'")
	if from, err := f.table.Migrate(t.Context()); err != nil || from != 99 || value[int](f, "SELECT forgequeue_outbox_version()") != 99 {
		t.Errorf("a later version: %d %v", from, err)
	}
	f.exec("CREATE OR REPLACE FUNCTION forgequeue_outbox_version() RETURNS integer LANGUAGE sql AS 'SELECT 0'")
	if err := r.Run(t.Context()); !errors.Is(err, outbox.ErrNoSchema) {
		t.Errorf("an earlier version: %v", err)
	}
}
