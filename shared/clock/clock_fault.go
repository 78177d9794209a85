//go:build fault_clock

// Package clock is the wall clock of gateway and core; here it goes wrong. Never
// built into a program that is released.
package clock

import (
	"os"
	"sync"
	"time"
)

// FaultEnv is how far the clock is ahead, a duration such as -1h.
const FaultEnv = "FORGEQUEUE_FAULT_CLOCK"

var ahead = sync.OnceValue(func() time.Duration {
	d, err := time.ParseDuration(os.Getenv(FaultEnv))
	if err != nil && os.Getenv(FaultEnv) != "" {
		panic(FaultEnv + ": " + err.Error())
	}
	return d
})

// Now is the wall clock's time, as wrong as it was set.
func Now() time.Time { return time.Now().Add(ahead()) }
