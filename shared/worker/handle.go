package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// HandlerFunc is a handler before its types are known: the payload in, the
// result out, both as JSON. Middleware is made of it.
type HandlerFunc func(ctx context.Context, job *RawJob) (json.RawMessage, error)

// Handle sets the handler of jobs of a type. fn gets the payload decoded into an
// In; members that In does not have are ignored. Its result is sent as JSON, at
// most 256 KiB. Handle is called before Run, once for each type; Run returns what
// is wrong with the handlers.
func Handle[In, Out any](
	w *Worker, jobType string, fn func(ctx context.Context, job *Job[In]) (Out, error), options ...HandlerOption,
) {
	if fn == nil {
		w.handle(jobType, nil, options)
		return
	}
	w.handle(jobType, func(ctx context.Context, raw *RawJob) (json.RawMessage, error) {
		job := &Job[In]{Info: raw.Info}
		if err := decodePayload(raw.Payload, &job.Payload); err != nil {
			return nil, err
		}
		result, err := fn(ctx, job)
		if err != nil {
			return nil, err
		}
		return encodeResult(result)
	}, options)
}

// Add is Handle for arguments that name the type of their jobs, as the producer's
// [client.Submit] takes them:
//
//	worker.Add(w, SendEmail, worker.WithTimeout(time.Minute), worker.WithConcurrency(4))
//
//	func SendEmail(ctx context.Context, job *worker.Job[Email]) (Receipt, error)
func Add[In client.JobArgs, Out any](w *Worker, fn func(ctx context.Context, job *Job[In]) (Out, error), options ...HandlerOption) {
	jobType, err := typeOf[In]()
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fault(err.Error())
		return
	}
	Handle(w, jobType, fn, options...)
}

// typeOf gives the type that arguments name.
func typeOf[In client.JobArgs]() (jobType string, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("JobType of the zero value of %v panics: %v", reflect.TypeFor[In](), value)
		}
	}()
	var zero In
	return zero.JobType(), nil
}

// Use wraps every handler, those given before and those to come. The first
// middleware is the outermost; it runs inside the goroutine of the handler, and
// its panics are the handler's.
func (w *Worker) Use(middleware func(next HandlerFunc) HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if middleware == nil {
		w.faults = append(w.faults, fmt.Errorf("worker: a middleware is nil"))
		return
	}
	w.middleware = append(w.middleware, middleware)
}

func (w *Worker) handle(jobType string, handler HandlerFunc, options []HandlerOption) {
	own, err := applied(options)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.started:
		w.faults = append(w.faults, fmt.Errorf("worker: the handler for %q came after Run", jobType))
		w.logger.Error("a handler given after Run is not used", "type", jobType)
	case !api.ValidName(jobType):
		w.faults = append(w.faults, fmt.Errorf("worker: %q cannot be a job's type", jobType))
	case handler == nil:
		w.faults = append(w.faults, fmt.Errorf("worker: the handler for %q is nil", jobType))
	case w.handlers[jobType] != nil:
		w.faults = append(w.faults, fmt.Errorf("worker: %q has two handlers", jobType))
	case err != nil:
		w.faults = append(w.faults, fmt.Errorf("worker: the handler for %q: %w", jobType, err))
	default:
		w.handlers[jobType], w.options[jobType] = handler, own
	}
}

// wrapped gives the handlers with all middleware around them.
func (w *Worker) wrapped() map[string]HandlerFunc {
	all := make(map[string]HandlerFunc, len(w.handlers))
	for jobType, handler := range w.handlers {
		for _, v := range slices.Backward(w.middleware) {
			handler = v(handler)
		}
		all[jobType] = handler
	}
	return all
}

// decodePayload fails permanently: a retry would fail on the same payload.
func decodePayload(payload json.RawMessage, into any) error {
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	if err := json.Unmarshal(payload, into); err != nil {
		return Permanent(&kindError{"payload", fmt.Errorf("the payload does not fit the handler: %w", err)})
	}
	return nil
}

// encodeResult does not escape <, > and &: they take one byte of the limit instead
// of six.
func encodeResult(result any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(result); err != nil {
		return nil, resultError(fmt.Errorf("the result cannot be written as JSON: %w", err))
	}
	encoded := bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	if len(encoded) > api.MaxResult {
		return nil, resultError(fmt.Errorf("the result has %d bytes, and %d are allowed", len(encoded), api.MaxResult))
	}
	return encoded, nil
}

// resultError fails permanently: the work was done, and a retry would have the same
// result.
func resultError(err error) error { return Permanent(&kindError{"result", err}) }
