package stack

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// FreeAddress is an address that nobody listens on, below the range from which
// the system takes ports for outgoing connections: nobody gets it while the
// service is down. No other test gets it until this one ends, in other processes
// neither: the port of the same number is held for UDP, which no service uses.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 12_000+(os.Getpid()*37+int(ports.Add(1)))%18_000)
		held, err := (&net.ListenConfig{}).ListenPacket(tb.Context(), "udp", address)
		if err != nil {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", address)
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = listener.Close()
		tb.Cleanup(func() { _ = held.Close() })
		return address
	}
	tb.Fatal("stack: no free port")
	return ""
}

//nolint:gochecknoglobals // tests of a process begin at different ports
var ports atomic.Int64
