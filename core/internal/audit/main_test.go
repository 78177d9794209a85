package audit_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/queue/queuetest"
)

func TestMain(m *testing.M) { queuetest.Main(m) }
