package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// ours is ForgeQueue with callers and a worker of the Go SDK, in this process.
type ours struct {
	*stack
	loader  *loader
	client  *client.Client
	stopped func()
}

// slots is how many jobs a worker of either side runs at once.
const slots = 1000

func startOurs(ctx context.Context, m *machine) (_ server, err error) {
	s, err := startStack(ctx, m, false)
	if err != nil {
		return nil, err
	}
	o := &ours{stack: s, stopped: func() {}}
	defer func() {
		if err != nil {
			o.stop()
		}
	}()
	if o.client, err = s.tenant(ctx, "servers"); err != nil {
		return nil, err
	}
	o.loader = &loader{submit: o.submit, batch: o.batch}
	w, err := worker.New(worker.Options{Client: o.client, Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	worker.Handle(w, "noop", func(_ context.Context, job *worker.Job[numbered]) (numbered, error) {
		o.loader.started(job.Payload.N)
		return job.Payload, nil
	})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(running) // what it does not do, the loader misses
	}()
	o.stopped = func() {
		stop()
		<-ended
	}
	return o, nil
}

// numbered is a job's payload and its result, as the peer's.
type numbered struct {
	N int `json:"n"`
}

func request(n int) api.SubmitRequest {
	return api.SubmitRequest{Type: "noop", Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

func (o *ours) submit(ctx context.Context, n int) error {
	_, err := o.client.Submit(ctx, request(n))
	return err
}

func (o *ours) batch(ctx context.Context, from, end int) error {
	var batch api.BatchRequest
	for n := from; n < end; n++ {
		batch.Jobs = append(batch.Jobs, request(n))
	}
	answer, err := o.client.SubmitBatch(ctx, batch)
	for _, result := range answer.Results {
		if result.Problem != nil {
			err = errors.Join(err, result.Problem)
		}
	}
	return err
}

func (o *ours) load(ctx context.Context, what order) (loaded, error) {
	done := o.loader.do(ctx, what)
	if done.Error != "" {
		return done, errors.New(done.Error)
	}
	return done, nil
}

func (o *ours) processes() []int { return []int{o.core.Process.Pid, o.gateway.Process.Pid} }

func (o *ours) broker() int {
	if o.m.redis == nil {
		return 0
	}
	return o.m.redis.Pid()
}

func (o *ours) database() string { return o.stack.database }

func (o *ours) crash() {
	end(syscall.SIGKILL, o.gateway)
	end(syscall.SIGKILL, o.core)
}

func (o *ours) stop() {
	o.stopped()
	if o.client != nil {
		o.client.CloseIdleConnections()
	}
	o.stack.stop()
}
