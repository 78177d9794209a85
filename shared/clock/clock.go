//go:build !fault_clock

// Package clock is the wall clock of gateway and core, where they must look at
// one: to sign and to check the time of a signature, and to tell whether a key has
// expired. What happens to jobs is decided by PostgreSQL's clock, and lengths are
// measured by the monotonic one.
//
// Built with the tag fault_clock it can be set wrong, so that tests can show that
// none of it matters.
package clock

import "time"

// Now is the wall clock's time.
func Now() time.Time { return time.Now() }
