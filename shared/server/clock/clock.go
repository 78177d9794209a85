// Package clock is the wall clock of gateway and core, where they must look at
// one: to sign and to check the time of a signature, and to tell whether a key has
// expired. What happens to jobs is decided by PostgreSQL's clock, and lengths are
// measured by the monotonic one. The end-to-end tests put another file in its place,
// see e2e/stack/testdata.
package clock

import "time"

// Now is the wall clock's time.
func Now() time.Time { return time.Now() }
