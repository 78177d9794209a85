package bucket_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }
