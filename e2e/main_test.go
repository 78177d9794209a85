package e2e_test

import (
	"os"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(workerProcess())
	}
	if os.Getenv(quietEnv) != "" {
		os.Exit(quietProcess())
	}
	os.Exit(stack.Main(m))
}
