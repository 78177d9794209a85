package admission_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// withStores runs the tests with real stores, and looks for leaks once these
// have been stopped.
type withStores struct{ *testing.M }

func (s withStores) Run() int { return storetest.Main(s.M) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(withStores{m}) }
