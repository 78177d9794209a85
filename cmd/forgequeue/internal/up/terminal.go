//go:build unix

package up

import (
	"context"
	"log/slog"
)

// withoutProbes drops the records of /readyz: up polls it until all is ready, and each refusal until then is a
// warning. The log file has them.
type withoutProbes struct{ slog.Handler }

func (h withoutProbes) Handle(ctx context.Context, record slog.Record) error {
	probe := false
	record.Attrs(func(attr slog.Attr) bool {
		probe = attr.Key == "route" && attr.Value.String() == "/readyz"
		return !probe
	})
	if probe {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h withoutProbes) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutProbes{h.Handler.WithAttrs(attrs)}
}

func (h withoutProbes) WithGroup(name string) slog.Handler {
	return withoutProbes{h.Handler.WithGroup(name)}
}
