package brokertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// natsConf is a server that has stored what it confirms.
const natsConf = `
listen: %q
server_name: forgequeue-test
jetstream { store_dir: %q, max_file_store: 1G, max_memory_store: 64M }
`

const natsTLS = `tls { cert_file: %q, key_file: %q }
`

func startNATS(path string, c *Certificate) (*Server, error) {
	s := &Server{greets: func(conn net.Conn) bool {
		greeting := make([]byte, 5)
		n, err := conn.Read(greeting)
		return err == nil && string(greeting[:n]) == "INFO "
	}}
	address, _, err := s.address()
	if err != nil {
		return nil, err
	}
	s.Address = address
	s.start = func(s *Server) (*exec.Cmd, error) {
		return exec.Command(path, "-c", filepath.Join(s.dir, "nats.conf")), nil
	}
	return made(s, func(dir string) error {
		conf := fmt.Appendf(nil, natsConf, address, filepath.Join(dir, "store"))
		if c != nil {
			s.TLSAddress, conf = address, fmt.Appendf(conf, natsTLS, c.File, c.Key)
		}
		return os.WriteFile(filepath.Join(dir, "nats.conf"), conf, 0o600)
	})
}
