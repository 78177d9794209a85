package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Waiting helps against what ends by itself, and not against a wrong setting.
func TestAwayIsWhatWaitingHelpsAgainst(t *testing.T) {
	t.Parallel()
	code := func(code string) error { return &pgconn.PgError{Severity: "FATAL", Code: code} }
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		err  error
		away bool
	}{
		"nothing listens":               {refused, true},
		"the connection is cut":         {io.ErrUnexpectedEOF, true},
		"no answer in time":             {context.DeadlineExceeded, true},
		"the host has no address":       {&net.DNSError{IsNotFound: true}, true},
		"it starts":                     {code("57P03"), true},
		"it stops":                      {code("57P01"), true},
		"too many connections":          {code("53300"), true},
		"a standby":                     {store.ErrReadOnly, true},
		"a primary of before":           {&store.WrongPrimaryError{Reason: metrics.OldTimeline}, true},
		"another system":                {&store.WrongPrimaryError{Reason: metrics.OtherSystem}, false},
		"a wrong password":              {code("28P01"), false},
		"no such role":                  {code("28000"), false},
		"no such database":              {code("3D000"), false},
		"one host away, one refuses us": {errors.Join(refused, code("28P01")), false},
		"an old version":                {errors.New("store: PostgreSQL 12 is too old; 15 or newer is needed"), false},
		"no error":                      {nil, false},
	} {
		if c.err != nil {
			c.err = fmt.Errorf("store: PostgreSQL cannot be reached: %w", c.err)
		}
		if reason := store.Away(c.err); (reason != "") != c.away {
			t.Errorf("%s: %q", name, reason)
		}
	}
}
