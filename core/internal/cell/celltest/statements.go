package celltest

import (
	"context"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Statements records what a store sends, each text once, with the arguments of its first use. It is
// a store.Options.Tracer.
type Statements struct {
	mu   sync.Mutex
	seen map[string][]any
	sent int
}

// Sent counts the statements, also those that were sent before.
func (s *Statements) Sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Seen gives the statements and their arguments.
func (s *Statements) Seen() map[string][]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seen)
}

func (s *Statements) record(sql string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	if s.seen == nil {
		s.seen = map[string][]any{}
	}
	if _, known := s.seen[sql]; !known {
		s.seen[sql] = args
	}
}

// TraceQueryStart is part of the tracer.
func (s *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.record(data.SQL, data.Args)
	return ctx
}

// TraceQueryEnd is part of the tracer.
func (s *Statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart is part of the tracer.
func (s *Statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, one := range data.Batch.QueuedQueries {
		s.record(one.SQL, one.Arguments)
	}
	return ctx
}

// TraceBatchQuery is part of the tracer.
func (s *Statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd is part of the tracer.
func (s *Statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
