//go:build race

package stack

// raceEnabled: this binary has the race detector.
const raceEnabled = true
