package celltest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// Main runs a package's tests with the stores, and fails them on a leaked goroutine.
func Main(m *testing.M) {
	code := storetest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
