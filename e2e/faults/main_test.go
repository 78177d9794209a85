package faults_test

import (
	"os"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

func TestMain(m *testing.M) {
	if os.Getenv(planEnv) != "" {
		os.Exit(planProcess())
	}
	os.Exit(stack.Main(m))
}
