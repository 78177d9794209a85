package move_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/move"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
)

func (f *fixture) abort(to string) error {
	f.Helper()
	mover, end := f.mover(to, nil)
	defer end()
	return mover.Abort(f.bounded())
}

// Until the tenant has arrived, an abort leaves it as if there had been no move, and another move can begin.
func TestAnAbortUndoes(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{move.Copying, move.Draining, move.Left} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.capped()
			f.Inhabit(f.Tenant)
			f.giveBack()
			had := contents(f.Fixture, f.Tenant)
			f.upTo(phase, other)
			if err := f.submit(); (phase == move.Left) != errors.Is(err, store.ErrTenantMoved) {
				t.Errorf("before the abort: %v", err)
			}
			if err := f.abort(other); err != nil {
				t.Fatal(err)
			}
			if in := f.where(); in != "" || f.phase() != "" {
				t.Errorf("the tenant is in %q, its move %q", in, f.phase())
			}
			f.Exec(`DELETE FROM jobs WHERE id = $1`, f.late.ID)
			for table, rows := range contents(f.Fixture, f.Tenant) {
				if table != "usage_counts" && !slices.Equal(rows, had[table]) {
					t.Errorf("%s are\n%v\nand were\n%v", table, rows, had[table])
				}
			}
			for table, rows := range contents(f.there, f.Tenant) {
				if len(rows) > 0 {
					t.Errorf("%d %s are left in the target", len(rows), table)
				}
			}
			if n := f.CountOf(`SELECT count(*) FROM tenant_fences`) + f.there.CountOf(`SELECT count(*) FROM tenant_fences`); n > 0 {
				t.Errorf("%d fences are left", n)
			}
			if err := f.submit(); err != nil {
				t.Errorf("after the abort: %v", err)
			}
			if err := f.abort(other); !errors.Is(err, move.ErrNoMove) {
				t.Errorf("again: %v", err)
			}
			f.mustMove(other)
			sound(f.there, "the target")
		})
	}
}

// submit stores a job without a cap, f.late.
func (f *fixture) submit() error {
	f.Helper()
	f.late = f.Job()
	_, err := f.Store.Submits.Submit(f.bounded(), []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{f.late}, Render: celltest.Render}})
	return err
}

// Once the tenant has arrived there is no way back, even where the directory does not know yet.
func TestAnAbortThatIsTooLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inhabit(f.Tenant)
	f.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the directory does not answer'; END $$`)
	f.Exec(`CREATE TRIGGER refuse BEFORE UPDATE OF cell ON tenants FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if err := f.move(f.bounded(), other, nil); err == nil || f.phase() != move.Left {
		t.Fatalf("the move is %q: %v", f.phase(), err)
	}
	if err := f.abort(other); !errors.Is(err, move.ErrTooLate) {
		t.Errorf("it has arrived: %v", err)
	}
	f.Exec(`DROP TRIGGER refuse ON tenants`)
	for _, phase := range []string{move.Switched, move.Removing} {
		f.upTo(phase, other)
		if err := f.abort(other); !errors.Is(err, move.ErrTooLate) {
			t.Errorf("%s: %v", phase, err)
		}
	}
	f.mustMove(other)
	sound(f.there, "the target")
}

// A tenant whose deletion was asked for during its move arrives, and is deleted there.
func TestATenantIsDeletedDuringItsMove(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{move.Copying, move.Left} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Inhabit(f.Tenant)
			f.upTo(phase, other)
			ctx := audit.WithActor(f.bounded(), audit.Actor{Kind: "operator"})
			if _, err := f.Store.Tenants.Delete(ctx, f.Tenant); (phase == move.Left) != errors.Is(err, store.ErrTenantMoved) {
				t.Fatalf("delete: %v", err)
			}
			if err := f.move(f.bounded(), other, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Store.Tenants.Delete(ctx, f.Tenant); err != nil {
				t.Fatal(err)
			}
			if err := directory.Bring(ctx, f.Store.Store, f.there.Store.Store, f.Tenant); err != nil {
				t.Fatal(err)
			}
			for _, in := range []*celltest.Fixture{f.Fixture, f.there} {
				in.Exec(`UPDATE tenants SET deleting_at = now() - interval '1 hour' WHERE id = $1 AND deleting_at IS NOT NULL`, f.Tenant)
				for removed := 1; removed > 0; {
					var err error
					if removed, _, err = in.Store.Tenants.RemoveData(ctx, f.Tenant, tenants.RemovalPlace{}, 1000); err != nil {
						t.Fatal(err)
					}
				}
				for table, rows := range contents(in, f.Tenant) {
					if len(rows) > 0 && table != "audit_log" {
						t.Errorf("%d %s are left", len(rows), table)
					}
				}
			}
			sound(f.there, "the target")
		})
	}
}

// An abort that was killed is run again; no move goes on meanwhile.
func TestAKilledAbort(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inhabit(f.Tenant)
	f.upTo(move.Left, other)
	f.there.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the cell does not answer'; END $$`)
	f.there.Exec(`CREATE TRIGGER refuse BEFORE DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if err := f.abort(other); err == nil || f.phase() != move.Aborting {
		t.Fatalf("the move is %q: %v", f.phase(), err)
	}
	if err := f.submit(); err != nil {
		t.Errorf("the source serves again: %v", err)
	}
	if err := f.move(f.bounded(), other, nil); !errors.Is(err, move.ErrAborting) {
		t.Errorf("a move: %v", err)
	}
	f.there.Exec(`DROP TRIGGER refuse ON tenants`)
	if err := f.abort(other); err != nil {
		t.Fatal(err)
	}
	f.mustMove(other)
	sound(f.there, "the target")
}

// Cells of different versions are told before anything is copied; once both are migrated the move goes on.
func TestTablesThatDiffer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	f.there.Exec(`ALTER TABLE queues ADD COLUMN later integer`)
	if err := f.move(f.bounded(), other, nil); !errors.Is(err, move.ErrSchemas) {
		t.Errorf("%v", err)
	}
	f.there.Exec(`ALTER TABLE queues DROP COLUMN later`)
	f.mustMove(other)
	sound(f.there, "the target")
}
