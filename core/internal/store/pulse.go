package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pulseConnectTime bounds the connecting to one host: the next one is to be tried soon.
const pulseConnectTime = 2 * time.Second

// Pulse asks whether PostgreSQL answers, on a connection of its own: where the pool is exhausted by
// work, PostgreSQL still does. It is not safe for concurrent use.
type Pulse struct {
	config *pgx.ConnConfig
	// before puts the host first that was the primary; nil where there is one host.
	before func(context.Context, *pgx.ConnConfig) error
	conn   *pgx.Conn
}

// NewPulse makes a Pulse; it does not connect yet.
func (s *Store) NewPulse() *Pulse {
	config := s.pool.Config()
	config.ConnConfig.ConnectTimeout = pulseConnectTime
	return &Pulse{config: config.ConnConfig, before: config.BeforeConnect}
}

// Beat waits for an answer for at most as long as within, and where there is no connection yet for
// as long as it takes to try each host. After an error the next one makes a new connection.
func (p *Pulse) Beat(ctx context.Context, within time.Duration) error {
	if p.conn == nil {
		return p.connect(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := p.conn.Ping(ctx); err != nil {
		p.Close(ctx)
		return fmt.Errorf("store: pulse: %w", NotApplied(Classify(err)))
	}
	return nil
}

// connect is an answer too.
func (p *Pulse) connect(ctx context.Context) (err error) {
	config := p.config.Copy()
	if p.before != nil {
		err = p.before(ctx, config)
	}
	if err == nil {
		p.conn, err = pgx.ConnectConfig(ctx, config)
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "53300" {
		return nil // too_many_connections: the pool has some of them
	}
	if err != nil {
		p.conn = nil
		return fmt.Errorf("store: pulse: %w", Classify(err))
	}
	return nil
}

// Close ends the connection, without waiting for a server that does not answer.
func (p *Pulse) Close(ctx context.Context) {
	if p.conn == nil {
		return
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = p.conn.Close(ended)
	p.conn = nil
}
