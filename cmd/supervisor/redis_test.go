package supervisor

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func redisBinary(t *testing.T) RedisBinary {
	t.Helper()
	b, err := FindRedis(t.Context())
	if err != nil {
		missing(t, err.Error())
	}
	return b
}

func startRedis(t *testing.T, opts RedisOptions) *Redis {
	t.Helper()
	opts.Binary = redisBinary(t)
	r, err := StartRedis(t.Context(), opts)
	must(t, err)
	t.Cleanup(func() {
		if err := r.Stop(withinPatience(t)); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ask sends a command and returns the reply's first line.
func ask(t *testing.T, network, address, command string) string {
	t.Helper()
	conn, err := net.Dial(network, address)
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte(command + "\r\n"))
	must(t, err)
	in := bufio.NewReader(conn)
	var lines []string
	line, err := in.ReadString('\n')
	must(t, err)
	if strings.HasPrefix(line, "*2") { // CONFIG GET: two strings, each after its length
		for range 4 {
			line, err = in.ReadString('\n')
			must(t, err)
			lines = append(lines, strings.TrimSpace(line))
		}
		return lines[3]
	}
	return strings.TrimSpace(line)
}

func TestRedisServes(t *testing.T) {
	t.Parallel()
	r := startRedis(t, RedisOptions{})
	u, err := url.Parse(r.URL())
	must(t, err)
	if u.Scheme != "unix" || u.Query().Get("db") != "0" || u.Host != "" {
		t.Errorf("URL %s", r.URL())
	}
	if got := ask(t, "unix", u.Path, "PING"); got != "+PONG" {
		t.Errorf("PING: %q", got)
	}
	for name, want := range map[string]string{
		"port": "0", "save": "", "appendonly": "no", "maxmemory": "268435456", "maxmemory-policy": "volatile-ttl",
	} {
		if got := ask(t, "unix", u.Path, "CONFIG GET "+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	info, err := os.Stat(filepath.Dir(u.Path))
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder is %v", info.Mode())
	}
	must(t, r.Stop(withinPatience(t)))
	ended(t, r.Process)
	if r.Err() != nil || exists(filepath.Dir(u.Path)) {
		t.Errorf("not an orderly end: %v, folder left: %v", r.Err(), exists(filepath.Dir(u.Path)))
	}
}

func TestRedisOptions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), strings.Repeat("long", 30))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	must(t, free.Close())
	r := startRedis(t, RedisOptions{Dir: dir, Port: port, ExtraArgs: []string{"--maxmemory", "64mb", "--appendonly", "yes"}})
	if got := ask(t, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "CONFIG GET maxmemory"); got != "67108864" {
		t.Errorf("maxmemory %q", got)
	}
	if got := ask(t, "unix", r.socket, "SET kept yes"); got != "+OK" {
		t.Errorf("SET: %q", got)
	}
	must(t, r.Stop(withinPatience(t)))
	if exists(r.socket) || !exists(filepath.Join(dir, "redis.log")) {
		t.Error("the socket stays, or the log does not")
	}
	r = startRedis(t, RedisOptions{Dir: dir, ExtraArgs: []string{"--appendonly", "yes"}})
	if got := ask(t, "unix", r.socket, "GET kept"); got != "$3" { // "yes" has 3 bytes
		t.Errorf("GET: %q", got)
	}
}

func TestRedisRefusesAHeldFolder(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	r := startRedis(t, RedisOptions{Dir: dir})
	_, err := StartRedis(t.Context(), RedisOptions{Dir: dir})
	if held, ok := errors.AsType[*HeldError](err); !ok || held.Dir != dir {
		t.Fatalf("got %v", err)
	}
	if got := ask(t, "unix", r.socket, "PING"); got != "+PONG" {
		t.Errorf("the holder says %q", got)
	}
}

func TestRedisUnexpectedEnd(t *testing.T) {
	t.Parallel()
	r := startRedis(t, RedisOptions{})
	must(t, r.Kill())
	ended(t, r.Process)
	mustSay(t, r.Err(), "redis", "signal: killed", "eady to accept connections")
	if exists(r.socket) {
		t.Error("the folder stays")
	}
	if got := ask(t, "unix", startRedis(t, RedisOptions{}).socket, "PING"); got != "+PONG" {
		t.Errorf("the next one says %q", got)
	}
}

// An exit status of 0 without a Stop is unexpected too.
func TestRedisShutDownByAClient(t *testing.T) {
	t.Parallel()
	r := startRedis(t, RedisOptions{})
	conn, err := net.Dial("unix", r.socket)
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("SHUTDOWN NOSAVE\r\n"))
	must(t, err)
	ended(t, r.Process)
	mustSay(t, r.Err(), "exit status 0")
}

func TestRedisErrorCarriesTheLog(t *testing.T) {
	t.Parallel()
	_, err := StartRedis(t.Context(), RedisOptions{Binary: redisBinary(t), ExtraArgs: []string{"--no-such-option", "1"}})
	mustSay(t, err, "while starting", "exit status 1", "no-such-option")

	_, err = StartRedis(t.Context(), RedisOptions{Binary: RedisBinary{Path: "/nowhere/redis-server"}})
	mustSay(t, err, "/nowhere/redis-server", "no such file")
}

// One that was killed could not remove its socket itself.
func TestRedisSocketIsRemoved(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	r, err := StartRedis(t.Context(), RedisOptions{Binary: redisBinary(t), Dir: dir})
	must(t, err)
	must(t, r.Kill())
	ended(t, r.Process)
	if exists(filepath.Join(dir, redisSocket)) {
		t.Error("the socket stays")
	}
}

// The folder is held by a server that does not answer at this moment.
func TestRedisLeavesAnothersSocket(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	first, err := StartRedis(t.Context(), RedisOptions{Binary: redisBinary(t), Dir: dir})
	must(t, err)
	t.Cleanup(func() { _ = first.Stop(context.Background()) })
	freeze(t, first.Pid())
	if _, err := StartRedis(t.Context(), RedisOptions{Binary: redisBinary(t), Dir: dir, ExtraArgs: []string{"--no-such-option", "1"}}); err == nil {
		t.Fatal("it has started")
	}
	if !exists(first.socket) {
		t.Error("the socket of the first has gone")
	}
}

func TestRedisStartGivenUp(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := StartRedis(over, RedisOptions{Binary: redisBinary(t), Dir: dir})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if exists(filepath.Join(dir, redisSocket)) {
		t.Error("the socket stays")
	}
}

func TestRedisStopEscalates(t *testing.T) {
	t.Parallel()
	r, err := StartRedis(t.Context(), RedisOptions{Binary: redisBinary(t)})
	must(t, err)
	freeze(t, r.Pid())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	mustSay(t, r.Stop(over), "did not stop in time", "killed")
	mustSay(t, r.Err(), "signal: killed")
}
