//go:build race

package stack

// raceEnabled: this binary, and so the program under test, has the race detector.
const raceEnabled = true
