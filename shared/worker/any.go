package worker

import "errors"

// anyType is the key of the handler for all other types; no job can have it.
const anyType = ""

// HandleAny says what to do with jobs of every type that has no handler of its
// own, which would otherwise be put back for UnknownTypeDelay. It is for workers
// that pass jobs on, whatever they are: fn gets the payload as it was sent. It is
// given before Run, once; what is wrong with it, Run says.
func (w *Worker) HandleAny(fn HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.started:
		w.fault("the handler for any type came after Run")
		w.logger.Error("a handler given after Run is not used", "type", "any")
	case fn == nil:
		w.fault("the handler for any type is nil")
	case w.handlers[anyType] != nil:
		w.fault("there are two handlers for any type")
	default:
		w.handlers[anyType] = fn
	}
}

// fault keeps what is wrong for Run to say. The caller holds w.mu.
func (w *Worker) fault(text string) {
	w.faults = append(w.faults, errors.New("worker: "+text))
}

// handlerFor gives the handler of a type, else the one for any, else nil.
func handlerFor(handlers map[string]HandlerFunc, jobType string) HandlerFunc {
	if handler := handlers[jobType]; handler != nil {
		return handler
	}
	return handlers[anyType]
}
