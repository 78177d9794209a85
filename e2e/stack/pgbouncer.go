package stack

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // gives a role what core asks for

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
)

// PgBouncerEnv has every Cluster without Through reach its database by a PgBouncer with this pool_mode.
const PgBouncerEnv = "FORGEQUEUE_E2E_PGBOUNCER"

// PgBouncer starts a PgBouncer before a database, and gives the URL through it.
func PgBouncer(tb testing.TB, databaseURL, mode string) string {
	tb.Helper()
	program := Need(tb, "pgbouncer")
	server, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	address := porttest.Address(tb)
	host, port, _ := net.SplitHostPort(address)
	behind := fmt.Sprintf("host=%s port=%d dbname=%s user=%s", server.Host, server.Port, server.Database, server.User)
	if server.Password != "" {
		behind += " password=" + server.Password
	}
	text := fmt.Sprintf("[databases]\n* = %s\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n%s\n"+
		"max_client_conn = 500\ndefault_pool_size = 300\n", behind, host, port, mode, documentedParameters(tb))
	dir := Folder(tb)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	args := []string{file}
	if os.Getuid() == 0 { // it refuses to run as root
		args = append([]string{"--user=" + givenTo(tb, dir, file)}, args...)
	}
	StartCommand(tb, exec.CommandContext(context.WithoutCancel(tb.Context()), program, args...))
	Eventually(tb, time.Minute, "PgBouncer listens", func() bool {
		conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return (&url.URL{Scheme: "postgres", User: url.User(server.User), Host: address, Path: server.Database, RawQuery: "sslmode=disable"}).String()
}

// documentedParameters is the line of api-docs/operations.md about what PgBouncer ignores.
func documentedParameters(tb testing.TB) string {
	tb.Helper()
	for line := range strings.Lines(operations(tb)) {
		if strings.HasPrefix(line, "ignore_startup_parameters = ") {
			return strings.TrimSpace(line)
		}
	}
	tb.Fatal("operations.md does not say what PgBouncer is to ignore")
	return ""
}

// givenTo gives files to the user whom Debian's package runs as.
func givenTo(tb testing.TB, paths ...string) string {
	tb.Helper()
	const name = "postgres"
	found, err := user.Lookup(name)
	if err != nil {
		tb.Skipf("PgBouncer does not run as root, and there is no user %s: %v", name, err)
	}
	id, err := strconv.Atoi(found.Uid)
	for _, path := range paths {
		if err == nil {
			err = os.Chown(path, id, -1)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return name
}

var wantedSetting = regexp.MustCompile(`SET (\w+ = '\w+')`)

// PrepareForPgBouncer gives the role of a URL the settings that core misses by its own words, in its database.
func PrepareForPgBouncer(tb testing.TB, databaseURL, words string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(tb.Context())) }()
	of := conn.Config()
	for _, found := range wantedSetting.FindAllStringSubmatch(words, -1) {
		if _, err := conn.Exec(tb.Context(), fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s", of.User, of.Database, found[1])); err != nil {
			tb.Fatal(err)
		}
	}
}

// Core runs a command of core on a database, to its end; it gives the exit code, and what the command wrote to
// standard error.
func Core(tb testing.TB, databaseURL string, args ...string) (code int, words string) {
	tb.Helper()
	code, _, words = CoreWith(tb, map[string]string{"DATABASE_URL": databaseURL}, args...)
	return code, words
}

// CoreWith is Core with settings by their environment variables. It gives the lines of standard output too.
func CoreWith(tb testing.TB, settings map[string]string, args ...string) (code int, lines []string, words string) {
	tb.Helper()
	service := newService(tb, settings, append([]string{"core"}, args...)...)
	service.settings["FORGEQUEUE_LOG_LEVEL"] = "error"
	service.Start()
	lines = service.process.Lines(time.Minute)
	return service.process.Wait(tb, time.Minute), lines, service.process.Output()
}

// throughPgBouncer is ClusterOptions.Through by PgBouncerEnv; nil where that is not set.
func throughPgBouncer(tb testing.TB) func(string) string {
	tb.Helper()
	mode := os.Getenv(PgBouncerEnv)
	if mode == "" {
		return nil
	}
	return func(databaseURL string) string {
		if code, words := Core(tb, PgBouncer(tb, databaseURL, mode), "verify"); code != 0 {
			PrepareForPgBouncer(tb, databaseURL, words)
		}
		return PgBouncer(tb, databaseURL, mode) // a server's sessions that it has keep what they have
	}
}
