// Package porttest finds addresses on loopback for servers that tests start, and stop and start again.
package porttest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// The ports are below the range from which systems take those of outgoing connections and of listeners at port 0: nobody gets one
// while its server is not there yet, or is down.
const (
	first = 12_000
	count = 18_000
)

// next makes the tests of a process begin at different ports.
var next atomic.Int64

// Held is an address that nobody listens on. Nobody else who holds addresses gets it until it is released, in other processes neither:
// the port of the same number is held for UDP, which no server of the tests uses.
type Held struct {
	Address string
	held    net.PacketConn
}

// Hold finds one.
func Hold() (Held, error) {
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+(os.Getpid()*37+int(next.Add(1)))%count))
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = listener.Close()
		return Held{address, held}, nil
	}
	return Held{}, errors.New("porttest: no free port")
}

// Port is the address's.
func (h Held) Port() string { return Port(h.Address) }

// Release lets others have the address.
func (h Held) Release() { _ = h.held.Close() }

// Address gives one that is held until the test ends.
func Address(tb testing.TB) string {
	tb.Helper()
	held, err := Hold()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(held.Release)
	return held.Address
}

// Port is the port of an address.
func Port(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(fmt.Sprintf("porttest: %q is no address: %v", address, err)) // Hold made it
	}
	return port
}
