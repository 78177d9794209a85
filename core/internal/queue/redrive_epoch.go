//go:build !mutant_redrive_epoch

package queue

// risenEpoch is the epoch of a redriven job: it goes on, so that no lease of the
// life before can ever be mistaken for one of this life (D2).
const risenEpoch = `epoch`
