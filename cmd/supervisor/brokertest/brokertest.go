// Package brokertest provides tests with a real RabbitMQ and a real NATS with JetStream, on loopback, in folders of
// their own. The TestMain of a package that shares one among its tests calls Stop after them. A machine without them skips the tests; CI does not.
package brokertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/child"
	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
)

// startTimeout is how long a server may take to start, on a busy machine too.
const startTimeout = 4 * time.Minute

// Server is a server that was started.
type Server struct {
	// Address is host and port; TLSAddress is for connections over TLS, where the server was given a certificate.
	Address, TLSAddress string
	dir                 string
	start               func(*Server) (*exec.Cmd, error)
	greets              func(net.Conn) bool
	output              *os.File
	child               *child.Child
	command             *exec.Cmd
	// beside is stopped after it, and then its addresses are released.
	beside func()
	held   []porttest.Held
}

// Start starts the server again, with what it has stored.
func (s *Server) Start() error {
	command, err := s.start(s)
	if err != nil {
		return err
	}
	command.Dir, command.Stdout, command.Stderr = s.dir, s.output, s.output
	if s.child, err = child.Start(command, syscall.SIGKILL); err != nil {
		return err
	}
	s.command = command
	for end := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		if s.answers() {
			return nil
		}
		select {
		case <-s.child.Ended():
			return fmt.Errorf("%s has ended: %s", filepath.Base(command.Path), s.Output())
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not answer: %s", filepath.Base(command.Path), s.Output())
		}
	}
}

func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	return s.greets(conn)
}

// Kill kills the server, without a chance to store anything.
func (s *Server) Kill() {
	if s.child == nil {
		return
	}
	_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL) // its group: it is of this test alone
	<-s.child.Ended()
	s.child = nil
}

// Output is the end of what it wrote.
func (s *Server) Output() string {
	content, _ := os.ReadFile(s.output.Name())
	return string(content[max(0, len(content)-4000):])
}

// Pid is the id of its process, and of its group.
func (s *Server) Pid() int { return s.command.Process.Pid }

// Close kills a server of OpenRabbitMQ and removes its folder.
func (s *Server) Close() { s.stop() }

// stop kills the server and removes its folder.
func (s *Server) stop() {
	s.Kill()
	if s.beside != nil {
		s.beside()
	}
	for _, one := range s.held {
		one.Release()
	}
	_ = s.output.Close()
	_ = os.RemoveAll(s.dir)
}

// Certificate names the files, in PEM, of a server's certificate for 127.0.0.1. nil is none.
type Certificate struct{ File, Key string }

// NewRabbitMQ starts a RabbitMQ that is the test's own.
func NewRabbitMQ(tb testing.TB) *Server { return own(tb, rabbitMQ, startRabbitMQ, nil) }

// ErrNotInstalled is of OpenRabbitMQ.
var ErrNotInstalled = errors.New("rabbitmq-server is not installed")

// OpenRabbitMQ starts a RabbitMQ without a test, with as many schedulers as the machine has processors; Close ends it.
func OpenRabbitMQ() (*Server, error) {
	path := rabbitMQ.find()
	if path == "" {
		return nil, ErrNotInstalled
	}
	return rabbitMQOf(path, nil, rabbitLoopback)
}

// NewRabbitMQWithTLS also has a TLSAddress.
func NewRabbitMQWithTLS(tb testing.TB, c Certificate) *Server {
	return own(tb, rabbitMQ, startRabbitMQ, &c)
}

// NewNATS starts a NATS with JetStream that is the test's own.
func NewNATS(tb testing.TB) *Server { return own(tb, natsServer, startNATS, nil) }

// NewNATSWithTLS takes nothing but TLS, at its Address, which is its TLSAddress.
func NewNATSWithTLS(tb testing.TB, c Certificate) *Server { return own(tb, natsServer, startNATS, &c) }

// RabbitMQ gives the package's RabbitMQ, started by the first test that asks for it. guest is its user and password.
func RabbitMQ(tb testing.TB) *Server { return sharedRabbitMQ.get(tb) }

// NATS gives the package's NATS with JetStream, without users.
func NATS(tb testing.TB) *Server { return sharedNATS.get(tb) }

// Stop stops what the package's tests share.
func Stop() {
	sharedRabbitMQ.stop()
	sharedNATS.stop()
}

// The process's servers. Tests have no other place to hand them on in.
var (
	sharedRabbitMQ = &shared{program: rabbitMQ, start: startRabbitMQ}
	sharedNATS     = &shared{program: natsServer, start: startNATS}
)

type shared struct {
	program program
	start   func(path string, c *Certificate) (*Server, error)

	mu     sync.Mutex
	server *Server
	err    error
}

func (s *shared) get(tb testing.TB) *Server {
	tb.Helper()
	path := s.program.need(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil && s.err == nil {
		s.server, s.err = s.start(path, nil)
	}
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

func (s *shared) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		s.server.stop()
	}
}

func own(tb testing.TB, what program, start func(path string, c *Certificate) (*Server, error), c *Certificate) *Server {
	tb.Helper()
	server, err := start(what.need(tb), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s wrote: %s", what, server.Output())
		}
		server.stop()
	})
	return server
}

// program is one of Debian's packages, and its server.
type program string

const (
	rabbitMQ   program = "rabbitmq-server"
	natsServer program = "nats-server"
)

// find gives the program's path, empty if it is not installed.
func (p program) find() string {
	for _, path := range []string{string(p), "/usr/sbin/" + string(p), "/usr/local/sbin/" + string(p), "/opt/homebrew/sbin/" + string(p)} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	return ""
}

// need gives the program's path.
func (p program) need(tb testing.TB) string {
	tb.Helper()
	if found := p.find(); found != "" {
		return found
	}
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		tb.Fatalf("CI needs %s: see .ci/install", p)
	}
	tb.Skipf("%s is not installed (Debian: apt install %s)", p, p)
	return ""
}

// made makes a server's folder and starts it.
func made(s *Server, prepare func(dir string) error) (*Server, error) {
	dir, err := os.MkdirTemp("", "forgequeue-test-broker-")
	if err != nil {
		return nil, err
	}
	s.dir = dir
	if s.output, err = os.Create(filepath.Join(dir, "output")); err == nil {
		err = prepare(dir)
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// address gives the server an address, and its port.
func (s *Server) address() (address, port string, err error) {
	held, err := porttest.Hold()
	if err != nil {
		return "", "", err
	}
	s.held = append(s.held, held)
	return held.Address, held.Port(), nil
}
