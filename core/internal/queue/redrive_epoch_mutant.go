//go:build mutant_redrive_epoch

package queue

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// A redrive begins the epochs anew.
const risenEpoch = `0`
