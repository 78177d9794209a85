package cells

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/keys"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// compareEvery is about the pause between two comparisons of all copies with the directory: a copy
	// that a change could not reach is right again after the next one.
	compareEvery = 5 * time.Second
	comparePage  = 500
	// kickGap is the pause before a comparison that was asked for: a tenant that makes keys in a loop must
	// not keep the cells busy with it.
	kickGap = time.Second
	// compareShare: a comparison takes at most a twentieth of the time.
	compareShare = 19
	maxCompare   = 15 * time.Second
	// copyTime bounds one copying, in which the home cell is asked while the other's lock is held.
	copyTime = 5 * time.Second
)

// Target is a cell that has copies.
type Target struct {
	Name string
	// Index is the cell's place in the file.
	Index int
	Store *cell.Cell
	// Changed is called when tenants or plans were copied: their limits are to be read again.
	Changed func(context.Context)
}

// Copier copies the directory from the home cell. It is safe for concurrent use, in all cores at once.
type Copier struct {
	home   *cell.Cell
	places *Places
	log    *slog.Logger

	mu sync.Mutex
	// kicked is closed by the next Kick.
	kicked chan struct{}
}

// NewCopier makes a Copier; it copies nothing yet.
func NewCopier(home *cell.Cell, places *Places, log *slog.Logger) *Copier {
	return &Copier{home: home, places: places, log: log, kicked: make(chan struct{})}
}

// Kick asks for a comparison of all cells soon; asking often is asking once.
func (c *Copier) Kick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.kicked)
	c.kicked = make(chan struct{})
}

func (c *Copier) nextKick() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kicked
}

// Tenant copies one tenant with its plan, and notes its place. After it the cell may accept its jobs.
func (c *Copier) Tenant(ctx context.Context, owner tenant.ID, to Target) error {
	asked := time.Now()
	if err := c.tenants(ctx, []tenant.ID{owner}, to); err != nil {
		return err
	}
	c.places.Note(owner, to.Index, asked)
	return nil
}

// Plans copies the plans.
func (c *Copier) Plans(ctx context.Context, to Target) error {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	if err := to.Store.Tenants.CopyPlans(ctx, c.home.Tenants.Plans); err != nil {
		return err
	}
	to.Changed(ctx)
	return nil
}

func (c *Copier) tenants(ctx context.Context, ids []tenant.ID, to Target) error {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	if err := to.Store.Tenants.CopyPlans(ctx, c.home.Tenants.Plans); err != nil {
		return err
	}
	if err := to.Store.Tenants.Copy(ctx, ids, c.home.Tenants.Copies); err != nil {
		return err
	}
	to.Changed(ctx)
	return nil
}

// Home notes the tenants of the home cell until ctx ends: while it is down, the tenants that are not
// known are those that were made lately.
func (c *Copier) Home(ctx context.Context) error {
	return c.every(ctx, "places of tenants", func(ctx context.Context) error {
		return c.eachPage(ctx, "", func(page []tenants.Copy, asked time.Time) error {
			for i := range page {
				c.places.Note(page[i].ID, 0, asked)
			}
			return nil
		})
	})
}

// Run compares a cell's copies with the directory until ctx ends, and copies what differs.
func (c *Copier) Run(ctx context.Context, to Target) error {
	return c.every(ctx, "copies of the directory in "+to.Name, func(ctx context.Context) error { return c.Compare(ctx, to) })
}

func (c *Copier) every(ctx context.Context, what string, do func(context.Context) error) error {
	failing := false
	for {
		kicked, begun := c.nextKick(), time.Now() // before: a kick meanwhile asks for another
		err := do(ctx)
		took := min(time.Since(begun), maxCompare)
		if err != nil { // it waited for a database
			took = 0
		}
		if failed := err != nil; failed != failing && ctx.Err() == nil {
			failing = failed
			c.log.WarnContext(ctx, "the directory is compared", "what", what, "failing", failing, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-kicked:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(max(kickGap, took)):
			}
		case <-time.After(time.Duration((0.8 + 0.4*rand.Float64()) * float64(max(compareEvery, compareShare*took)))): //nolint:gosec // spreads load
		}
	}
}

// Compare compares a cell's copies once.
func (c *Copier) Compare(ctx context.Context, to Target) error {
	if same, err := c.samePlans(ctx, to); err != nil {
		return err
	} else if !same {
		if err := c.Plans(ctx, to); err != nil {
			return err
		}
	}
	err := c.eachPage(ctx, to.Name, func(own []tenants.Copy, asked time.Time) error {
		differing, err := to.Store.Tenants.Differing(ctx, own)
		if err != nil {
			return err
		}
		if len(differing) > 0 {
			if err := c.tenants(ctx, differing, to); err != nil {
				return err
			}
		}
		for i := range own {
			c.places.Note(own[i].ID, to.Index, asked)
		}
		return nil
	})
	return errors.Join(err, c.compareKeys(ctx, to))
}

func (c *Copier) samePlans(ctx context.Context, to Target) (bool, error) {
	home, err := c.home.Tenants.Plans(ctx)
	if err != nil {
		return false, err
	}
	found, err := to.Store.Tenants.Plans(ctx)
	if err != nil {
		return false, err
	}
	here := make(map[string]api.Plan, len(found))
	for _, plan := range found {
		here[plan.Name] = plan
	}
	for _, plan := range home {
		if found, there := here[plan.Name]; !there || !reflect.DeepEqual(plan, found) {
			return false, nil
		}
	}
	return true, nil
}

func (c *Copier) eachPage(ctx context.Context, cell string, do func(page []tenants.Copy, asked time.Time) error) error {
	var after tenant.ID
	for {
		asked := time.Now()
		page, err := c.home.Tenants.CopyPage(ctx, cell, after, comparePage)
		if err != nil {
			return err
		}
		if err := do(page, asked); err != nil {
			return err
		}
		if len(page) < comparePage {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

func (c *Copier) compareKeys(ctx context.Context, to Target) error {
	after := ""
	for {
		page, err := c.home.Keys.CopyPage(ctx, to.Name, after, "", comparePage)
		if err != nil {
			return err
		}
		until := ""
		if len(page) == comparePage {
			until = page[len(page)-1].KeyID
		}
		here, err := to.Store.Keys.CopyPage(ctx, "", after, until, 2*comparePage)
		if err != nil {
			return err
		}
		if !slices.Equal(page, here) {
			from := after
			bounded, cancel := context.WithTimeout(ctx, copyTime)
			err := to.Store.Keys.Copy(bounded, from, until, func(ctx context.Context) ([]keys.Copy, error) {
				return c.home.Keys.CopyPage(ctx, to.Name, from, until, 2*comparePage)
			})
			cancel()
			if err != nil {
				return err
			}
		}
		if until == "" {
			return nil
		}
		after = until
	}
}
