package observability_test

import (
	"os"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

func TestMain(m *testing.M) { os.Exit(stack.Main(m)) }
