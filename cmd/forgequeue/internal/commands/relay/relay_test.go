package relay_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/shared/outbox"
)

var databases atomic.Int64

// shop is a program with a database of its own.
type shop struct {
	*commandtest.Fixture
	database string
	conn     *pgx.Conn
}

func newShop(t *testing.T) *shop {
	t.Helper()
	f := commandtest.New(t)
	name := fmt.Sprintf("shop_%d", databases.Add(1))
	server, err := pgx.Connect(t.Context(), f.Ready.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close(context.Background()) }()
	if _, err := server.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(f.Ready.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	s := &shop{Fixture: f.With("FORGEQUEUE_RELAY_DATABASE_URL", u.String()), database: u.String()}
	if s.conn, err = pgx.Connect(t.Context(), s.database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close(context.Background()) })
	return s
}

func (s *shop) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.conn.Exec(s.Context(), sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

func TestRelay(t *testing.T) {
	s := newShop(t)
	s.Want(cli.ExitEnvironment, []string{"forgequeue relay migrate"}, "relay")
	s.Want(0, []string{"version", "1"}, "relay", "migrate")
	s.Want(0, []string{`"before": 1`}, "relay", "migrate", "-o", "json")
	q := s.Queue()
	s.exec(`SELECT forgequeue_enqueue('mail', '{"to": "ada"}', queue => $1)`, q)
	s.Want(0, []string{"waiting", "1"}, "relay", "status")
	metrics := porttest.Address(t)
	process := s.Process("relay", "--database-url", s.database, "--poll", "50ms", "--retain", "1h", "--metrics-listen", metrics)
	s.Eventually("it is a job", func() bool { return strings.Contains(s.Must("jobs", "-q", q, "-o", "jsonl"), `"type":"mail"`) })
	s.Eventually("the metrics show it", func() bool {
		text := read(t, "http://"+metrics+"/metrics")
		return strings.Contains(text, `forgequeue_relay_handled_rows_total{outcome="sent"} 1`) && strings.Contains(text, `forgequeue_relay_rows{state="waiting"} 0`)
	})
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, process.Stderr)
	}
	s.Want(0, []string{`"waiting": 0`, `"failed": 0`}, "relay", "status", "-o", "json")
}

func TestRelayFailed(t *testing.T) {
	s := newShop(t)
	s.Must("relay", "migrate")
	s.Want(0, []string{"DETAIL"}, "relay", "failed")
	for _, kind := range []string{"a", "b", "c"} {
		s.exec(`INSERT INTO forgequeue_outbox (job, bytes, state, error, ended_at)
			VALUES (jsonb_build_object('type', $1::text), 20, 'failed', '{"code": "invalid_request", "status": 400, "detail": "type: is bad"}', now())`, kind)
	}
	s.Want(0, []string{"invalid_request", "type: is bad"}, "relay", "failed")
	if names := s.Must("relay", "failed", "-o", "name", "--limit", "2"); names != "1\n2\n" {
		t.Errorf("%q", names)
	}
	list := commandtest.Decode[struct{ Items []outbox.FailedRow }](s.Fixture, s.Must("relay", "failed", "--limit", "0", "-o", "json"))
	if len(list.Items) != 3 || list.Items[2].Type != "c" || list.Items[2].Error.Status != 400 {
		t.Errorf("%+v", list)
	}
	s.Want(0, []string{"1"}, "relay", "discard", "1")
	s.Want(cli.ExitFailed, []string{"1 of 2 are not failed rows"}, "relay", "retry", "1", "2")
	s.Want(0, []string{`"rows": 1`}, "relay", "retry", "--all", "-o", "json")
	s.Want(0, []string{`"waiting": 2`}, "relay", "status", "-o", "json")
	for _, args := range [][]string{
		{"relay", "retry"}, {"relay", "retry", "--all", "1"}, {"relay", "retry", "x"}, {"relay", "discard"}, {"relay", "failed", "--limit", "-1"}, {"relay", "no-such-command"},
	} {
		if r := s.Run(args...); r.Code != cli.ExitUsage {
			t.Errorf("%v: exit code %d\n%s", args, r.Code, r.Err)
		}
	}
}

func TestRelaySettings(t *testing.T) {
	f := commandtest.New(t)
	f.Want(cli.ExitEnvironment, []string{"FORGEQUEUE_RELAY_DATABASE_URL is not set"}, "relay")
	f.Want(cli.ExitEnvironment, []string{"FORGEQUEUE_RELAY_DATABASE_URL is not set"}, "relay", "migrate")
	if schema := f.Must("relay", "schema"); schema != outbox.Schema() {
		t.Error("the schema that is printed is another one")
	}
	unreachable := "postgres://shop:hunter2@127.0.0.1:1/shop"
	if r := f.Want(cli.ExitEnvironment, []string{"127.0.0.1"}, "relay", "status", "--database-url", unreachable); strings.Contains(r.Err, "hunter2") {
		t.Errorf("the password is shown: %s", r.Err)
	}
	wrong := f.With("FORGEQUEUE_RELAY_DATABASE_URL", unreachable).With("FORGEQUEUE_RELAY_BATCH", "many").With("FORGEQUEUE_RELAY_METRICS_LISTEN", "here")
	r := wrong.Want(cli.ExitEnvironment, []string{"FORGEQUEUE_RELAY_BATCH", "FORGEQUEUE_RELAY_METRICS_LISTEN"}, "relay")
	if strings.Contains(r.Err, "hunter2") {
		t.Errorf("the password is shown: %s", r.Err)
	}
	f.With("FORGEQUEUE_RELAY_DATABASE_URL", unreachable).Want(cli.ExitEnvironment, []string{"must be 1 to 1000"}, "relay", "--batch", "1001")
}

// A relay that waits for its database ends in order, with exit code 0.
func TestRelayStopsWhileItStarts(t *testing.T) {
	f := commandtest.New(t)
	process := f.Process("relay", "--database-url", "postgres://shop@127.0.0.1:1/shop")
	f.Eventually("it tries", func() bool { return strings.Contains(process.Stderr.(*commandtest.Buffer).String(), "relay starts") })
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, process.Stderr)
	}
}

func read(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(text)
}
