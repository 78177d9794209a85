package administration

import (
	"log/slog"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/seal"
)

// Administration serves items of operators and of keys with the scope admin, and what gateways ask for themselves.
type Administration struct {
	Store  *cell.Cell
	Engine *engine.Engine
	Hints  *hints.Hints
	Logger *slog.Logger
	// Pages seals the page tokens of lists. All cores have the same keys.
	Pages *seal.Keys
	// Cell is the cell's name where the installation has several.
	Cell string
	// Cells are all cells of the installation; in its home cell only, where new tenants are placed.
	Cells []cells.Config
	// Draining says that this process is about to stop: nobody waits for the directory.
	Draining func() bool
}
