package brokertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/forgequeue/forgequeue/cmd/supervisor/child"
)

const rabbitConf = `
listeners.tcp.1 = %s
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 1MB
log.console = true
log.console.level = warning
log.file = false
`

const rabbitTLS = `
listeners.ssl.1 = %s
ssl_options.certfile = %s
ssl_options.keyfile = %s
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
`

// rabbitErlang keeps the node on loopback and its schedulers from spinning.
const (
	rabbitLoopback = "-kernel inet_dist_use_interface {127,0,0,1}"
	rabbitErlang   = rabbitLoopback + " +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
)

func startRabbitMQ(path string, c *Certificate) (*Server, error) {
	return rabbitMQOf(path, c, rabbitErlang)
}

// rabbitMQOf starts one whose Erlang gets further arguments.
func rabbitMQOf(path string, c *Certificate, erlang string) (*Server, error) {
	s := &Server{greets: func(conn net.Conn) bool {
		_, _ = conn.Write([]byte("AMQP\x00\x00\x09\x01"))
		frame := make([]byte, 1)
		_, err := conn.Read(frame)
		return err == nil && frame[0] == 1 // a method: connection.start
	}}
	var ports [3]string // of AMQP, of Erlang's distribution, and of epmd, which each Erlang node has to have
	for i := range ports {
		address, port, err := s.address()
		if err != nil {
			return nil, err
		}
		if ports[i] = port; i == 0 {
			s.Address = address
		}
	}
	s.start = func(s *Server) (*exec.Cmd, error) {
		command := exec.Command(unwrapped(path))
		command.Env = []string{
			"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + s.dir, "ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + ports[2],
			"RABBITMQ_NODENAME=forgequeue" + ports[0] + "@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + ports[0],
			"RABBITMQ_DIST_PORT=" + ports[1], "RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "mnesia"), "RABBITMQ_LOG_BASE=" + filepath.Join(s.dir, "log"),
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(s.dir, "plugins"), "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(s.dir, "env"),
			"RABBITMQ_CONFIG_FILE=" + filepath.Join(s.dir, "rabbitmq"), "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + erlang,
		}
		return command, nil
	}
	conf := fmt.Sprintf(rabbitConf, s.Address)
	if c != nil {
		secure, _, err := s.address()
		if err != nil {
			return nil, err
		}
		s.TLSAddress = secure
		conf += fmt.Sprintf(rabbitTLS, secure, c.File, c.Key)
	}
	return made(s, func(dir string) error {
		for name, content := range map[string]string{"rabbitmq.conf": conf, "plugins": "[].\n", "env": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				return err
			}
		}
		return s.startEPMD(ports[2])
	})
}

// startEPMD starts the port mapper, which Erlang would otherwise start for the whole machine and leave behind.
func (s *Server) startEPMD(port string) error {
	command := exec.Command("epmd", "-address", "127.0.0.1", "-port", port)
	command.Dir, command.Stdout, command.Stderr = s.dir, s.output, s.output
	started, err := child.Start(command, syscall.SIGKILL)
	if err != nil {
		return err
	}
	s.beside = func() {
		_ = command.Process.Kill()
		<-started.Ended()
	}
	return nil
}

// unwrapped is the server's own script: Debian's wrapper runs it as a user of the machine, in its folders.
func unwrapped(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		own := filepath.Join(filepath.Dir(resolved), string(rabbitMQ))
		if _, err := os.Stat(own); err == nil {
			return own
		}
	}
	return path
}
