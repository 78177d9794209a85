package faults_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

func TestMain(m *testing.M) {
	if os.Getenv(planEnv) != "" {
		os.Exit(planProcess())
	}
	flag.Parse()
	if err := atOnce(); err != nil {
		panic(err)
	}
	os.Exit(stack.Main(m))
}

// atOnce lets more tests run at once than there are processors, unless -parallel says how many: most of them
// wait, for a lease to end, a timeout, a promotion. Their clusters share a PostgreSQL, hence most. In the long lane
// some measure speeds.
func atOnce() error {
	const most = 8
	given := inLongLane()
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(min(most, 2*runtime.GOMAXPROCS(0))))
}
