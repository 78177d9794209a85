package push

import (
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// budgetPart is how many quick tries a call earns its tenant, budgetMost how many
	// can be saved up, and what a tenant begins with.
	budgetPart = 0.1
	budgetMost = 10
	// budgetTenants bounds the memory: past it the savings of all begin anew.
	budgetTenants = 10_000
)

// budget keeps quick tries to a tenth of each tenant's calls: where many calls
// fail, trying them again at once makes it worse.
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

// spend says whether there is a quick try left, and takes it.
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
