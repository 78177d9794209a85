package sweep_test

import (
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
)

const partitionsSQL = `SELECT count(*) FROM pg_inherits WHERE inhparent IN ('finished_jobs'::regclass, 'attempts'::regclass)`

func TestPartitionsAreMadeOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.duties().Partitions()
	before := f.count(partitionsSQL)
	if before < 2*8 {
		t.Fatalf("%d partitions after the migration", before)
	}
	for range 2 {
		if _, err := p.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := f.count(partitionsSQL); after != before {
		t.Errorf("%d partitions, there were %d", after, before)
	}
}

func TestManyMakePartitionsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	before := f.count(partitionsSQL)
	f.exec(`DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT inhrelid::regclass FROM pg_inherits
			WHERE inhparent IN ('finished_jobs'::regclass, 'attempts'::regclass)
		LOOP EXECUTE 'DROP TABLE ' || name; END LOOP; END $$`)
	var group sync.WaitGroup
	for range 4 {
		p := sweep.New(celltest.OpenURL(t, f.url), f.d.Engine, counted(), quiet()).Partitions()
		group.Go(func() {
			if _, err := p.RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if after := f.count(partitionsSQL); after != before {
		t.Errorf("%d partitions, want %d", after, before)
	}
}
