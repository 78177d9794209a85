package push_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

func TestMain(m *testing.M) { celltest.Main(m, brokertest.Stop) }
