package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
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

// records is a log that a test reads.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *records) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), text)
}

// away gives the URL of a database by a socket that does not exist until come is called.
func away(t *testing.T, databaseURL string) (through string, come func()) {
	t.Helper()
	folder, err := os.MkdirTemp("", "fq") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	given, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", folder)
	query.Set("port", "5432")
	u.Host, u.RawQuery = "", query.Encode()
	network, address := pgconn.NetworkAddress(given.Host, given.Port)
	return u.String(), func() {
		t.Helper()
		socket, err := net.Listen("unix", filepath.Join(folder, ".s.PGSQL.5432"))
		if err != nil {
			t.Fatal(err)
		}
		var passing sync.WaitGroup
		passing.Go(func() {
			for {
				client, err := socket.Accept()
				if err != nil {
					return
				}
				server, err := net.Dial(network, address)
				if err != nil {
					_ = client.Close()
					continue
				}
				for to, from := range map[net.Conn]net.Conn{server: client, client: server} {
					passing.Go(func() {
						_, _ = io.Copy(to, from)
						_, _ = to.Close(), from.Close()
					})
				}
			}
		})
		t.Cleanup(func() {
			_ = socket.Close()
			passing.Wait()
		})
	}
}

// waiting starts a core that cannot reach its database, and waits until it says so.
func waiting(t *testing.T, cfg app.Config) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{T: t, url: "http://" + cfg.Listener.Addr().String(), stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- app.Run(ctx, cfg) }()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	celltest.Eventually(t, "core to say that it waits", func() bool {
		select {
		case err := <-r.ended:
			r.ended <- nil
			t.Fatalf("Run = %v", err)
		default:
		}
		status, text := r.fetch("GET", r.url+"/readyz", nil)
		if status == 0 {
			return false
		}
		var found api.Readiness
		if err := json.Unmarshal(text, &found); status != http.StatusServiceUnavailable || err != nil || found.Status != "starting" ||
			found.Reason != "PostgreSQL does not answer" || found.Checks["database"] != "down" {
			t.Fatalf("readyz: %d %s", status, text)
		}
		return true
	})
	return r
}

// PostgreSQL may come after core.
func TestCoreWaitsForPostgreSQL(t *testing.T) {
	t.Parallel()
	cfg := config(t, celltest.URL(t))
	through, come := away(t, cfg.DatabaseURL.Reveal())
	var log records
	cfg.DatabaseURL, cfg.Logger = secret.Text(through), slog.New(slog.NewTextHandler(&log, nil))
	core := waiting(t, cfg)
	if status, text := core.fetch("GET", core.url+"/livez", nil); status != http.StatusOK {
		t.Errorf("livez: %d %s", status, text)
	}
	status, text := core.fetch("POST", core.url+hop.SubmitJobs.Path, []byte(`{"items":[]}`))
	if refused := (problem.Problem{}); json.Unmarshal(text, &refused) != nil || status != http.StatusServiceUnavailable || refused.Code != problem.CoreUnavailable {
		t.Errorf("a submit meanwhile: %d %s", status, text)
	}
	come()
	celltest.Eventually(t, "core to be ready", func() bool {
		status, _ := core.fetch("GET", core.url+"/readyz", nil)
		return status == http.StatusOK
	})
	submit := hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "test"}}}
	if got := ask[json.RawMessage](core, hop.SubmitJobs.Path, someTenant(), submit); got.Status != http.StatusAccepted {
		t.Errorf("submit: %+v", got)
	}
	if err := core.end(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if n := log.count("waits for its database"); n != 1 {
		t.Errorf("the log says %d times that core waits", n)
	}
}

// A core that waits can be stopped, and its end is a clean one.
func TestACoreThatWaitsCanBeStopped(t *testing.T) {
	t.Parallel()
	silent := listen(t)
	for name, databaseURL := range map[string]string{
		"nothing listens":                 "postgres://u:hunter2@/x?host=" + t.TempDir(),
		"a server that takes and is mute": "postgres://u:hunter2@" + silent.Addr().String() + "/x?sslmode=disable",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, celltest.URL(t))
			var log records
			cfg.DatabaseURL, cfg.Logger = secret.Text(databaseURL), slog.New(slog.NewTextHandler(&log, nil))
			began := time.Now()
			core := waiting(t, cfg)
			if err := core.end(); err != nil {
				t.Errorf("Run = %v after %v", err, time.Since(began))
			}
			if log.count("hunter2") > 0 {
				t.Error("the log has the password")
			}
		})
	}
}

// Core reports a read-only database, and keeps running.
func TestReadyzSaysThatTheDatabaseIsReadOnly(t *testing.T) {
	t.Parallel()
	cfg := config(t, celltest.URL(t))
	u, err := url.Parse(cfg.DatabaseURL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("default_transaction_read_only", "on")
	u.RawQuery = query.Encode()
	cfg.DatabaseURL = secret.Text(u.String())
	core := start(t, cfg)
	var found api.Readiness
	status, text := core.fetch("GET", core.url+"/readyz", nil)
	if err := json.Unmarshal(text, &found); err != nil || status != http.StatusOK || found.Status != "degraded" || found.Checks["database"] != "read_only" {
		t.Errorf("readyz: %d %s", status, text)
	}
}
