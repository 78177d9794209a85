package move_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/move"
)

// checked gives what Check says of the fixture's tenant.
func (f *fixture) checked() []string {
	f.Helper()
	lines, err := move.Check(f.bounded(), []move.Checked{{Cell: f.Store, Name: "first"}, {Cell: f.there.Store, Name: other, Key: other}})
	if err != nil {
		f.Fatal(err)
	}
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, f.Tenant.String()) })
}

// Wherever a move was killed, and after its abort or its end, everything is where the directory says.
func TestAMoveFitsAtEachPhase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inhabit(f.Tenant)
	sees := func(when string) {
		t.Helper()
		if lines := f.checked(); len(lines) > 0 {
			t.Errorf("%s: %q", when, lines)
		}
	}
	sees("before")
	for _, phase := range []string{move.Copying, move.Draining, move.Left} {
		f.upTo(phase, other)
		sees(phase)
	}
	if err := f.abort(other); err != nil {
		t.Fatal(err)
	}
	sees("after the abort")
	for _, phase := range []string{move.Switched, move.Removing} {
		f.upTo(phase, other)
		sees(phase)
	}
	f.mustMove(other)
	sees("there")
	f.mustMove("")
	sees("back")
}

// A cell or the directory that went back in time does not fit the others any more: Check says so, no move goes on over it, and
// where the tenant can be kept in its old cell, an abort does it.
func TestACellThatWentBackInTime(t *testing.T) {
	t.Parallel()
	const lost = "a part of it is lost"
	for name, back := range map[string]struct {
		phase string // up to which the tenant is moved; "" for the whole move
		// forget is what one database loses.
		forget func(f *fixture)
		says   string
		// refused: the move does not go on. stays: an abort leaves the tenant where it was.
		refused, stays bool
	}{
		"the source's fence":       {move.Left, func(f *fixture) { f.Exec(`DELETE FROM tenant_fences`) }, lost, true, true},
		"the source's closing":     {move.Left, func(f *fixture) { f.Exec(`UPDATE tenant_fences SET state = 'draining'`) }, lost, true, true},
		"the target's preparation": {move.Draining, func(f *fixture) { f.there.Exec(`DELETE FROM tenant_fences`) }, lost, true, true},
		"the target's arrival": {move.Switched, func(f *fixture) {
			f.there.Exec(`UPDATE tenant_fences SET state = 'arriving'`)
			f.there.Exec(`DELETE FROM dependencies WHERE child_id IN (SELECT id FROM jobs)`)
			f.there.Exec(`DELETE FROM job_output WHERE job_id IN (SELECT id FROM jobs)`)
			f.there.Exec(`DELETE FROM jobs`)
		}, lost, true, true},
		"the move, with the fence open": {move.Left, func(f *fixture) {
			f.Exec(`UPDATE tenant_fences SET state = 'draining'`)
			f.Exec(`DELETE FROM tenant_moves`)
		}, "takes no jobs of it", false, false},
		"the move, with the fence closed": {move.Left, func(f *fixture) { f.Exec(`DELETE FROM tenant_moves`) }, "which refuses its writes", false, false},
		"the source's removal": {"", func(f *fixture) {
			f.Exec(`DELETE FROM tenant_fences`)
			if err := f.submit(); err != nil {
				f.Fatal(err)
			}
		}, "cell first has data of it, 1 live jobs, and the directory says that it is in cell other", false, false},
		"the tenant": {"", func(f *fixture) {
			f.Exec(`DELETE FROM api_keys`)
			f.Exec(`DELETE FROM tenants WHERE id = $1`, f.Tenant)
		}, "the directory in the home cell does not know it", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Inhabit(f.Tenant)
			f.giveBack()
			had := contents(f.Fixture, f.Tenant)
			if back.phase == "" {
				f.mustMove(other)
			} else {
				f.upTo(back.phase, other)
			}
			back.forget(f)
			if lines := f.checked(); !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, back.says) }) {
				t.Errorf("%q, want %q", lines, back.says)
			}
			if !back.refused {
				return
			}
			if err := f.move(f.bounded(), other, nil); !errors.Is(err, move.ErrLost) {
				t.Errorf("the move went on: %v", err)
			}
			if err := f.abort(other); err != nil {
				t.Fatal(err)
			}
			if in := f.where(); in != "" || f.phase() != "" {
				t.Errorf("the tenant is in %q, its move %q", in, f.phase())
			}
			for table, rows := range contents(f.Fixture, f.Tenant) {
				if table != "usage_counts" && !slices.Equal(rows, had[table]) {
					t.Errorf("%s are\n%v\nand were\n%v", table, rows, had[table])
				}
			}
			if err := f.submit(); err != nil {
				t.Errorf("after the abort: %v", err)
			}
			f.mustMove(other)
			if lines := f.checked(); len(lines) > 0 {
				t.Errorf("after all: %q", lines)
			}
		})
	}
}
