package worker

import (
	"slices"
	"sync"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Then has jobs submitted when this one is completed or waits: in the same transaction, so each is there exactly once if the attempt's
// result or wait is accepted, and not at all if it is not, for example because the attempt fails or its lease is lost. At most 100 of an
// attempt. They need a key with the scope submit.
//
// If one is refused as wrong, the attempt fails permanently with an error of type "submit". While a limit or a cap refuses them (429),
// the attempt stays, with its lease renewed, and is sent again.
func (i *Info) Then(jobs ...api.SubmitRequest) {
	if i.then != nil {
		i.then.add(jobs)
	}
}

// then are the jobs that an attempt submits with its result or wait.
type then struct {
	mu   sync.Mutex
	jobs []api.SubmitRequest
}

func (t *then) add(jobs []api.SubmitRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = append(t.jobs, jobs...)
}

func (t *then) all() []api.SubmitRequest {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.jobs)
}
