package conformance_test

import (
	"os"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// driverEnv makes this test binary the driver of the Go client.
const driverEnv = "FORGEQUEUE_CONFORMANCE_DRIVER"

func TestMain(m *testing.M) {
	if os.Getenv(driverEnv) != "" {
		drive(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	os.Exit(stack.Main(m))
}
