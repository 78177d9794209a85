// Package faults holds running clusters to e2e/invariants while they are killed, paused,
// cut off and overloaded. `go test` takes a sample, `make faults` is the whole.
package faults
