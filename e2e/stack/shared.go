package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// shared is the cluster of all tests of the process that need none of their own.
//
//nolint:gochecknoglobals // one for the process is the point of it
var shared struct {
	once    sync.Once
	cluster *Cluster
	process
}

// SharedCluster returns two cores and two gateways that run until the last test has ended. A test makes a
// tenant of its own there, and neither stops a service nor counts what others do.
func SharedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	shared.once.Do(func() {
		shared.TB = tb
		storetest.OnEnd(shared.end)
		settings := PushSettings()
		settings["FORGEQUEUE_MCP"] = "read"
		shared.cluster = NewCluster(&shared.process, ClusterOptions{Cores: 2, Gateways: 2, Settings: settings})
	})
	if shared.cluster == nil {
		tb.Fatal("stack: the shared cluster did not start")
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			shared.failed.Store(true)
		}
	})
	return shared.cluster
}

// Shared returns the first gateway of the shared cluster as an `up` of the test's own: with a new tenant.
func Shared(tb testing.TB) *Stack {
	tb.Helper()
	c := SharedCluster(tb)
	return &Stack{Ready: Ready{Gateway: c.Gateways[0].URL, APIKey: c.NewTenant(tb, tb.Name()).Key, OperatorKey: Operator, DatabaseURL: c.DatabaseURL}}
}

// process stands for a test where something ends with the process, not with the test that started it.
type process struct {
	testing.TB
	ends   []func()
	failed atomic.Bool
	errs   []error
}

// Cleanup has end called when all tests have ended.
func (p *process) Cleanup(end func()) { p.ends = append(p.ends, end) }

// Failed says whether a test that used it has failed.
func (p *process) Failed() bool { return p.failed.Load() }

// Logf writes to standard error.
func (p *process) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf is for Cleanup: there is no test any more that could fail.
func (p *process) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (p *process) end(context.Context) error {
	for _, end := range slices.Backward(p.ends) {
		end()
	}
	return errors.Join(p.errs...)
}
