package installation_test

import (
	"context"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/shared/api"
)

func read(t *testing.T, f *celltest.Fixture) ([]api.Process, installation.Checked) {
	t.Helper()
	processes, verified, err := f.Store.Processes.ReadRegistry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return processes, verified
}

func report(t *testing.T, f *celltest.Fixture, id, kind string, age time.Duration) {
	t.Helper()
	err := f.Store.Processes.ReportProcess(t.Context(), installation.Report{ID: id, Kind: kind, Address: id + ":8080", Version: "v1", Age: age})
	if err != nil {
		t.Fatal(err)
	}
}

// A process is listed once however often it reports, is lost when it stops to, and forgotten an hour later.
func TestProcesses(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	if processes, _ := read(t, f); processes == nil || len(processes) > 0 {
		t.Fatalf("before all reports: %v", processes)
	}
	report(t, f, "g", api.ProcessGateway, 0)
	report(t, f, "b", api.ProcessCore, time.Hour)
	report(t, f, "a", api.ProcessCore, 0)
	before, _ := read(t, f)
	if len(before) != 3 || before[0].ID != "a" || before[1].ID != "b" || before[2].ID != "g" {
		t.Fatalf("cores come first, by address: %+v", before)
	}
	one := before[1]
	if one.Kind != api.ProcessCore || one.Address != "b:8080" || one.Version != "v1" || one.State != api.ProcessRunning || one.SeenAt.Sub(one.StartedAt.Time) != time.Hour {
		t.Errorf("a core that has run for an hour: %+v", one)
	}
	f.Exec("UPDATE processes SET seen_at = seen_at - interval '61 seconds' WHERE id <> 'a'")
	report(t, f, "b", api.ProcessCore, 2*time.Hour)
	after, _ := read(t, f)
	if after[1].State != api.ProcessRunning || !after[1].StartedAt.Equal(one.StartedAt.Time) || !after[1].SeenAt.After(one.SeenAt.Add(-time.Second)) || after[2].State != api.ProcessLost {
		t.Errorf("one reports again, one does not: %+v", after)
	}
	f.Exec("UPDATE processes SET seen_at = seen_at - interval '1 hour' WHERE id = 'g'")
	if after, _ = read(t, f); len(after) != 2 {
		t.Errorf("lost an hour ago: %+v", after)
	}
	report(t, f, "a", api.ProcessCore, 0)
	if n := f.Count("processes"); n != 2 {
		t.Errorf("%d rows: the next report forgets what was lost long ago", n)
	}
	if err := f.Store.Processes.ForgetProcess(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if after, _ = read(t, f); len(after) != 1 || after[0].ID != "b" {
		t.Errorf("a was stopped: %+v", after)
	}
}

func TestTheLastVerificationsAreNoted(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	if _, checked := read(t, f); checked != (installation.Checked{}) {
		t.Fatalf("never verified: %+v", checked)
	}
	for _, note := range []func(context.Context, int) error{f.Store.Processes.NoteCounted, f.Store.Processes.NoteVerified} {
		for _, found := range []int{3, 0, 2} {
			if err := note(t.Context(), found); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Store.Processes.NoteCounted(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	_, checked := read(t, f)
	if checked.Verified == nil || checked.Counted == nil || checked.Verified.Violations != 2 || checked.Counted.Violations != 1 || checked.Counted.At.Before(checked.Verified.At.Time) {
		t.Fatalf("%+v %+v", checked.Verified, checked.Counted)
	}
}
