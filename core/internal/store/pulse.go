package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Pulse asks whether PostgreSQL answers, on a connection of its own: where the pool is exhausted by
// work, PostgreSQL still does. It is not safe for concurrent use.
type Pulse struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
}

// NewPulse makes a Pulse; it does not connect yet.
func (s *Store) NewPulse() *Pulse { return &Pulse{config: s.pool.Config().ConnConfig} }

// Beat waits for an answer until ctx ends; the next one then makes a new connection.
func (p *Pulse) Beat(ctx context.Context) error {
	if p.conn == nil {
		conn, err := pgx.ConnectConfig(ctx, p.config)
		if err != nil {
			return fmt.Errorf("store: pulse: %w", Classify(err))
		}
		p.conn = conn
	}
	if err := p.conn.Ping(ctx); err != nil {
		p.Close(ctx)
		return fmt.Errorf("store: pulse: %w", NothingChanged(Classify(err)))
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
