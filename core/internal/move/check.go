package move

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// fits says whether the fences in a move's two cells are what its phase needs. They are not after one of the three
// databases went back in time, as by the failover to an asynchronous standby or the restore of a backup.
func fits(phase, source, target string) bool {
	switch phase {
	case Copying:
		return target != fenceHere
	case Draining:
		return target == fenceArriving
	case Left:
		return source == fenceLeft && (target == fenceArriving || target == fenceHere)
	case Switched:
		return source == fenceLeft && target == fenceHere
	case Removing: // which forgets that of the target at its begin, and that of the source at its end
		return (source == fenceLeft || source == "") && (target == fenceHere || target == "")
	}
	return true
}

// checkFences refuses to go on with a move whose cells have lost a part of it: what was written meanwhile would not go along.
func (m *Mover) checkFences(ctx context.Context, phase string) error {
	source, err := m.fenceOf(ctx, m.source)
	if err != nil {
		return err
	}
	target, err := m.fenceOf(ctx, m.target)
	if err != nil {
		return err
	}
	if !fits(phase, source, target) {
		return ErrLost
	}
	return nil
}

// Checked is a cell that Check looks at.
type Checked struct {
	*cell.Cell
	// Name is the file's; Key is how the directory names it, "" for the home cell.
	Name, Key string
}

// placed is what the directory says of a tenant, with the move that is under way; its phase is "" for none.
type placed struct {
	ID                          tenant.ID
	Cell, Source, Target, Phase string
}

// present is what a cell has of a tenant.
type present struct {
	ID tenant.ID
	// Fence is "" for none. Jobs are those that have not ended. Rows: it has any, of jobs, ended ones, queues or schedules.
	Fence string
	Jobs  int64
	Rows  bool
	// Copied: it has the tenant's row.
	Copied bool
}

const (
	placedSQL = `
SELECT t.id, COALESCE(t.cell, '') AS cell, COALESCE(m.source, '') AS source, COALESCE(m.target, '') AS target, COALESCE(m.phase, '') AS phase
FROM tenants AS t LEFT JOIN tenant_moves AS m ON m.tenant_id = t.id`
	presentSQL = `
SELECT k.id, COALESCE(f.state, '') AS fence, t.id IS NOT NULL AS copied,
       (SELECT count(*) FROM jobs WHERE tenant_id = k.id) AS jobs,
       EXISTS (SELECT FROM jobs WHERE tenant_id = k.id) OR EXISTS (SELECT FROM finished_jobs WHERE tenant_id = k.id)
    OR EXISTS (SELECT FROM dead_letters WHERE tenant_id = k.id) OR EXISTS (SELECT FROM queues WHERE tenant_id = k.id)
    OR EXISTS (SELECT FROM schedules WHERE tenant_id = k.id) AS rows
FROM unnest(@ids::uuid[]) AS k (id) LEFT JOIN tenant_fences AS f ON f.tenant_id = k.id LEFT JOIN tenants AS t ON t.id = k.id
ORDER BY k.id`
	// Every job's queue has a row. The nil uuid is no tenant.
	knownSQL = `
SELECT k.id, f.tenant_id IS NOT NULL AS fenced
FROM (SELECT id FROM tenants UNION SELECT tenant_id FROM queues UNION SELECT tenant_id FROM tenant_fences) AS k
LEFT JOIN tenant_fences AS f ON f.tenant_id = k.id
WHERE k.id <> '00000000-0000-0000-0000-000000000000' ORDER BY k.id`
	// presentPage is how many tenants one statement looks at.
	presentPage = 1000
)

