package mask_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

func TestMain(m *testing.M) { celltest.Main(m) }
