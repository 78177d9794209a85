package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// ThenSignal has a signal of another job sent when this one is completed or waits: in the same transaction, as the jobs of Then are.
// At most 16 of an attempt. data is written as JSON, of at most 64 KiB; nil is none. An error says that it cannot be: then it is not
// sent. The key needs the scope submit.
//
// If the signal is refused, as that of a job that has ended is, the attempt fails permanently with an error of type "signal".
func (i *Info) ThenSignal(jobID, name string, data any) error {
	signal := api.OutcomeSignal{JobID: jobID, Name: name}
	if data != nil {
		text, err := json.Marshal(data)
		if err == nil && len(text) > api.MaxSignalData {
			err = fmt.Errorf("has %d bytes as JSON, and may have %d", len(text), api.MaxSignalData)
		}
		if err != nil {
			return fmt.Errorf("worker: the data of signal %q %w", name, err)
		}
		signal.Data = text
	}
	if i.signals != nil {
		i.signals.add(signal)
	}
	return nil
}

// signals are those of other jobs that an attempt sends with its outcome.
type signals struct {
	mu   sync.Mutex
	sent []api.OutcomeSignal
}

func (s *signals) add(one api.OutcomeSignal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, one)
}

func (s *signals) all() []api.OutcomeSignal {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}
