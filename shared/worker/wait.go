package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Wait returned as a handler's error has the job wait for any of some signals, at most 16, for at most d, and 366 days. Without
// signals it sleeps for d. It holds no lease and no slot meanwhile, and no attempt is spent. When a signal comes, or the time is up,
// the job is run again from the beginning: Signal and WokenBy say what has come, and Restore gives the last Checkpoint.
//
//	if job.WokenBy == "" { // not yet asked
//		if err := ask(ctx, job.ID); err != nil {
//			return nil, err
//		}
//		return nil, worker.Wait(7*24*time.Hour, "approved", "rejected")
//	}
//
// A signal that came before ends the wait at once, so none is missed. Jobs and signals of Then and ThenSignal are sent with the wait,
// and the checkpoint as well: all of it is stored, or nothing.
func Wait(d time.Duration, signals ...string) error {
	return &waitError{min(max(d, 0), api.MaxDelay), slices.Clone(signals), false}
}

// WaitAll is Wait for all of the signals.
func WaitAll(d time.Duration, signals ...string) error {
	return &waitError{min(max(d, 0), api.MaxDelay), slices.Clone(signals), true}
}

type waitError struct {
	timeout time.Duration
	signals []string
	all     bool
}

func (e *waitError) Error() string {
	if len(e.signals) == 0 {
		return fmt.Sprintf("sleeps for %v", e.timeout)
	}
	word := " or "
	if e.all {
		word = " and "
	}
	return fmt.Sprintf("waits for %s, at most %v", strings.Join(e.signals, word), e.timeout)
}

// mode is the wait's mode as it is sent; empty for the default.
func (e *waitError) mode() string {
	if e.all {
		return api.WaitAll
	}
	return ""
}

// Signal reads the data of a signal of the job into value, which is a pointer, or nil for data that does not matter; false if the job
// has no signal of this name. Without data value stays as it is. An error says that the data is of another shape.
func (i *Info) Signal(name string, value any) (bool, error) {
	for _, signal := range i.Signals {
		if signal.Name != name {
			continue
		}
		if value == nil || len(signal.Data) == 0 || string(signal.Data) == "null" {
			return true, nil
		}
		if err := json.Unmarshal(signal.Data, value); err != nil {
			return true, fmt.Errorf("worker: the data of signal %q cannot be read: %w", name, err)
		}
		return true, nil
	}
	return false, nil
}
