package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// grace is how long requests may go on when the bridge is told to stop.
	grace = 5 * time.Second
	// settleTime bounds the acks after that.
	settleTime = 5 * time.Second
	// A lost source is opened again after a pause that doubles.
	leastPause, mostPause = time.Second, 30 * time.Second
)

// MaxPrefetch is the most messages that a bridge may hold.
const MaxPrefetch = 1000

// Options are what a Bridge needs.
type Options struct {
	// From is the source's URL, see Parse.
	From   *Source
	Client *client.Client
	// Queue is that of the jobs. Type is theirs; empty takes that of an AMQP message, or DefaultType.
	Queue, Type string
	// Prefetch is how many messages are held at once, at most.
	Prefetch int
	Logger   *slog.Logger
}

// Bridge moves messages.
type Bridge struct {
	options Options
	log     *slog.Logger

	submitted, refused atomic.Int64
}

// New makes one; Run works.
func New(o Options) *Bridge { return &Bridge{options: o, log: o.Logger} }

// message is one of a source.
type message struct {
	// id is empty where the source has given none.
	id, jobType string
	body        []byte
	// Messages of a group are submitted in order; an empty one is of no group.
	group string
	// receipt is the source's own.
	receipt any
}

// source is an open connection to where messages come from. Its methods may be called at the same time.
type source interface {
	// take waits for messages and gives at most n. An error means that the source is lost, or that ctx has ended.
	take(ctx context.Context, n int) ([]*message, error)
	// accept removes a message, reject removes it for good or leaves it to the source's policy for such messages,
	// giveBack makes it available to others.
	accept(ctx context.Context, m *message) error
	reject(ctx context.Context, m *message) error
	giveBack(ctx context.Context, m *message) error
	// hold keeps a message from others for longer.
	hold(ctx context.Context, m *message) error
	close(ctx context.Context)
}

// Run moves messages until ctx ends. Then requests under way have five seconds to end, and the messages of the others
// are given back. An error means that the source could not be opened at first; later that is tried again.
func (b *Bridge) Run(ctx context.Context) error {
	opened, err := b.options.From.open(ctx, b.options.Prefetch)
	switch {
	case ctx.Err() != nil:
		if opened != nil {
			opened.close(ctx)
		}
		return nil
	case err != nil:
		return fmt.Errorf("the source cannot be opened: %w", err)
	}
	b.log.InfoContext(ctx, "bridge running", "from", b.options.From.String(), "queue", b.options.Queue)
	for pause := leastPause; ; {
		if err := b.serve(ctx, opened); err != nil {
			b.log.WarnContext(ctx, "the source is lost; it is opened again", "error", err)
		} else {
			break
		}
		for opened = nil; opened == nil && ctx.Err() == nil; {
			if wait.About(ctx, pause) != nil {
				break
			}
			if opened, err = b.options.From.open(ctx, b.options.Prefetch); err != nil {
				b.log.WarnContext(ctx, "the source cannot be opened; it is tried again", "error", err)
				pause = min(2*pause, mostPause)
				opened = nil
			}
		}
		if opened == nil {
			break
		}
		pause = leastPause
	}
	b.log.InfoContext(ctx, "bridge stopped", "submitted", b.submitted.Load(), "refused", b.refused.Load())
	return nil
}

// serve moves messages until ctx ends, or the source is lost.
func (b *Bridge) serve(ctx context.Context, from source) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	free := make(chan struct{}, b.options.Prefetch)
	var group sync.WaitGroup
	err := b.takeAll(ctx, from, free, func(lane []*message) {
		group.Go(func() {
			b.deliver(working, from, lane)
			for range lane {
				<-free
			}
		})
	})
	if ctx.Err() == nil {
		stop() // acks would be lost: the messages come again
	}
	late := time.AfterFunc(grace, stop)
	group.Wait()
	late.Stop()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	from.close(closing)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// takeAll takes messages as places are free, and starts a lane for each group, or for each message of none.
func (b *Bridge) takeAll(ctx context.Context, from source, free chan struct{}, start func(lane []*message)) error {
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		messages, err := from.take(ctx, cap(free)-len(free)+1)
		for i := range messages {
			if i > 0 {
				free <- struct{}{}
			}
		}
		if len(messages) == 0 {
			<-free
		}
		for _, lane := range lanes(messages) {
			start(lane)
		}
		if err != nil {
			return err
		}
	}
}

// lanes are the messages of each group in order, and each message of none alone.
func lanes(messages []*message) [][]*message {
	var all [][]*message
	byGroup := map[string]int{}
	for _, m := range messages {
		at, known := byGroup[m.group]
		if m.group == "" || !known {
			byGroup[m.group] = len(all)
			all = append(all, []*message{m})
			continue
		}
		all[at] = append(all[at], m)
	}
	return all
}

// deliver submits messages one after the other. After one that was not accepted the others are given back: they must
// not overtake it.
func (b *Bridge) deliver(ctx context.Context, from source, lane []*message) {
	settle := context.WithoutCancel(ctx)
	for i, m := range lane {
		outcome := b.submit(ctx, from, m)
		settling, cancel := context.WithTimeout(settle, settleTime)
		var err error
		switch outcome {
		case accepted:
			b.submitted.Add(1)
			err = from.accept(settling, m)
		case refused:
			b.refused.Add(1)
			err = from.reject(settling, m)
		case stopped:
			err = from.giveBack(settling, m)
		}
		if err != nil {
			b.log.WarnContext(ctx, "a message could not be settled; it comes again", "message", m.id, "error", err)
		}
		if outcome != accepted {
			for _, behind := range lane[i+1:] {
				_ = from.giveBack(settling, behind)
			}
			cancel()
			return
		}
		cancel()
	}
}