// Check compares the directory with what the cells have, the home cell first, and gives a line for each tenant that is not where the
// directory says. It changes nothing, and may run while cores do and tenants are moved: of a tenant whose place changes
// meanwhile it says nothing. A cell that is not among those given is not looked at.
func Check(ctx context.Context, cells []Checked) ([]string, error) {
	before, err := directoryOf(ctx, cells[0].Cell)
	if err != nil {
		return nil, err
	}
	var found []misfit
	for _, one := range cells {
		some, err := misfits(ctx, one, before)
		if err != nil {
			return nil, fmt.Errorf("move: check cell %s: %w", one.Name, store.NotApplied(err))
		}
		found = append(found, some...)
	}
	after, err := directoryOf(ctx, cells[0].Cell)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, one := range cells {
		names[one.Key] = one.Name
	}
	fences := map[tenant.ID]map[string]string{}
	for _, one := range found {
		if fences[one.ID] == nil {
			fences[one.ID] = map[string]string{}
		}
		fences[one.ID][one.in.Key] = one.Fence
	}
	var lines []string
	for _, one := range found {
		if before[one.ID] != after[one.ID] {
			continue
		}
		if says := one.describe(after[one.ID], names); says != "" {
			lines = append(lines, says)
		}
	}
	return append(lines, brokenMoves(before, after, fences, names)...), nil
}

func directoryOf(ctx context.Context, home *cell.Cell) (map[tenant.ID]placed, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), home.Store, pgx.RowToStructByName[placed], placedSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("move: check the directory: %w", store.NotApplied(err))
	}
	all := make(map[tenant.ID]placed, len(rows))
	for _, row := range rows {
		all[row.ID] = row
	}
	return all, nil
}

// misfit is what a cell has of a tenant, where it may not fit what the directory says.
type misfit struct {
	present
	in Checked
}

// misfits gives what a cell has of tenants that are elsewhere, are moved, are unknown, or have a fence.
func misfits(ctx context.Context, in Checked, directory map[tenant.ID]placed) ([]misfit, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	type tenantHere struct {
		ID     tenant.ID
		Fenced bool
	}
	known, err := store.Query(ctx, in.Store, pgx.RowToStructByName[tenantHere], knownSQL, store.Args{})
	if err != nil {
		return nil, err
	}
	var suspects []tenant.ID
	for _, one := range known {
		if at, there := directory[one.ID]; !there || at.Cell != in.Key || at.Phase != "" || one.Fenced {
			suspects = append(suspects, one.ID)
		}
	}
	var found []misfit
	for page := range slices.Chunk(suspects, presentPage) {
		rows, err := store.Query(ctx, in.Store, pgx.RowToStructByName[present], presentSQL, store.Args{"ids": page})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			found = append(found, misfit{row, in})
		}
	}
	return found, nil
}

// describe is the line, "" where all is right.
func (f misfit) describe(at placed, names map[string]string) string {
	of := fmt.Sprintf("tenant %s: ", f.ID)
	switch {
	case at.ID != f.ID && (f.Rows || f.Copied):
		return of + fmt.Sprintf("cell %s has data of it, %d live jobs, and the directory in the home cell does not know it", f.in.Name, f.Jobs)
	case at.ID != f.ID:
		return ""
	case at.Phase != "" && (f.in.Key == at.Source || f.in.Key == at.Target), !f.Rows && at.Cell != f.in.Key:
		return ""
	case at.Cell != f.in.Key:
		return of + fmt.Sprintf("cell %s has data of it, %d live jobs, and the directory says that it is in cell %s", f.in.Name, f.Jobs, names[at.Cell])
	case f.Fence == fenceLeft || f.Fence == fenceArriving:
		return of + fmt.Sprintf("the directory says that it is in cell %s, which refuses its writes: its fence there is %q", f.in.Name, f.Fence)
	case f.Fence == fenceDraining:
		return of + fmt.Sprintf("cell %s takes no jobs of it, for a move of which the directory does not know", f.in.Name)
	}
	return ""
}

// brokenMoves gives a line for each move that has lost what it had done in a cell.
func brokenMoves(before, after map[tenant.ID]placed, fences map[tenant.ID]map[string]string, names map[string]string) []string {
	var lines []string
	for id, at := range after {
		if at.Phase == "" || before[id] != at || names[at.Source] == "" || names[at.Target] == "" {
			continue
		}
		source, target := fences[id][at.Source], fences[id][at.Target]
		if !fits(at.Phase, source, target) {
			lines = append(lines, fmt.Sprintf("tenant %s: its move from cell %s to cell %s is %s, and a part of it is lost: the fences are %q and %q; end it with --abort",
				id, names[at.Source], names[at.Target], at.Phase, source, target))
		}
	}
	slices.Sort(lines)
	return lines
}
