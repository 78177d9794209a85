package sweep_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What this core has counted is appended and rolled up; where nothing was counted, nothing is written.
func TestStatsAreAppendedAndRolledUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	appending, rollUp := f.duties().Stats()
	rows := func(where string) (n int) {
		t.Helper()
		if err := f.direct.QueryRow(t.Context(), `SELECT count(*) FROM job_stats WHERE `+where).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := appending.RunOnce(t.Context()); err != nil || rows("true") != 0 {
		t.Fatal(rows("true"), err)
	}
	answers := f.d.Submit(t.Context(), []submits.Call{{
		Tenant: f.tenant, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "test"}},
	}})
	if answers[0].Err != nil || answers[0].Problem != nil {
		t.Fatalf("%+v", answers[0])
	}
	for range 2 {
		if _, err := appending.RunOnce(t.Context()); err != nil || rows("grain = 0 AND submitted = 1") != 2 {
			t.Fatal(rows("true"), err)
		}
	}
	if _, err := rollUp.RunOnce(t.Context()); err != nil || rows("grain = 0") != 2 {
		t.Errorf("a minute that goes on was rolled up: %d, %v", rows("grain = 0"), err)
	}
	if _, err := f.direct.Exec(t.Context(), `UPDATE job_stats SET at = at - interval '3 days'`); err != nil {
		t.Fatal(err)
	}
	_, again := f.duties().Stats() // another core, at its first run
	for range 2 {
		if _, err := again.RunOnce(t.Context()); err != nil || rows("grain = 2 AND submitted = 1") != 2 || rows("true") != 2 {
			t.Errorf("%d hours of %d rows, %v", rows("grain = 2"), rows("true"), err)
		}
	}
}

// Days that have ended are closed, one after the other, and the one that goes on is not.
func TestDaysAreClosed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.direct.Exec(t.Context(), `UPDATE ledger_days SET day = day - 4`); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.duties().Ledger().RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	var last time.Time
	if err := f.direct.QueryRow(t.Context(), `SELECT count(*), max(day) FROM ledger_days`).Scan(&n, &last); err != nil {
		t.Fatal(err)
	}
	// yesterday, or in the first minutes of a day the one before; the test may run over midnight
	if age := time.Since(last); n < 4 || n > 6 || age < 24*time.Hour || age > 73*time.Hour {
		t.Errorf("%d days are closed, the last is %v", n, last)
	}
}
