package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/internal/scratch"
)

// RedisOptions say which Redis to run, and where. The zero value is a Redis in
// a folder of its own that goes with it.
type RedisOptions struct {
	Binary  RedisBinary // zero: as FindRedis
	Dir     string      // for socket, log and what ExtraArgs make it store; empty: a temporary folder
	Port    int         // also listens on this port of 127.0.0.1; 0: on the Unix socket only
	LogFile string      // appended to; empty: redis.log in Dir

	// ExtraArgs follow the default ones, and win over them: "--maxmemory", "1gb".
	// The socket's place is not theirs to change.
	ExtraArgs []string
}

// Redis is a running Redis or Valkey.
type Redis struct {
	*Process
	socket string
}

// URL is understood by go-redis's ParseURL.
func (r *Redis) URL() string {
	return (&url.URL{Scheme: "unix", Path: r.socket, RawQuery: "db=0"}).String()
}

const redisSocket = "redis.sock"

// StartRedis starts a Redis that keeps nothing on disk, and returns when it
// answers. ctx bounds the start, not the life: that ends with Stop.
func StartRedis(ctx context.Context, opts RedisOptions) (_ *Redis, err error) {
	if opts.Binary.Path == "" {
		if opts.Binary, err = FindRedis(ctx); err != nil {
			return nil, err
		}
	}
	dir, remove, err := redisFolder(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	sockets, removeSockets, err := socketFolder(dir, redisSocket, func(string) error { return nil })
	if err != nil {
		remove()
		return nil, fmt.Errorf("redis: %w", err)
	}
	tidy := func() {
		removeSockets()
		remove()
	}
	r := &Redis{socket: filepath.Join(sockets, redisSocket)}
	ended := func() {
		// A killed server leaves its socket. A socket that accepts a connection belongs to
		// another server, even if that does not answer.
		dialer := net.Dialer{Timeout: time.Second}
		if conn, err := dialer.DialContext(context.WithoutCancel(ctx), "unix", r.socket); err == nil {
			_ = conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(r.socket)
		}
		tidy()
	}
	if err := r.start(ctx, opts, dir, ended); err != nil {
		tidy()
		return nil, err
	}
	if err := r.await(ctx, func() bool { return redisAnswers(ctx, r.socket) }); err != nil {
		return nil, err
	}
	return r, nil
}

// start starts the process, which tidies up at its end unless start fails.
func (r *Redis) start(ctx context.Context, opts RedisOptions, dir string, tidy func()) error {
	// Redis removes an existing socket, even that of another server.
	if redisAnswers(ctx, r.socket) {
		return &HeldError{Server: "Redis", Dir: dir}
	}
	if opts.LogFile == "" {
		opts.LogFile = filepath.Join(dir, "redis.log")
	}
	log, err := openLog(opts.LogFile)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	cmd := command(nil, opts.Binary.Path, r.args(opts, dir)...)
	cmd.Stdout, cmd.Stderr = log.File, log.File
	r.Process = &Process{name: "redis", cmd: cmd, log: log, tidy: tidy, stopSignals: []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}}
	// SIGKILL when this process dies: it has no durable data, and it obeys SIGKILL
	// in every state (SIGTERM waits for replicas and scripts).
	if err := r.launch(syscall.SIGKILL); err != nil {
		return errors.Join(fmt.Errorf("redis: %w", err), log.Close())
	}
	return nil
}

func (r *Redis) args(opts RedisOptions, dir string) []string {
	args := []string{
		"--bind", "127.0.0.1",
		"--port", strconv.Itoa(opts.Port),
		"--save", "",
		"--appendonly", "no",
		"--dir", dir,
		"--maxmemory", "256mb",
		// A bucket's key expires when the bucket would be full again, so evicting the one
		// with the shortest TTL loses least. Caps are not in Redis.
		"--maxmemory-policy", "volatile-ttl",
	}
	args = append(args, opts.ExtraArgs...)
	return append(args, "--unixsocket", r.socket, "--unixsocketperm", "700", "--daemonize", "no", "--logfile", "")
}

// redisFolder makes the folder, or a temporary one that remove removes.
func redisFolder(dir string) (path string, remove func(), err error) {
	if dir == "" {
		folder, err := scratch.Make(os.TempDir(), "forgequeue-redis-")
		if err != nil {
			return "", nil, err
		}
		return folder.Path, func() { _ = folder.Remove() }, nil
	}
	path, err = filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	return path, func() {}, err
}

// redisAnswers reports whether a Redis on the socket answers PING. One that still
// loads its data answers -LOADING.
func redisAnswers(ctx context.Context, socket string) bool {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	// -NOAUTH comes from a server that is ready, and whose ExtraArgs set a password.
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH"))
}
