package outbox

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

// listenAgain is the wait before the next try to listen; the poll goes on meanwhile.
const listenAgain = time.Second

// listen wakes senders when a transaction with rows commits. It keeps a connection.
func (r *Relay) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.listenOnce(ctx); err != nil {
			r.failure(ctx, "listen", err)
		}
		_ = wait.About(ctx, listenAgain)
	}
}

func (r *Relay) listenOnce(ctx context.Context) error {
	pooled, err := r.o.Table.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack() // it listens: nobody else should get it
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it is given up in any case
	}()
	if _, err := conn.Exec(ctx, `LISTEN forgequeue_outbox`); err != nil {
		return err
	}
	r.wake() // for what committed before
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
		r.wake()
	}
}
