package faultproxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/e2e/faultproxy"
)

func all(string, string) bool { return true }

// The server has done the work, the client does not know; other answers come
// whole, and connections are kept.
func TestHTTPAnswersAreLost(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s %s", served.Add(1), r.Header.Get("X-Mark"), body)
	}))
	defer server.Close()
	faults := faultproxy.NewFaults(1)
	proxy, err := faultproxy.HTTP(strings.TrimPrefix(server.URL, "http://"), faults, func(method, path string) bool {
		return method == http.MethodPost && path == "/v1/jobs"
	})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	post := func(path string) (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+proxy.Address()+path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Mark", "mark")
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		return string(answer), err
	}
	for i := range 3 {
		if answer, err := post("/v1/jobs"); err != nil || answer != fmt.Sprint(i+1, " mark body") {
			t.Fatalf("%q %v", answer, err)
		}
	}
	faults.Lose(1, 2)
	if answer, err := post("/v1/other"); err != nil || answer != "4 mark body" {
		t.Fatalf("a route that is not to fail: %q %v", answer, err)
	}
	for range 2 {
		if answer, err := post("/v1/jobs"); err == nil {
			t.Fatalf("the answer %q arrived", answer)
		}
	}
	if answer, err := post("/v1/jobs"); err != nil || answer != "7 mark body" {
		t.Fatalf("after the last fault: %q %v", answer, err)
	}
	if lost := faults.Lost(); lost["POST jobs"] != 2 || faults.Total() != 2 || served.Load() != 7 {
		t.Errorf("lost %v of %d", lost, served.Load())
	}
}

func TestSameSeedSameFaults(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var runs [2]string
	for i := range runs {
		faults := faultproxy.NewFaults(7)
		faults.Lose(0.5, 100)
		proxy, err := faultproxy.HTTP(strings.TrimPrefix(server.URL, "http://"), faults, all)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
			response, err := client.Post("http://"+proxy.Address(), "text/plain", nil) // not repeated by the transport
			if err != nil {
				runs[i] += "x"
				continue
			}
			_ = response.Body.Close()
			runs[i] += "."
		}
		proxy.Close()
	}
	if runs[0] != runs[1] || !strings.Contains(runs[0], "x") || !strings.Contains(runs[0], ".") {
		t.Errorf("%s and %s", runs[0], runs[1])
	}
}

// Each way to commit: what was lost is in the table, and what only failed is not
// counted.
func TestCommitsAreLost(t *testing.T) {
	t.Parallel()
	given, err := pgx.ParseConfig(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	network, address := "tcp", fmt.Sprintf("%s:%d", given.Host, given.Port)
	if strings.HasPrefix(given.Host, "/") {
		network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", given.Host, given.Port)
	}
	faults := faultproxy.NewFaults(1)
	proxy, err := faultproxy.Postgres(network, address, faults)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	target := url.URL{
		Scheme: "postgres", User: url.UserPassword(given.User, given.Password), Host: proxy.Address(), Path: given.Database,
		RawQuery: "sslmode=disable",
	}
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), target.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		return conn
	}
	conn := connect()
	table := fmt.Sprintf("faultproxy_%d", time.Now().UnixNano())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE "+table+" (n integer)"); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = connect().Exec(t.Context(), "DROP TABLE "+table) }()
	count := func() (n int) {
		if err := connect().QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	inTx := func() error {
		return pgx.BeginFunc(t.Context(), connect(), func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1)", 1)
			return err
		})
	}
	alone := func() error {
		_, err := connect().Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1)", 1)
		return err
	}
	for name, write := range map[string]func() error{"in a transaction": inTx, "alone": alone} {
		before := count()
		if err := write(); err != nil || count() != before+1 {
			t.Fatalf("%s, without a fault: %v", name, err)
		}
		faults.Lose(1, 1)
		if err := write(); err == nil {
			t.Errorf("%s: the answer arrived", name)
		}
		if count() != before+2 {
			t.Errorf("%s: the write was lost, not its answer", name)
		}
	}
	faults.Lose(1, 1)
	_ = pgx.BeginFunc(t.Context(), connect(), func(tx pgx.Tx) error {
		_, _ = tx.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1)", 1)
		return io.EOF // rolled back: nothing to lose
	})
	if _, err := connect().Exec(t.Context(), "UPDATE "+table+" SET n = 2 WHERE n = $1", 3); err != nil {
		t.Errorf("an update of no row: %v", err)
	}
	if lost := faults.Lost(); lost["COMMIT"] != 1 || lost["INSERT"] != 1 || faults.Total() != 2 {
		t.Errorf("lost %v", lost)
	}
}
