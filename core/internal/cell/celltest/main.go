package celltest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// redisDial is where go-redis looks, a second at a time, whether Redis is back; it ends when it then finds its
// client closed.
const redisDial = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// Main runs a package's tests with the stores, and fails them on a leaked goroutine.
func Main(m *testing.M) {
	code := storetest.Main(m)
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction(redisDial)); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
