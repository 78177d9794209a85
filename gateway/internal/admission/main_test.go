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

// redisDial is where go-redis looks, a second at a time, whether Redis is back; it ends when it then finds its
// client closed.
const redisDial = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(withStores{m}, goleak.IgnoreAnyFunction(redisDial))
}
