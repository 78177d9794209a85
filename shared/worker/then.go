package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Then has jobs submitted when this one is completed or waits: in the same transaction, so each is there exactly once if the attempt's
// result or wait is accepted, and not at all if it is not, for example because the attempt fails or its lease is lost. At most 100 of an
// attempt. They need a key with the scope submit.
//
// If one is refused, as wrong or because a live job has its dedupe key, the attempt fails permanently with an error of type "submit".
// While a limit or a cap refuses them (429), the attempt stays, with its lease renewed, and is sent again.
func (i *Info) Then(jobs ...api.SubmitRequest) {
	if i.then != nil {
		i.then.add(jobs)
	}
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
	if i.then != nil {
		i.then.signal(signal)
	}
	return nil
}

// then are the jobs that an attempt submits with its result or wait, and the signals that it sends.
type then struct {
	mu      sync.Mutex
	jobs    []api.SubmitRequest
	signals []api.OutcomeSignal
}

func (t *then) add(jobs []api.SubmitRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = append(t.jobs, jobs...)
}

func (t *then) signal(one api.OutcomeSignal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.signals = append(t.signals, one)
}

func (t *then) all() ([]api.SubmitRequest, []api.OutcomeSignal) {
	if t == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.jobs), slices.Clone(t.signals)
}
