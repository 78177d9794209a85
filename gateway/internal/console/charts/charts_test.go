package charts

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	at := api.At(time.Date(2026, 11, 27, 13, 0, 0, 0, time.UTC))
	all := Jobs(SpanHour, []api.StatsItem{
		{At: at, Submitted: 3, Started: 2, Completed: 1, FailedAttempts: 1, WaitingMS: 3000, RunningMS: 500},
		{At: api.At(at.Add(time.Minute))},
	})
	drawn := ByName(all)
	counts, times := drawn["stats"], drawn["times"]
	if len(all) != 2 || *counts.Values[0][0] != 3 || *counts.Values[2][0] != 1 || counts.At[1]-counts.At[0] != 60 {
		t.Errorf("%+v", counts)
	}
	if *times.Values[0][0] != 1.5 || *times.Values[1][0] != 0.25 {
		t.Errorf("the means are %v and %v seconds", *times.Values[0][0], *times.Values[1][0])
	}
	if times.Values[0][1] != nil || all[1].Rows[1].Cells[0] != "—" { // nothing has started: a gap, and no 0
		t.Errorf("%v", all[1].Rows)
	}
}
