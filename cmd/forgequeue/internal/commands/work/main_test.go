package work_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
)

func TestMain(m *testing.M) { commandtest.Main(m, brokertest.Stop) }
