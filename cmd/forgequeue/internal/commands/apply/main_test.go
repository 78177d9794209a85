package apply_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m) }
