package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
)

// engine is Hatchet's, with a process of its Go SDK that loads it.
type engine struct {
	m           *machine
	h           *hatchet
	url         string
	address     string
	dir         string
	environment []string
	rabbit      *brokertest.Server // nil: the message queue is in PostgreSQL
	server      *exec.Cmd
	loads       *exec.Cmd
	orders      io.WriteCloser
	answers     *json.Decoder
}

func (h *hatchet) startRabbitMQ(ctx context.Context, m *machine) (server, error) {
	rabbit, err := brokertest.OpenRabbitMQ() // its error says that none is installed
	if err != nil {
		return nil, err
	}
	return h.start(ctx, m, rabbit, "SERVER_MSGQUEUE_KIND=rabbitmq", "SERVER_MSGQUEUE_RABBITMQ_URL=amqp://guest:guest@"+rabbit.Address+"/")
}

func (h *hatchet) startPostgres(ctx context.Context, m *machine) (server, error) {
	return h.start(ctx, m, nil, "SERVER_MSGQUEUE_KIND=postgres")
}

// start makes a database and its keys, and starts the engine and the program that loads it.
func (h *hatchet) start(ctx context.Context, m *machine, rabbit *brokertest.Server, queue ...string) (_ server, err error) {
	e := &engine{m: m, h: h, rabbit: rabbit}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	if e.url, err = m.database(ctx, "hatchet"); err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	e.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	e.dir = filepath.Join(m.dir, nameOf(e.url))
	if err := os.Mkdir(e.dir, 0o700); err != nil {
		return nil, err
	}
	e.environment = append(clean(os.Environ()), append(queue,
		"DATABASE_URL="+e.url, "SERVER_GRPC_INSECURE=true", "SERVER_GRPC_BIND_ADDRESS=127.0.0.1", fmt.Sprintf("SERVER_GRPC_PORT=%d", ports[0]),
		"SERVER_GRPC_BROADCAST_ADDRESS="+e.address, "SERVER_URL=http://127.0.0.1", "SERVER_AUTH_COOKIE_DOMAIN=127.0.0.1", "SERVER_HEALTHCHECK=false",
		"SERVER_ENFORCE_LIMITS=false", "SERVER_GRPC_RATE_LIMIT=1000000", "SERVER_SECURITY_CHECK_ENABLED=false",
		"SERVER_LOGGER_LEVEL=warn", "DATABASE_LOGGER_LEVEL=warn", "SERVER_ADDITIONAL_LOGGERS_QUEUE_LEVEL=warn", "SERVER_ADDITIONAL_LOGGERS_PGXSTATS_LEVEL=warn",
	)...)
	for _, args := range [][]string{
		{"hatchet-migrate"},
		{"hatchet-admin", "quickstart", "--skip", "certs", "--generated-config-dir", e.dir},
	} {
		if _, err := e.run(ctx, args...); err != nil {
			return nil, err
		}
	}
	token, err := e.run(ctx, "hatchet-admin", "token", "create", "--config", e.dir)
	if err != nil {
		return nil, err
	}
	if err := e.launch(ctx); err != nil {
		return nil, err
	}
	return e, e.startLoad(ctx, lastLine(token))
}

// run runs one of Hatchet's programs to its end, and gives what it prints.
func (e *engine) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(e.h.dir, args[0]), args[1:]...)
	command.Dir, command.Env = e.dir, e.environment
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out), nil
}

// prepareTime is how long each of Hatchet's migrations, keys and tokens may take.
const prepareTime = 2 * time.Minute

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func (e *engine) startLoad(ctx context.Context, token string) (err error) {
	e.loads = exec.CommandContext(context.WithoutCancel(ctx), e.h.loader)
	e.loads.Dir = e.dir
	e.loads.Env = append(clean(os.Environ()), "HATCHET_CLIENT_TOKEN="+token, "HATCHET_CLIENT_TLS_STRATEGY=none", "HATCHET_CLIENT_HOST_PORT="+e.address)
	if e.orders, err = e.loads.StdinPipe(); err != nil {
		return err
	}
	out, err := e.loads.StdoutPipe()
	if err != nil {
		return err
	}
	e.answers = json.NewDecoder(out)
	return e.m.logged(e.loads, "hatchet-load")
}

// launch starts the engine, and waits until it listens.
func (e *engine) launch(ctx context.Context) error {
	e.server = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(e.h.dir, "hatchet-engine"), "--config", e.dir)
	e.server.Dir, e.server.Env = e.dir, e.environment
	if err := e.m.logged(e.server, "hatchet-engine"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.address)
		if err == nil {
			return conn.Close()
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("hatchet-engine: %w%s", err, e.m.tail("hatchet-engine"))
		}
	}
}

func (e *engine) load(ctx context.Context, o order) (done loaded, err error) {
	// What is waited for ends with the process, and that with the context.
	release := context.AfterFunc(ctx, func() { _ = e.loads.Process.Kill() })
	defer release()
	if err := json.NewEncoder(e.orders).Encode(o); err != nil {
		return done, fmt.Errorf("hatchet-load: %w", err)
	}
	if err := e.answers.Decode(&done); err != nil {
		return done, fmt.Errorf("hatchet-load: %w%s", errors.Join(err, ctx.Err()), e.m.tail("hatchet-load"))
	}
	if done.Error != "" {
		return done, errors.New(done.Error)
	}
	return done, nil
}

func (e *engine) processes() []int { return []int{e.server.Process.Pid} }

func (e *engine) broker() int {
	if e.rabbit == nil {
		return 0
	}
	return e.rabbit.Pid()
}

func (e *engine) database() string { return e.url }

func (e *engine) crash() { end(syscall.SIGKILL, e.server) }

func (e *engine) stop() {
	end(syscall.SIGKILL, e.loads)
	end(syscall.SIGTERM, e.server)
	if e.rabbit != nil {
		e.rabbit.Close()
	}
}
