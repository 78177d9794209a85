// Package clock takes the place of shared/server/clock in the program that the end-to-end
// tests run: it goes wrong by FORGEQUEUE_FAULT_CLOCK, a duration such as -1h.
package clock

import (
	"os"
	"sync"
	"time"
)

//nolint:gochecknoglobals // one clock for the process
var ahead = sync.OnceValue(func() time.Duration {
	given := os.Getenv("FORGEQUEUE_FAULT_CLOCK")
	d, err := time.ParseDuration(given)
	if err != nil && given != "" {
		panic("FORGEQUEUE_FAULT_CLOCK: " + err.Error())
	}
	return d
})

// Now is the wall clock's time, as wrong as it was set.
func Now() time.Time { return time.Now().Add(ahead()) }
