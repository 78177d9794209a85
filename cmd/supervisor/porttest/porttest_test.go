package porttest_test

import (
	"net"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
)

// An address is one test's alone until that ends, although nobody listens on it yet.
func TestAddressIsHeld(t *testing.T) {
	t.Parallel()
	var address string
	take := func(t *testing.T, free bool) {
		t.Helper()
		held, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", address)
		if (err == nil) != free {
			t.Errorf("taken by another one: %v, want %v", err == nil, free)
		}
		if err == nil {
			_ = held.Close()
		}
	}
	t.Run("a test", func(t *testing.T) { //nolint:paralleltest // the next part is after its end
		address = porttest.Address(t)
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		take(t, false)
	})
	take(t, true)
}
