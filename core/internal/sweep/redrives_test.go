package sweep_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (f *fixture) redrive(rate *float64) uuid.UUID {
	f.Helper()
	made, err := f.store.DeadLetters.CreateRedrive(f.Context(), f.tenant, "", deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive, Rate: rate})
	if err != nil {
		f.Fatal(err)
	}
	return uuid.MustParse(made.ID)
}

func (f *fixture) redriveNow(id uuid.UUID) api.Redrive {
	f.Helper()
	now, err := f.store.DeadLetters.GetRedrive(f.Context(), f.tenant, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return now
}

// dead makes n dead letters.
func (f *fixture) dead(n int) {
	f.Helper()
	f.submit(n, 0, func(j *submit.NewJob) { j.MaxAttempts = 1 })
	f.dieAgain(n)
}

// A rate holds: no more than a second's worth before its time, and not much later
// either, with two cores at it. Workers are woken.
func TestRedriverKeepsTheRate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.dead(300)
	rate := 100.0
	begun := time.Now()
	id := f.redrive(&rate)
	for range 2 {
		f.run(f.duties().Redrives().Run)
	}
	celltest.Eventually(t, "the redrive to end", func() bool {
		now := f.redriveNow(id)
		if most := rate*(time.Since(begun).Seconds()+1) + rate/10; float64(now.Done) > most {
			t.Fatalf("%d rose within %v", now.Done, time.Since(begun))
		}
		return now.State == api.RedriveDone
	})
	took := time.Since(begun)
	if took < 1900*time.Millisecond {
		t.Errorf("300 at 100/s took %v", took)
	}
	if f.wakeUps() == 0 || f.count(`SELECT count(*) FROM jobs WHERE redrives = 1`) != 300 {
		t.Errorf("%d wake-ups, %d jobs", f.wakeUps(), f.count(`SELECT count(*) FROM jobs`))
	}
	t.Logf("300 at 100/s took %v", took)
}

// A failure of one does not stop the others.
func TestRedriverGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.dead(3)
	broken := f.redrive(nil)
	f.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$`)
	f.exec(`CREATE TRIGGER refuse BEFORE UPDATE OF done ON redrives FOR EACH ROW WHEN (OLD.id = '` + broken.String() + `') EXECUTE FUNCTION refuse()`)
	good := f.redrive(nil)
	f.run(f.duties().Redrives().Run)
	celltest.Eventually(t, "the good redrive to end", func() bool { return f.redriveNow(good).State == api.RedriveDone })
	if now := f.redriveNow(broken); now.State != api.RedriveRunning || now.Done != 0 {
		t.Errorf("the broken one: %+v", now)
	}
}

// The tenant's own cap holds it up, and nothing else: it says so, and goes on when
// there is capacity.
func TestRedriverWaitsUnderTheTenantsCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.dead(6)
	most := int64(2)
	if _, err := f.store.Tenants.Create(t.Context(), f.tenant, api.TenantRequest{Name: "capped"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Tenants.Patch(t.Context(), f.tenant, api.TenantPatch{Overrides: &api.Overrides{Limits: api.Limits{MaxActive: &most}}}); err != nil {
		t.Fatal(err)
	}
	if err := f.d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := f.redrive(nil)
	f.run(f.duties().Redrives().Run)
	for want := int64(2); want <= 6; want += 2 {
		celltest.Eventually(t, "two more to rise", func() bool {
			now := f.redriveNow(id)
			return now.Done == want && (now.State == api.RedriveDone || now.Waiting != nil && *now.Waiting == api.WaitingActiveCap)
		})
		if n := f.count(`SELECT count(*) FROM jobs`); n != 2 {
			t.Errorf("%d active under a cap of 2", n)
		}
		f.dieAgain(2)
	}
	if drifts, err := f.store.Counts.Verify(t.Context()); err != nil || len(drifts) != 0 {
		t.Errorf("drift %v, %v", drifts, err)
	}
}

// dieAgain has n queued jobs lose their worker on their last attempt.
func (f *fixture) dieAgain(n int) {
	f.Helper()
	f.claimAndExpire(n)
	if reaped, err := f.store.Jobs.Reap(f.Context(), time.Unix(0, 0), n, func() float64 { return 0.5 }); err != nil || len(reaped) != n {
		f.Fatal(len(reaped), err)
	}
}
