package operations

import (
	"log/slog"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// Operations serves items of tenants, of their workers, and of the platform's.
type Operations struct {
	Options
	// types checks results.
	types *jobtype.Checker
}

// Options are what operations need.
type Options struct {
	Store  *cell.Cell
	Engine *engine.Engine
	Hints  *hints.Hints
	Logger *slog.Logger
	// Pages seals the page tokens of lists. All cores have the same keys.
	Pages *seal.Keys
	// Targets are the addresses that tenants name.
	Targets Targets
	// Processors are the seats in which values are checked.
	Processors *seats.Seats
	// Draining says that this process is about to stop: claims no longer wait.
	Draining func() bool
}

// Targets says which addresses queues in push mode and webhooks may have.
type Targets struct {
	// Seals encrypts the secrets of queues in push mode; nil where there are no such queues.
	Seals *seal.Keys
	// Guard says which addresses they may call.
	Guard outbound.Guard
	// Brokers are those that jobs can be published to.
	Brokers broker.Protocols
}

// New makes operations.
func New(o Options) *Operations { return &Operations{Options: o, types: newTypes(o)} }
