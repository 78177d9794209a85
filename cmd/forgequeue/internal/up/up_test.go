package up

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/shared/supervisor"
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
	info, err := os.Stat(f.join(credentialsFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v %v", info.Mode(), err)
	}
	// A file that cannot be read is never replaced: the keys of a database are in it.
	if err := os.WriteFile(f.join(credentialsFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.loadCredentials(); err == nil {
		t.Fatal("a broken file was taken")
	}
	if content, _ := os.ReadFile(f.join(credentialsFile)); string(content) != "{" {
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
	r := ready{Gateway: "http://127.0.0.1:1", APIKey: "fq_k", DatabaseURL: "postgres:///x?a=1&b=2", Redis: readyRedis{Mode: redisInProcess}}
	var line bytes.Buffer
	if err := announce(Options{JSON: true, Out: &line}, r); err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(line.Bytes(), &members); err != nil || strings.Count(line.String(), "\n") != 1 || strings.Contains(line.String(), `\u0026`) {
		t.Fatalf("%s %v", line.String(), err)
	}
	for _, name := range []string{"gateway", "api_key", "operator_key", "platform_key", "database_url", "redis", "data", "metrics"} {
		if _, ok := members[name]; !ok {
			t.Errorf("no %s in %s", name, line.String())
		}
	}
	var screen bytes.Buffer
	if err := announce(Options{Out: &screen}, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(screen.String(), "NOT INSTALLED") || !strings.Contains(screen.String(), "curl -s http://127.0.0.1:1/v1/jobs") {
		t.Errorf("the screen:\n%s", screen.String())
	}
}
