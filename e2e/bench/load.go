package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// This file is also compiled into testdata/hatchet, so that all servers are loaded in the same way. It imports the
// standard library alone.

// loader loads a server through a Go SDK of its own, and has a worker of that SDK in the same process.
type loader struct {
	// submit queues job n; batch the jobs from to before end.
	submit func(ctx context.Context, n int) error
	batch  func(ctx context.Context, from, end int) error

	next atomic.Int64 // number of the next job
	mu   sync.Mutex
	// from is the first job of the order under way; starts are when its jobs were started first.
	from   int
	starts map[int]time.Time
}

// order is what a loader is asked to do.
type order struct {
	// Do is first (submit until one is accepted, and wait for its start), single, batches or idle.
	Do string `json:"do"`
	// Jobs is how many, of first, batches and idle; For is how long single submits.
	Jobs int           `json:"jobs"`
	For  time.Duration `json:"for"`
}

// loaded is what came of an order.
type loaded struct {
	// Jobs were done in Seconds, from the first submit to the start of the last.
	Jobs    int     `json:"jobs"`
	Seconds float64 `json:"seconds"`
	// Start and Answered are the medians, in milliseconds, from a submit and from its answer to the start, of idle.
	Start    float64 `json:"start_ms"`
	Answered float64 `json:"answered_ms"`
	// Failed jobs were refused, such as by Example. Error is why the order ended early.
	Failed  int    `json:"failed"`
	Example string `json:"example"`
	Error   string `json:"error"`
}

const (
	singleCallers = 64
	batchCallers  = 4
	batchJobs     = 500
	// finishTime is how long accepted jobs may take to start; tryTime how long a submit of first may take.
	finishTime = 150 * time.Second
	tryTime    = 5 * time.Second
	idleGap    = 25 * time.Millisecond
)

// started is called by the worker's handler for each job that it gets.
func (l *loader) started(n int) {
	at := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.starts[n]; n >= l.from && !again {
		l.starts[n] = at
	}
}

// serve answers orders until there are no more.
func (l *loader) serve(ctx context.Context, orders io.Reader, answers io.Writer) error {
	in, out := json.NewDecoder(orders), json.NewEncoder(answers)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(l.do(ctx, o)); err != nil {
			return err
		}
	}
}

func (l *loader) do(ctx context.Context, o order) loaded {
	l.mu.Lock()
	l.from, l.starts = int(l.next.Load()), map[int]time.Time{}
	l.mu.Unlock()
	begun := time.Now()
	var done loaded
	var err error
	switch o.Do {
	case "first":
		err = l.first(ctx, o.Jobs)
	case "single":
		done.Failed, done.Example, err = l.together(ctx, singleCallers, 1, func(int) bool { return time.Since(begun) < o.For })
	case "batches":
		done.Failed, done.Example, err = l.together(ctx, batchCallers, batchJobs, func(from int) bool { return from < o.Jobs })
	case "idle":
		done.Start, done.Answered, err = l.idle(ctx, o.Jobs)
	default:
		err = fmt.Errorf("no such order: %q", o.Do)
	}
	done.Jobs, done.Seconds = l.count(), time.Since(begun).Seconds()
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

// first submits jobs one after the other, each until it is accepted, and waits for each one's start.
func (l *loader) first(ctx context.Context, jobs int) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	for range jobs {
		n := int(l.next.Add(1)) - 1
		for {
			try, end := context.WithTimeout(ctx, tryTime)
			err := l.submit(try, n)
			end()
			if err == nil {
				break
			}
			if pause(ctx, idleGap) != nil {
				return fmt.Errorf("no submit was accepted: %w", err)
			}
		}
		if _, err := l.await(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// together submits from several callers while more says so, and waits until all that was accepted has started.
func (l *loader) together(ctx context.Context, callers, size int, more func(from int) bool) (failed int, example string, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex // of failed and example
	first := int(l.next.Load())
	for range callers {
		group.Go(func() {
			for ctx.Err() == nil && more(int(l.next.Load())-first) {
				from := int(l.next.Add(int64(size))) - size
				if err := l.some(ctx, from, size); err != nil {
					mu.Lock()
					failed, example = failed+size, err.Error()
					mu.Unlock()
					_ = pause(ctx, idleGap)
				}
			}
		})
	}
	group.Wait()
	accepted := int(l.next.Load()) - first - failed
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	for l.count() < accepted {
		if pause(ctx, 2*time.Millisecond) != nil {
			return failed, example, fmt.Errorf("%d of %d jobs had started after %v", l.count(), accepted, finishTime)
		}
	}
	if accepted == 0 {
		return failed, example, errors.New("every submit failed, such as by: " + example)
	}
	return failed, example, nil
}

// some submits jobs from a number on.
func (l *loader) some(ctx context.Context, from, size int) error {
	if size == 1 {
		return l.submit(ctx, from)
	}
	return l.batch(ctx, from, from+size)
}

// idle submits one job at a time.
func (l *loader) idle(ctx context.Context, jobs int) (start, answered float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	var starts, answers []time.Duration
	for range jobs {
		n, begun := int(l.next.Add(1))-1, time.Now()
		if err := l.submit(ctx, n); err != nil {
			return 0, 0, err
		}
		answer := time.Now()
		at, err := l.await(ctx, n)
		if err != nil {
			return 0, 0, err
		}
		starts, answers = append(starts, at.Sub(begun)), append(answers, at.Sub(answer))
		if err := pause(ctx, idleGap); err != nil {
			return 0, 0, err
		}
	}
	middle := func(of []time.Duration) float64 {
		slices.Sort(of)
		return float64(of[len(of)/2]) / float64(time.Millisecond)
	}
	return middle(starts), middle(answers), nil
}

// await waits for the start of a job, and says when it was.
func (l *loader) await(ctx context.Context, n int) (time.Time, error) {
	for {
		l.mu.Lock()
		at, ok := l.starts[n]
		l.mu.Unlock()
		if ok {
			return at, nil
		}
		if pause(ctx, time.Millisecond) != nil {
			return at, fmt.Errorf("an accepted job had not started after %v", finishTime)
		}
	}
}

// count is how many jobs of the order have started.
func (l *loader) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.starts)
}

func pause(ctx context.Context, during time.Duration) error {
	timer := time.NewTimer(during)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
