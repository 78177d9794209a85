package jobs_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestSchedules(t *testing.T) {
	f := commandtest.New(t)
	q, name := f.Queue(), "nightly-"+f.Queue()
	f.Want(0, []string{name, "active", "30 2 * * *", "Europe/Berlin", "report.daily", "next runs", "skip"},
		"schedule", "set", name, "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--type", "report.daily", "-q", q, "--overlap", "skip", "--data", `{"n":1.50}`)
	one := commandtest.Decode[api.Schedule](f, f.Must("schedule", "get", name, "-o", "json"))
	if len(one.NextRuns) != 5 || commandtest.Compact(t, one.Job.Payload) != `{"n":1.50}` {
		t.Fatalf("%+v", one)
	}
	// In the user's own zone.
	f.Want(0, []string{one.NextRuns[0].Local().Format("2006-01-02 15:04:05 MST")}, "schedule", "get", name)
	// And in the schedule's.
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	f.Want(0, []string{one.NextRuns[0].In(berlin).Format("2006-01-02 15:04:05 MST")}, "schedule", "get", name)
	f.Want(0, []string{name, "paused"}, "schedule", "pause", name)
	f.Want(0, []string{name, "active"}, "schedule", "resume", name)
	changed := commandtest.Decode[api.Schedule](f, f.Must("schedule", "set", name, "--every", "90s", "--catch-up", "all", "-o", "json"))
	if changed.Cron != nil || *changed.EveryMS != 90_000 || changed.Overlap != api.OverlapSkip || changed.CatchUp != api.CatchUpAll || changed.Job.Type != "report.daily" {
		t.Errorf("%+v", changed)
	}
	triggered := commandtest.Decode[api.SubmitResponse](f, f.Must("schedule", "trigger", name, "--idempotency-key", name, "-o", "json"))
	again := commandtest.Decode[api.SubmitResponse](f, f.Must("schedule", "trigger", name, "--idempotency-key", name, "-o", "json"))
	if triggered.ID == "" || again.ID != triggered.ID || triggered.Queue != q {
		t.Errorf("%+v, then %+v", triggered.JobSummary, again.JobSummary)
	}
	f.Want(0, []string{"AT", "JOB", triggered.ID}, "schedule", "runs", name)
	f.Want(0, []string{name, "every 1m30s", triggered.ID}, "schedule", "--limit", "0")
	reset := commandtest.Decode[api.Schedule](f, f.Must("schedule", "set", name, "--reset", "--cron", "@hourly", "--type", "x", "-o", "json"))
	if reset.Overlap != api.OverlapAllow || reset.Job.Queue != api.DefaultQueue || reset.NextRuns[0].Truncate(time.Hour) != reset.NextRuns[0].Time {
		t.Errorf("%+v", reset)
	}
	f.Want(1, []string{"invalid_request", "cron"}, "schedule", "set", name, "--cron", "0 0 30 2 *")
	f.Want(1, []string{"invalid_request", "every_ms"}, "schedule", "set", name, "--cron", "@daily", "--every", "1m")
	f.Want(2, []string{"--data"}, "schedule", "set", name, "--data", "{")
	f.Want(0, []string{"deleted"}, "schedule", "delete", name)
	f.Want(1, []string{"not_found"}, "schedule", "get", name)
}
