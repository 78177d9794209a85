package worker

import (
	"errors"
	"maps"
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
)

// anyType is the key of the handler for all other types; no job can have it.
const anyType = ""

// HandleAny sets the handler of jobs of every type that has no handler of its
// own, which the worker would otherwise not claim. It is for workers that pass on jobs of any type: fn gets the payload as it was sent. It is called
// before Run, once; Run returns what is wrong with it.
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

// fault stores an error for Run to return. The caller holds w.mu.
func (w *Worker) fault(text string) {
	w.faults = append(w.faults, errors.New("worker: "+text))
}

// typesOf gives the types to claim: those that have a handler, sorted. It is nil,
// which claims all types, with a handler for any type, or with more handlers than a
// claim can name.
func typesOf(handlers map[string]HandlerFunc) []string {
	if handlers[anyType] != nil || len(handlers) > api.MaxTypesPerCall {
		return nil
	}
	return slices.Sorted(maps.Keys(handlers))
}

// handlerFor gives the handler of a type, else the one for any, else nil.
func handlerFor(handlers map[string]HandlerFunc, jobType string) HandlerFunc {
	if handler := handlers[jobType]; handler != nil {
		return handler
	}
	return handlers[anyType]
}
