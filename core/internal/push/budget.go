package push

import (
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// budgetPart is how many quick tries a call earns its tenant, budgetMost the limit of saved
	// ones, and a tenant's initial budget.
	budgetPart = 0.1
	budgetMost = 10
	// budgetTenants bounds the memory: past it all budgets are reset.
	budgetTenants = 10_000
)

// budget limits quick tries to a tenth of each tenant's calls: repeats at once make an overload
// worse.
type budget struct {
	mu    sync.Mutex
	saved map[tenant.ID]float64
}

func (b *budget) earn(owner tenant.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.saved) > budgetTenants {
		clear(b.saved)
	}
	b.set(owner, min(b.of(owner)+budgetPart, budgetMost))
}

// spend takes a quick try and says whether there was one left.
func (b *budget) spend(owner tenant.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	saved := b.of(owner)
	if saved < 1 {
		return false
	}
	b.set(owner, saved-1)
	return true
}

func (b *budget) of(owner tenant.ID) float64 {
	if saved, known := b.saved[owner]; known {
		return saved
	}
	return budgetMost
}

func (b *budget) set(owner tenant.ID, saved float64) {
	if b.saved == nil {
		b.saved = map[tenant.ID]float64{}
	}
	b.saved[owner] = saved
}
