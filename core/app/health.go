package app

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/server/httpserver"
)

// Health asks the core that listens as cfg says, on this machine, whether it is ready. It needs no
// setting but the address: the others may be invalid.
func Health(ctx context.Context, cfg Config) error {
	return httpserver.Probe(ctx, cfg.Listen, "/readyz")
}
