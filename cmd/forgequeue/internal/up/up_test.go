//go:build unix

package up

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/cmd/supervisor"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/server/build"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFolderIsHeldByOne(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	first, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openFolder(dir)
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Pid != os.Getpid() || held.Dir != dir || !strings.Contains(err.Error(), "--data") {
		t.Fatalf("the second got %v", err)
	}
	first.close()
	again, err := openFolder(dir)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	again.close()
}

func TestCredentialsAreKept(t *testing.T) {
	t.Parallel()
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	first, err := f.loadCredentials()
	if err != nil || len(first.HopSecret) < 32 || len(first.KeySecret) < 32 || len(first.OperatorKey) < 27 || first.HopSecret == first.KeySecret {
		t.Fatalf("%+v %v", first, err)
	}
	first.APIKey = "fq_made_later"
	if err := f.saveCredentials(first); err != nil {
		t.Fatal(err)
	}
	if second, err := f.loadCredentials(); err != nil || second != first {
		t.Fatalf("%+v %v", second, err)
	}
	info, err := os.Stat(f.join(localup.CredentialsFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v %v", info.Mode(), err)
	}
	// A file that cannot be read is never replaced: the keys of a database are in it.
	if err := os.WriteFile(f.join(localup.CredentialsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.loadCredentials(); err == nil {
		t.Fatal("a broken file was taken")
	}
	if content, _ := os.ReadFile(f.join(localup.CredentialsFile)); string(content) != "{" {
		t.Fatal("a broken file was overwritten")
	}
}

func TestRedisInTheProcessAnswers(t *testing.T) {
	t.Parallel()
	s := &stores{}
	if err := s.openInProcessRedis(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.stop(t.Context()) }()
	address, err := url.Parse(s.redisURL)
	if err != nil || s.redisMode != redisInProcess {
		t.Fatalf("%s %s %v", s.redisURL, s.redisMode, err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	// its clock moves: what expires, expires
	if _, err := conn.Write(command("SET", "k", "v", "PX", "150")); err != nil {
		t.Fatal(err)
	}
	replies := bufio.NewReader(conn)
	if line, err := replies.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	for {
		if _, err := conn.Write(command("EXISTS", "k")); err != nil {
			t.Fatal(err)
		}
		line, err := replies.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ":0\r\n" {
			return
		}
	}
}

// command is a Redis command as it travels.
func command(words ...string) []byte {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	return []byte(text)
}

func TestTheScreenForAMissingPostgres(t *testing.T) {
	t.Parallel()
	text := (&MissingPostgresError{Looked: []supervisor.Place{{Where: "PATH", Found: "nothing"}, {Where: "/usr/lib/postgresql", Found: "version 13, too old"}}}).Error()
	for _, want := range []string{"15 or newer", "PATH", "version 13, too old", "1.", "2.", "3.", "4.", "apt-get install postgresql", "DATABASE_URL="} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen does not say %q:\n%s", want, text)
		}
	}
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	r := ready{Version: "1.2.3", Gateway: "http://127.0.0.1:1", APIKey: "fq_k", DatabaseURL: "postgres:///x?a=1&b=2", Redis: readyRedis{Mode: redisInProcess}, Console: "http://127.0.0.1:1/console", signIn: "http://127.0.0.1:1/console/enter/t"}
	var line bytes.Buffer
	if err := announce(Options{JSON: true, Out: &line}, r); err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(line.Bytes(), &members); err != nil || strings.Count(line.String(), "\n") != 1 || strings.Contains(line.String(), `\u0026`) {
		t.Fatalf("%s %v", line.String(), err)
	}
	for _, name := range []string{"version", "gateway", "api_key", "operator_key", "platform_key", "database_url", "redis", "data", "metrics", "console"} {
		if _, ok := members[name]; !ok {
			t.Errorf("no %s in %s", name, line.String())
		}
	}
	var screen bytes.Buffer
	if err := announce(Options{Out: &screen}, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ForgeQueue 1.2.3 is up.", "Console     http://127.0.0.1:1/console ", "sign in: http://127.0.0.1:1/console/enter/t", "NOT INSTALLED", "API         http://127.0.0.1:1 ", "calls add /v1", "http://127.0.0.1:1/docs ", "curl -s http://127.0.0.1:1/v1/jobs",
		`"queue":"mine"`, "worker run --queue mine",
	} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("the screen does not say %q:\n%s", want, screen.String())
		}
	}
	screen.Reset()
	if err := announce(Options{Demo: true, Out: &screen}, r); err != nil || !strings.Contains(screen.String(), `"hash.sha256"`) || strings.Contains(screen.String(), "mine") {
		t.Errorf("the screen with a sample worker: %v\n%s", err, screen.String())
	}
}

// The first jobs are for a folder that is new. The terminal is told that all has
// stopped, and nothing of the questions whether all is ready. The second start keeps the keys.
func TestDemoJobsOnce(t *testing.T) {
	t.Parallel()
	// Not a test's TempDir: PostgreSQL's user could not enter it.
	dir, err := os.MkdirTemp("", "fq-up-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	var keys []string
	run := func() (done int, told string) {
		return runOnce(t, dir, func(ctx context.Context, r ready) error {
			keys = append(keys, r.APIKey)
			if ok, err := works(ctx, r.Gateway, r.APIKey); !ok {
				t.Errorf("the key does not work: %v", err)
			}
			return nil
		})
	}
	first, _ := run()
	again, told := run()
	if len(keys) != 2 || keys[0] != keys[1] || strings.Contains(told, "API key") {
		t.Errorf("%d starts, and the key is another one:\n%s", len(keys), told)
	}
	if first == 0 || again != first {
		t.Errorf("%d jobs after the first run, %d after the second", first, again)
	}
	log, err := os.ReadFile(filepath.Join(dir, "forgequeue.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"gateway listens", "core serves"} {
		line := regexp.MustCompile(`"msg":"` + service + `".*`).FindString(string(log))
		if !strings.Contains(line, `"version":"`+build.This().Version+`"`) {
			t.Errorf("the log does not say which version it is of: %s", line)
		}
	}
}

type ownStores struct{ database, redis string }

// brokers are those that queues of other tests may have, in a database that is given for all.
func brokers() []coreapp.Broker { return []coreapp.Broker{rabbitmq.Protocol()} }

// runOnce runs `up` until it is ready and look has looked at it. It returns how many jobs there are, and what was
// written to standard error.
func runOnce(t *testing.T, dir string, look func(context.Context, ready) error) (jobs int, told string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errs bytes.Buffer
	err := Run(ctx, Options{Data: dir, Listen: "127.0.0.1:0", Demo: true, JSON: true, Err: &errs, Brokers: brokers(), Out: writerFunc(func(line []byte) (int, error) {
		defer stop()
		var r ready
		if err := json.Unmarshal(line, &r); err != nil {
			return 0, err
		}
		own := ownStores{r.DatabaseURL, r.Redis.URL}
		if os.Getenv("DATABASE_URL") != "" { // URLs of the environment are not stored: they may contain passwords
			own.database = ""
		}
		if os.Getenv("REDIS_URL") != "" {
			own.redis = ""
		}
		if found := findRunning(dir); len(found) != 1 || (ownStores{found[0].DatabaseURL, found[0].RedisURL}) != own {
			t.Errorf("the folder tells of %+v", found)
		}
		c, err := client.New(client.Options{URL: r.Gateway, APIKey: r.APIKey})
		if err != nil {
			return 0, err
		}
		defer c.CloseIdleConnections()
		list, err := c.List(ctx, api.JobFilter{}, client.PageRequest{Size: 100})
		jobs = len(list.Items)
		return len(line), errors.Join(err, look(ctx, r))
	})})
	if _, missing := errors.AsType[*MissingPostgresError](err); missing && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil || strings.Contains(errs.String(), "readyz") || !strings.HasSuffix(errs.String(), "\nstopped; the data is in "+dir+"\n") {
		t.Errorf("up ended with %v, and wrote:\n%s", err, errs.String())
	}
	return jobs, errs.String()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestProbesStayOffTheTerminal(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	log := slog.New(withoutProbes{slog.NewTextHandler(&lines, nil)}).With("service", "gateway")
	log.Warn("request", "route", "/readyz", "status", 503)
	log.Warn("request", "route", "/v1/jobs", "status", 503)
	if strings.Count(lines.String(), "\n") != 1 || !strings.Contains(lines.String(), "route=/v1/jobs") {
		t.Errorf("%s", lines.String())
	}
}
