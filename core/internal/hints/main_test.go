package hints_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

func TestMain(m *testing.M) {
	code := storetest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
