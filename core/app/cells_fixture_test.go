package app_test

import (
	"cmp"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

// stalled passes what is sent to a database on, but for the times in which it is frozen.
type stalled struct {
	mu     sync.Mutex
	frozen chan struct{} // closed at the end of a freeze
}

func (s *stalled) freeze() (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = make(chan struct{})
	return sync.OnceFunc(func() { close(s.frozen) })
}

func (s *stalled) wait() {
	s.mu.Lock()
	frozen := s.frozen
	s.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// through gives a database's URL behind a proxy that can be frozen.
func through(t *testing.T, databaseURL string) (string, *stalled) {
	t.Helper()
	given, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(given.Host, given.Port)
	listener, s := listen(t), &stalled{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial(network, address)
			if err != nil {
				_ = conn.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				defer func() { _, _ = to.Close(), from.Close() }()
				buffer := make([]byte, 64<<10)
				for {
					n, err := from.Read(buffer)
					s.wait()
					if n > 0 {
						if _, err := to.Write(buffer[:n]); err != nil {
							return
						}
					}
					if err != nil {
						return
					}
				}
			}
			go pass(behind, conn)
			go pass(conn, behind)
		}
	}()
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(given.User, given.Password), Host: listener.Addr().String(), Path: given.Database,
		RawQuery: url.Values{"sslmode": {"disable"}, "search_path": {cmp.Or(given.RuntimeParams["search_path"], "public")}}.Encode(),
	}
	return u.String(), s
}

// installation is several cells, each a database, the first is home.
type installation struct {
	*testing.T
	cfg   app.Config
	names []string
	urls  []string
	// behind are connections to the databases themselves.
	behind []*pgx.Conn
	stalls []*stalled
	file   string
}

func newInstallation(t *testing.T, names ...string) *installation {
	t.Helper()
	return newInstallationOn(t, func(string) string { return celltest.URL(t) }, names...)
}

// newInstallationOn is newInstallation with the cells' databases from the caller.
func newInstallationOn(t *testing.T, databaseOf func(cell string) string, names ...string) *installation {
	t.Helper()
	in := &installation{T: t, names: names, file: filepath.Join(t.TempDir(), "cells.json")}
	for _, name := range names {
		databaseURL := databaseOf(name)
		in.behind = append(in.behind, celltest.Connect(t, databaseURL))
		via, stall := through(t, databaseURL)
		in.urls, in.stalls = append(in.urls, via), append(in.stalls, stall)
	}
	in.write(nil)
	in.cfg = in.config()
	if _, err := app.Migrate(t.Context(), in.cfg); err != nil {
		t.Fatal(err)
	}
	return in
}

// write writes the file; change is made to the entries first.
func (in *installation) write(change func([]map[string]any)) {
	in.Helper()
	entries := []map[string]any{{"name": in.names[0]}}
	for i := 1; i < len(in.names); i++ {
		entries = append(entries, map[string]any{"name": in.names[i], "dsn": in.urls[i]})
	}
	if change != nil {
		change(entries)
	}
	text, err := json.Marshal(entries)
	if err != nil {
		in.Fatal(err)
	}
	if err := os.WriteFile(in.file, text, 0o600); err != nil {
		in.Fatal(err)
	}
}

func (in *installation) config() app.Config {
	cfg := config(in.T, in.urls[0])
	cfg.Cells = in.file
	cfg.PushKey = secret.Text(strings.Repeat("p", 32))
	return cfg
}

var operator = hop.Principal{Kind: hop.PrincipalOperator, KeyID: "operator"} //nolint:gochecknoglobals // a constant

var platform = hop.Principal{Kind: hop.PrincipalPlatform, KeyID: "platform"} //nolint:gochecknoglobals // a constant

func must[Resp, Req any](r *running, path string, p hop.Principal, request Req) Resp {
	r.Helper()
	var answer hop.Result[Resp]
	celltest.EventuallyWithin(r, time.Minute, path+" to be served", func() bool { // a busy machine may be late with the looks at cells
		answer = ask[Resp](r, path, p, request)
		return answer.Problem == nil || answer.Problem.Code != problem.CoreUnavailable
	})
	if answer.Problem != nil || answer.Value == nil {
		r.Fatalf("%s: %d %+v", path, answer.Status, answer.Problem)
	}
	return *answer.Value
}

func jobOf() (hop.SubmitJobsRequest, string) {
	id := uuid.Must(uuid.NewV7()).String()
	return hop.SubmitJobsRequest{IDs: []string{id}, Jobs: []api.SubmitRequest{{Type: "test"}}}, id
}

// tenantIn makes tenants until one is in each cell, and gives one of each, by cell.
func (in *installation) tenantsIn(r *running) []hop.Principal {
	in.Helper()
	celltest.Eventually(in, "the other cells to follow the home cell", func() bool {
		return in.count(0, `SELECT count(*) FROM directory_readers`) == len(in.names)-1
	})
	found := make([]hop.Principal, len(in.names))
	for range in.names {
		made := must[api.Tenant](r, hop.CreateTenant.Path, operator, hop.WithID[api.TenantRequest]{
			ID: uuid.Must(uuid.NewV7()).String(), Value: api.TenantRequest{Name: "t"},
		})
		var name *string
		if err := in.behind[0].QueryRow(in.Context(), `SELECT cell FROM tenants WHERE id = $1`, made.ID).Scan(&name); err != nil {
			in.Fatal(err)
		}
		cell := 0
		for i := range in.names {
			if name != nil && in.names[i] == *name {
				cell = i
			}
		}
		if found[cell].Tenant != "" {
			in.Fatalf("two new tenants in cell %d while another is empty", cell)
		}
		found[cell] = hop.Principal{Kind: hop.PrincipalTenant, Tenant: made.ID, Scopes: []string{api.ScopeRead}}
	}
	return found
}

func (in *installation) count(cell int, sql string, args ...any) (n int) {
	in.Helper()
	if err := in.behind[cell].QueryRow(in.Context(), sql, args...).Scan(&n); err != nil {
		in.Fatal(err)
	}
	return n
}
