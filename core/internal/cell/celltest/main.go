package celltest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// leakLooks is how often goroutines are looked for that are left; a look takes half a second. What ends meanwhile is no
// leak: go-redis sleeps for a second before it finds that its client was closed.
const leakLooks = 10

// Main runs a package's tests with the stores, calls stops, and fails them on a leaked goroutine.
func Main(m *testing.M, stops ...func()) {
	code := storetest.Main(m)
	for _, stop := range stops {
		stop()
	}
	for look := 1; code == 0; look++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if look == leakLooks {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
